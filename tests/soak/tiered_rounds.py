"""The replication campaign with a tiered topic. Small segments move to a folder, and the replicas delete them, while
brokers die. New readers then read everything from the first offset, most of it from remote storage.

The folder is that of Kafka's LocalTieredStorage, so that brokers of both kinds can share it.
"""

import contextlib
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from kafka_zk.storage.records.record_batch import iter_batches
from kafka_zk.storage.tiered.local_tiered_storage import FOLDER
from tests.peers.processes import wait_until
from tests.soak import replication_clients
from tests.soak.replicated_cluster import ReplicatedCluster
from tests.soak.replication_clients import ReplicationReader
from tests.soak.replication_history import Read
from tests.soak.replication_rounds import KILL, LONG_PAUSE, PARTITIONS, PAUSE, STOP, TOPIC, ReplicationRounds

LOCAL_BYTES = 40_000
METADATA_PARTITIONS = 5
_READ_S = 120
_COPIED_S = 120
_CHECKED_S = 120


def tier_folder(cluster_folder: Path) -> Path:
    return cluster_folder / "tier"


def tiered_properties(folder: Path, replicas: int) -> dict[str, str]:
    """Properties for the brokers of a cluster in this folder. Kafka's also need the plugin's class path."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "rsm.config.dir": str(tier_folder(folder)),
        "remote.log.metadata.manager.listener.name": "CLIENT",
        "rlmm.config.remote.log.metadata.topic.num.partitions": str(METADATA_PARTITIONS),
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(replicas),
        "remote.log.manager.task.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
        "log.retention.check.interval.ms": "500",
        "min.insync.replicas": str(replicas - 1),
        "offsets.topic.replication.factor": str(replicas),
    }


class TieredRounds(ReplicationRounds):
    kind = "tiered storage"
    actions: Sequence[str] = (KILL, KILL, KILL, STOP, PAUSE, LONG_PAUSE)
    librdkafka = MappingProxyType({"batch.size": 10_000})
    """After an outage, a larger batch would not fit into a segment."""
    config = MappingProxyType({
        "remote.storage.enable": "true", "segment.bytes": "20000", "local.retention.bytes": str(LOCAL_BYTES),
    })  # fmt: skip

    def __init__(self, cluster: ReplicatedCluster, seed: int) -> None:
        self._wrong: list[str] = []
        super().__init__(cluster, seed)

    def _round(self, number: int) -> None:
        super()._round(number)
        self.read_again(f"after round {number}")

    def stop_writing(self) -> None:
        for sender in self.senders:
            sender.stop()

    def read_again(self, when: str) -> None:
        """Let new readers read from the first offset up to what is acknowledged now. ``judge`` reports violations."""
        acknowledged: dict[int, dict[int, bytes]] = defaultdict(dict)
        for sender in self.senders:
            for each in list(sender.acknowledged):
                if each.offset >= 0:
                    acknowledged[each.partition][each.offset] = each.value
        readers = replication_clients.readers(self._cluster.bootstrap, TOPIC, PARTITIONS)
        for reader in readers:
            reader.start()
        try:
            for reader in readers:
                wanted = {number: max(values) + 1 for number, values in acknowledged.items()}
                with contextlib.suppress(TimeoutError):  # ``judge`` then reports what is missing
                    wait_until(lambda: _has_read(reader, wanted), _READ_S, "the records")  # noqa: B023
        finally:
            for reader in readers:
                reader.stop()
        for reader in readers:
            faults = [*reader.failed, *misread(reader.read, acknowledged)]
            self._wrong += [f"{when}: {reader.name}: {fault}" for fault in faults]
        count = sum(map(len, acknowledged.values()))
        self._say(f"    {when}: {count} records read again; local starts {self.local_starts()}")

    def local_starts(self) -> dict[int, dict[int, int]]:
        """The first offset of each local log, by partition and broker."""
        return {
            number: {
                each.broker_id: int(files[0].stem)
                for each in self._cluster.brokers
                if (files := sorted((each.log_dir / f"{TOPIC}-{number}").glob("*.log")))
            }
            for number in range(PARTITIONS)
        }

    def judge(self, timeout_s: float = _COPIED_S) -> list[str]:
        found = super().judge(timeout_s)
        if not all(all(starts.values()) for starts in self.local_starts().values()):
            self._wrong.append(f"nothing became remote only: {self.local_starts()}")
        self._wrong += self._tier_faults()
        return [*self._wrong, *found, *(() if found or not self._wrong else [self.story()])]

    def _tier_faults(self) -> list[str]:
        """The findings of ``kafka-zk tier check``, except copies that brokers did not finish."""
        command = [sys.executable, "-m", "kafka_zk", "tier", "check", "--json", "--older-than", "PT0S"]
        where = ["--storage", str(tier_folder(self._cluster.folder)), "--bootstrap-server", self._cluster.bootstrap]
        done = subprocess.run([*command, *where], capture_output=True, text=True, timeout=_CHECKED_S, check=False)
        if not done.stdout:
            return [f"kafka-zk tier check: {done.stderr}"]
        report = json.loads(done.stdout)
        unfinished = [each for each in report["findings"] if each["kind"] == "UNFINISHED_COPY"]
        self._say(f"{report['segments']} segments in the tier, {len(unfinished)} copies unfinished")
        return [f"kafka-zk tier check: {each}" for each in report["findings"] if each not in unfinished]

    def _is_replicated(self) -> bool:
        with contextlib.suppress(FileNotFoundError):  # a segment has been deleted
            return super()._is_replicated()
        return False

    def _logs(self) -> dict[int, dict[int, bytes]]:
        """The content of each replica, after the remote records before its own."""
        tier = {number: remote_batches(tier_folder(self._cluster.folder), number) for number in range(PARTITIONS)}
        return {
            number: {broker_id: whole_log(tier[number], log) for broker_id, log in replicas.items()}
            for number, replicas in super()._logs().items()
        }


def remote_batches(tier: Path, partition: int) -> dict[int, bytes]:
    """The batches of all objects, by base offset; a failed copy may have left a part of a segment.

    Raises: AssertionError if two objects have different batches for an offset.
    """
    found: dict[int, bytes] = {}
    for path in sorted((tier / FOLDER).glob(f"{TOPIC}-{partition}-*/*.log")):
        for offset, batch in _batches(path.read_bytes()):
            assert found.setdefault(offset, batch) == batch, f"{path} has another batch at {offset}"
    return found


def whole_log(remote: dict[int, bytes], log: bytes) -> bytes:
    """A local log, after the remote batches before it."""
    local = dict(_batches(log))
    first = min(local, default=None)
    before = (batch for offset, batch in sorted(remote.items()) if first is None or offset < first)
    return b"".join(before) + log


def _batches(data: bytes) -> Iterator[tuple[int, bytes]]:
    for position, header in iter_batches(data):
        yield header.base_offset, data[position : position + header.size_bytes]


def _has_read(reader: ReplicationReader, wanted: dict[int, int]) -> bool:
    return bool(reader.failed) or all(len(reader.read[number]) >= count for number, count in wanted.items())


def misread(given: Mapping[int, Sequence[Read]], acknowledged: Mapping[int, Mapping[int, bytes]]) -> Iterator[str]:
    """Violations in records that were read from the first offset. Arguments: values by partition and offset."""
    for number, values in sorted(acknowledged.items()):
        read = given.get(number, ())
        offsets = [each.offset for each in read]
        if offsets != list(range(len(offsets))):
            wrong = next(place for place, offset in enumerate(offsets) if place != offset)
            yield f"partition {number}: was given offset {offsets[wrong]} where {wrong} follows"
        there = {each.offset: each.value for each in read}
        lost = [offset for offset, value in sorted(values.items()) if there.get(offset) != value]
        if lost:
            yield f"partition {number}: was not given {len(lost)} acknowledged records, first {lost[0]}"
