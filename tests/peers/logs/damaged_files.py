"""Apache Kafka 3.9.1 and kafka-zk with damaged files: one broker starts on hundreds of log directories, one for each
damage, each with different topics.

``python -m tests.peers.logs.damaged_files`` runs both, stores results and writes ``docs/reference/damaged-files.md``.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kazoo.client import KazooClient

from kafka_zk.storage.files.filenames import (
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
)
from tests.peers import apache_kafka, targets
from tests.peers.processes import ProcessFailed, wait_until
from tests.peers.wire_probe import Connection
from tests.storage.damaged_files import (
    KAFKA,
    OURS,
    REFUSED,
    Damage,
    Outcome,
    Results,
    apply,
    damages,
    look,
    stored,
)
from tests.storage.damaged_files_page import write
from tests.storage.made_directory import (
    BROKER_CONFIG,
    CLEAN,
    CLUSTER_ID,
    NEWEST_EPOCH,
    TOPICS,
    Made,
    copy_directory,
    make,
    topic_id,
)

TARGETS = {OURS: targets.KAFKA_ZK, KAFKA: targets.APACHE_KAFKA}
_START_TIMEOUT_S = 300
_LEADERS_TIMEOUT_S = 30
#: Undamaged, so that a broker always has a directory, and the test knows when leaders are elected.
_CONTROL = "control"
_NONE, _OFFSET_OUT_OF_RANGE = 0, 1
_SERVED = (_NONE, _OFFSET_OUT_OF_RANGE, 2)  # CORRUPT_MESSAGE
_PRODUCE_VERSION = 7
_UNREADABLE = ("zeroed", "torn", "NUL tail", "garbage")
#: Kinds of damage with which a broker does not start, by broker and by file.
_STOP_A_BROKER: Mapping[str, Mapping[str, Sequence[str]]] = {
    OURS: {META_PROPERTIES: ("torn",)},
    KAFKA: {
        META_PROPERTIES: ("torn",),
        PARTITION_METADATA: ("torn", "empty"),
        "last .log": ("zeroed", "garbage", "NUL tail"),
        ".txnindex": ("garbage",),
        RECOVERY_POINT_CHECKPOINT: _UNREADABLE,
        LOG_START_OFFSET_CHECKPOINT: _UNREADABLE,
    },
}


class _Copy(NamedTuple):
    damage: Damage | None
    directory: Path
    names: Mapping[str, str]  # of the directory's topics


def run(who: str, damages: Sequence[Damage], made: Made, zookeeper: str, folder: Path) -> dict[str, Outcome]:
    """The outcome of each damage, by its name.

    One broker starts on all damages except those that ``_STOP_A_BROKER``, or that a broker names when it does not
    start; each of these gets a broker of its own. Raises: ProcessFailed if a broker does not start and names none.
    """
    together = [each for each in damages if each.kind not in _STOP_A_BROKER[who].get(each.file, ())]
    alone = [each for each in damages if each not in together]
    found: dict[str, Outcome] = {}
    attempt = folder / f"{TARGETS[who]}-{len(alone)}"
    while not found:
        try:
            found = _run_together(who, together, made, zookeeper, attempt)
        except ProcessFailed as failure:
            culprits = re.findall(rf"{attempt}/([0-9]+)\b", str(failure).rpartition("ERROR")[2])
            if not culprits:
                raise
            alone.append(together.pop(int(culprits[-1])))
            print(f"{who} does not start: {alone[-1].name}", file=sys.stderr)
            attempt = folder / f"{TARGETS[who]}-{len(alone)}"
    for number, damage in enumerate(alone):
        try:
            found |= _run_together(who, [damage], made, zookeeper, folder / f"{TARGETS[who]}-alone-{number}")
        except ProcessFailed:
            found[damage.name] = REFUSED
    return found


def _run_together(who: str, damages: Sequence[Damage], made: Made, zookeeper: str, folder: Path) -> dict[str, Outcome]:
    copies = [_copy(each, made, folder / str(number), f"d{number}-") for number, each in enumerate(damages)]
    control = _copy(None, made, folder / _CONTROL, f"{_CONTROL}-")
    chroot = "-".join(folder.parts[-2:])
    _write_topics(f"{zookeeper}/{chroot}", [*copies, control])
    directories = ",".join(str(each.directory) for each in [control, *copies])
    target = targets.start(
        TARGETS[who], zookeeper, folder, overrides={**BROKER_CONFIG, "log.dirs": directories}, chroot=chroot,
        timeout_s=_START_TIMEOUT_S,
    )  # fmt: skip
    try:
        with Connection(target.ports[0]) as connection:
            _wait_for_leaders(connection, control, copies)
            outcomes = {each.damage.name: _look_at(connection, each, made) for each in copies if each.damage}
            lost = [each for each in copies if not all(_is_served(connection, name) for name in each.names.values())]
        for each in lost:  # a directory may fail only when a file is first used
            if each.damage is not None:
                outcomes[each.damage.name] = dict.fromkeys(each.names)
        return outcomes
    finally:
        target.kill()


def _copy(damage: Damage | None, made: Made, directory: Path, prefix: str) -> _Copy:
    names = {topic: prefix + topic for topic in (damage.topics if damage else TOPICS)}
    source = made.directories[damage.ending if damage else CLEAN]
    copy_directory(source, directory, names)
    if damage is not None:
        apply(damage, directory, names.get(damage.topic or ""))
    return _Copy(damage, directory, names)


def _write_topics(zookeeper: str, copies: Sequence[_Copy]) -> None:
    """The znodes of a cluster in which broker 0 leads all topics."""
    host, _, chroot = zookeeper.partition("/")
    root = KazooClient(host)
    root.start()
    try:
        root.ensure_path(f"/{chroot}")
        _put(root, f"/{chroot}/cluster/id", {"version": "1", "id": CLUSTER_ID})
        for copy in copies:
            for topic, name in copy.names.items():
                assignment = {
                    "version": 3, "topic_id": topic_id(name), "partitions": {"0": [0]},
                    "adding_replicas": {}, "removing_replicas": {},
                }  # fmt: skip
                state = {
                    "controller_epoch": 0, "leader": 0, "version": 1, "leader_epoch": NEWEST_EPOCH, "isr": [0]
                }  # fmt: skip
                _put(root, f"/{chroot}/brokers/topics/{name}", assignment)
                _put(root, f"/{chroot}/brokers/topics/{name}/partitions/0/state", state)
                _put(root, f"/{chroot}/config/topics/{name}", {"version": 1, "config": dict(TOPICS[topic])})
    finally:
        root.stop()
        root.close()


def _put(client: KazooClient, path: str, content: object) -> None:
    client.create(path, json.dumps(content).encode(), makepath=True)


def _is_served(connection: Connection, name: str) -> bool:
    return connection.fetch(name, 0, 1, committed=False).error_code in _SERVED


def _wait_for_leaders(connection: Connection, control: _Copy, copies: Sequence[_Copy]) -> None:
    """Wait for the leaders of the undamaged directory, and then for those of the other partitions, which the controller
    elects in the same turns, if ever.
    """
    names = [name for each in [*copies, control] for name in each.names.values()]
    wait_until(
        lambda: all(_is_served(connection, name) for name in control.names.values()), _START_TIMEOUT_S, "leaders"
    )
    try:
        wait_until(lambda: all(_is_served(connection, name) for name in names), _LEADERS_TIMEOUT_S, "all", interval_s=1)
    except TimeoutError:
        return  # the other partitions are offline


def _look_at(connection: Connection, copy: _Copy, made: Made) -> Outcome:
    assert copy.damage is not None
    produced = made.produced[copy.damage.ending]
    return {
        topic: look(_PartitionReader(connection, name), produced[topic]) if _is_served(connection, name) else None
        for topic, name in copy.names.items()
    }


class _PartitionReader:
    """See ``damaged_files.Reader``."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection = connection
        self._topic = topic

    def fetch(self, offset: int, *, committed: bool) -> tuple[bytes, list[tuple[int, int]], int] | None:
        found = self._connection.fetch(self._topic, offset, 1, committed=committed)
        if found.error_code != _NONE:
            return None
        aborted = [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()]
        assert found.records is None or isinstance(found.records, bytes | memoryview)
        return bytes(found.records or b""), aborted, found.last_stable_offset if committed else found.high_watermark

    def produce(self, data: bytearray) -> int | None:
        error, offset = self._connection.produce(self._topic, 0, bytes(data), version=_PRODUCE_VERSION)
        return offset if error == _NONE else None


def main() -> None:
    results: Results = stored()
    with tempfile.TemporaryDirectory() as folder:
        made = make(Path(folder) / "made")
        server = apache_kafka.start_zookeeper(Path(folder) / "zookeeper", force_sync=False)
        try:
            for who in TARGETS:
                for name, outcome in run(who, list(damages()), made, server.connect_string, Path(folder)).items():
                    results.setdefault(name, {})[who] = outcome
        finally:
            server.stop()
    write(results)


if __name__ == "__main__":
    main()
