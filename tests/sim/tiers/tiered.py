"""A run of tiered topics: replicated partitions with small segments over an object store that fails, hangs and loses
responses; faults, then peace, and the judges of tiers and of replication.

KEPT keeps all records, almost all of them only in the bucket. EXPIRING keeps RETENTION_BYTES. RECREATED keeps all
records, but is repeatedly deleted and recreated. Records are durable before they are acknowledged, so a power loss
excuses no loss of records. ``play_tiered(seed)`` runs all of it. ``play_away(seed)`` is an hour without the object
store. Tests: tests/sim/tiers/test_tiered.py.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, cast
from uuid import UUID

import pytest
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.partition import Role
from kafka_zk.broker.tiered import remote_log_manager
from kafka_zk.broker.tiered.remote_log_metadata_manager import RemoteLogMetadataManager
from kafka_zk.clients.connection.errors import BrokerError, ClientClosed, KafkaError
from kafka_zk.clients.connection.waiting import sleep
from kafka_zk.clients.consumer.reader import Reader
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.protocol import uuids
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.znodes.topics import topic_path
from kafka_zk.sim.campaign.faults import OF_THE_STORE, STORE
from kafka_zk.sim.campaign.plan import Fault
from kafka_zk.sim.campaign.run import LIVENESS_MS, PATIENCE_MS, Outcome
from kafka_zk.sim.judges import cluster as judges
from kafka_zk.sim.machine.object_store import BUCKET
from kafka_zk.sim.machine.scheduler import Stuck
from kafka_zk.sim.world.history import Acked, Fact, Found, HandedOut
from kafka_zk.storage.files import files
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState
from tests.sim.replica_judges import EndSeen
from tests.sim.replica_samples import partitions_of
from tests.sim.replicated import BROKER, PARTITIONS, REPLICATION_FAULTS, ReplicatedRun, play_run
from tests.sim.tiers import tier_judges, tier_metadata_judges
from tests.sim.tiers.recreated_topic import RECREATED, RecreatedTopic
from tests.sim.tiers.tier_judges import KnownSegments
from tests.sim.tiers.tier_metadata_judges import MetadataRecord, MetadataWrite

KEPT, EXPIRING = "kept", "expiring"
RETENTION_BYTES = 6_000
LOCAL_RETENTION_BYTES = 1_000
SEGMENT_BYTES = 800
_TIERED = {
    "remote.storage.enable": "true",
    "min.insync.replicas": "2",
    "retention.ms": "-1",
    "segment.bytes": str(SEGMENT_BYTES),
    "local.retention.bytes": str(LOCAL_RETENTION_BYTES),
}
TOPICS: Mapping[str, Mapping[str, str]] = {
    KEPT: {**_TIERED, "retention.bytes": "-1"},
    EXPIRING: {**_TIERED, "retention.bytes": str(RETENTION_BYTES)},
}
PROPERTIES: Mapping[str, str] = MappingProxyType({
    **BROKER,
    "auto.create.topics.enable": "false",  # a producer would create RECREATED, without a tier
    "log.flush.interval.messages": "1",
    "log.index.interval.bytes": "200",
    "min.insync.replicas": "2",  # of __remote_log_metadata, too
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "rsm.config.dir": BUCKET,
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "remote.log.manager.task.interval.ms": "1000",
})  # fmt: skip
TIER_FAULTS = (*(kind for kind in REPLICATION_FAULTS if kind != "clock"), *OF_THE_STORE, *OF_THE_STORE)
"""Half of the faults concern the store. Jumps of a broker's clock are left out, because retention could delete anything
then.
"""
COPY_TIMEOUT_S, DELETE_TIMEOUT_S, ABANDONED_AFTER_MS = 8.0, 6.0, 32_000
"""Shorter than the product's values, which are meant for segments of a gigabyte. A call of the simulated store may hang
for 20 s.
"""
TIDY_MS = 120_000
"""Time after peace in which abandoned copies must be deleted and all closed segments copied."""
LOOKS_EVERY_S = 0.5
AWAY_MS = 3_600_000
AWAY_INTERVAL_MS = 30_000


def text(record: ConsumerRecord) -> str:
    assert record.value is not None
    return str(record.value.decode())


class TieredRun(ReplicatedRun):
    """The state of a run; faults act on it as on a ``Run``."""

    topics = TOPICS
    properties = PROPERTIES
    kinds = TIER_FAULTS
    faults_ms = 30_000
    reads_every_s = 0.2
    tidy_ms = TIDY_MS
    sequences = ("late-orders", "lag", "depose", "outlived", "unnoticed")
    reader_options = MappingProxyType({"auto_offset_reset": "none", "max_partition_fetch_bytes": 2_000})

    def __init__(self, seed: int, plan: Sequence[Fault] | None, kinds: Iterable[str]) -> None:
        super().__init__(seed, plan, kinds)
        self.warnings: list[str] = []
        self.metadata_writes: list[MetadataWrite] = []
        self._most_ends: dict[TopicPartition, int] = {}
        self._removed: set[str] = set()
        self._seen_finished: set[UUID] = set()

    def begin(self) -> None:
        world = self.world
        world.disk.make_directory(BUCKET)
        world.disk.fault = world.object_store.fault
        world.object_store.removed = self._object_removed
        super().begin()
        self._begin_recreating()
        world.scheduler.clock.callLater(LOOKS_EVERY_S, self._look)

    def _begin_recreating(self) -> None:
        self._recreated = RecreatedTopic(self.world, self._tool, TOPICS[KEPT], self.note)
        self.producers.append(self._recreated.producer)

    def _stop_recreating(self) -> None:
        self._recreated.stop()

    def _topic_ids(self) -> set[UUID]:
        """The ids of existing tiered topics."""
        tree = self.world.zookeeper.tree
        names = [name for name in (*self.topics, RECREATED.topic) if tree.exists(topic_path(name)) is not None]
        ids = [self._assignment(name).topic_id for name in names]
        return {uuids.from_text(each) for each in ids if each is not None}

    def _state_written(self, path: str, session_id: int) -> None:
        if f"/{RECREATED.topic}/" not in path:  # its leader epochs begin again
            super()._state_written(path, session_id)

    def _writable(self) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for topic in self.topics for number in range(PARTITIONS)]

    def logged(self, event: LogEvent) -> None:
        if str(event.get("log_namespace", "")).startswith("kafka_zk.broker.tiered"):
            self.warnings.append(formatEvent(event))
            self.note(f"logged: {self.warnings[-1]}")

    # -- readers --------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Repeatedly read some records from a random offset on. Most of them are only in the bucket."""
        process = self._reader_process
        while True:
            try:
                asked_ms = self.world.now_ms
                ends = await self._reader.end_offsets(self._writable())
                self.ends += [EndSeen(asked_ms, tp, offset) for tp, offset in ends.items()]
                tp = self.random.choice(self._writable())
                start = (await self._reader.beginning_offsets([tp]))[tp]
                if start < ends[tp]:
                    await self._read_from(tp, self.random.randrange(start, ends[tp]))
                await sleep(process, self.reads_every_s)
            except ClientClosed:
                return
            except KafkaError as error:
                self.note(f"the reader fails: {error}")
                await sleep(process, 0.5)

    async def _read_from(self, tp: TopicPartition, offset: int) -> None:
        self._reader.assign({tp: offset})
        for _ in range(3):
            try:
                records = await self._reader.poll(1_000)
            except BrokerError as error:
                if error.code is ErrorCode.OFFSET_OUT_OF_RANGE and tp.topic == KEPT:
                    self.broken.append(f"{self.world.now_ms:.3f}: {tp}@{offset} cannot be read: {error}")
                raise
            self._handed_out("reader", records)
            self.broken += tier_judges.consecutive(self.world.now_ms, tp, offset, [each.offset for each in records])
            offset = records[-1].offset + 1 if records else offset

    def _handed_out(self, reader: str, records: Iterable[ConsumerRecord]) -> None:
        for record in records:
            self.history.add(HandedOut(self.world.now_ms, reader, record.tp, record.offset, text(record)))

    async def _read_all(self) -> list[Found]:
        world = self.world
        process = world.process("last-reader")
        reader = Reader(
            process, connect=world.connect_from(process), bootstrap_servers=world.bootstrap, auto_offset_reset="none"
        )
        found: list[Found] = []
        for tp, end in (await reader.end_offsets(self._writable())).items():
            records: list[ConsumerRecord] | None = None
            while records is None:
                records = await self._read_partition(reader, tp, end)
            self._handed_out("last-reader", records)
            found += [Found(tp, record.offset, text(record)) for record in records]
        await reader.close()
        return found

    async def _read_partition(self, reader: Reader, tp: TopicPartition, end: int) -> list[ConsumerRecord] | None:
        """All records of a partition; None if retention deletes its beginning during the read."""
        start = (await reader.beginning_offsets([tp]))[tp]
        if tp.topic == KEPT and start:
            self.broken.append(f"{self.world.now_ms:.3f}: {tp} begins at {start}")
        reader.assign({tp: start})
        found: list[ConsumerRecord] = []
        try:
            async for records in reader.batches({tp: end}):
                found += records
        except BrokerError as error:
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE and tp.topic == EXPIRING:
                return None
            raise
        self.broken += tier_judges.consecutive(self.world.now_ms, tp, start, [record.offset for record in found])
        return found

    # -- observations ---------------------------------------------------------------------------------------------

    def _known_segments(self) -> list[KnownSegments]:
        """The remote log metadata that each serving broker has read."""
        known: list[KnownSegments] = []
        for broker in self.world.brokers.values():
            if broker.is_started and broker.broker is not None:
                reads = cast(Any, broker.broker.services.remote_reads)
                partitions = reads._metadata._partitions.values()
                logs = [log for each in partitions for log in each.metadata.partitions.values()]
                known.append({segment_id: segment for log in logs for segment_id, segment in log.segments.items()})
        return known

    def _object_removed(self, path: str) -> None:
        if not files.exists(path):
            return  # all replicas of a deleted topic remove its objects
        self._removed.add(path)
        known = self._known_segments()
        self.broken += tier_judges.removed(self.world.now_ms, path, known)
        if f"/{EXPIRING}-" not in path:
            finished = self._seen_finished.union(*map(tier_judges.finished, known))
            self.broken += tier_judges.kept(self.world.now_ms, path, finished, self._topic_ids())

    def metadata_written(self, write: MetadataWrite) -> None:
        """A broker begins to write."""
        self.metadata_writes.append(write)
        segment_tp = write.record.segment_id.tp
        replicas = self.replicas_of(TopicPartition(segment_tp.topic, segment_tp.partition)).values()
        watermarks = [replica.log.high_watermark for replica in replicas if replica.log is not None]
        if watermarks:
            self.broken += tier_metadata_judges.committed(write, max(watermarks))

    def _look(self) -> None:
        finished = [
            segment
            for known in self._known_segments()
            for segment_id, segment in known.items()
            if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED and segment_id not in self._seen_finished
        ]
        self._seen_finished |= {segment.segment_id.id for segment in finished}
        self.broken += tier_judges.complete(self.world.now_ms, finished, self._removed)
        for tp, log in self._led():
            kept_bytes = RETENTION_BYTES if tp.topic == EXPIRING else None
            end = log.log_end_offset if tp == RECREATED else max(log.log_end_offset, self._most_ends.get(tp, 0))
            self._most_ends[tp] = end
            self.broken += tier_judges.log_start(self.world.now_ms, tp, log.log_start_offset, end, kept_bytes)
        self.world.scheduler.clock.callLater(LOOKS_EVERY_S, self._look)

    def _led(self) -> Iterator[tuple[TopicPartition, Log]]:
        names = (*self.topics, RECREATED.topic)
        for broker in self.world.brokers.values():
            for tp, partition in partitions_of(broker).items():
                if tp.topic in names and partition.role is Role.LEADER and partition.log is not None:
                    yield tp, partition.log

    # -- peace ----------------------------------------------------------------------------------------------------

    def settle_replicas(self) -> dict[TopicPartition, list[Found]]:
        """Settle as without tiers; then judge the bucket, and read everything again."""
        self._stop_recreating()
        super().settle_replicas()
        deadline_ms = self.world.now_ms + self.tidy_ms
        while faults := self._untidy():
            if self.world.now_ms > deadline_ms:
                raise Stuck(f"after {self.tidy_ms} ms: {'; '.join(faults)}")
            self.world.run_for(PATIENCE_MS)
        self.note(f"tiers: {len(self.world.disk.everything(BUCKET))} objects, {len(self._removed)} removed")
        for tp, log in self._led():
            self.note(f"tier of {tp}: {log.log_start_offset} to {log.local_log_start_offset} of {log.log_end_offset}")
        return judges.by_partition(self.world.run(self._read_all(), LIVENESS_MS))

    def _untidy(self) -> list[str]:
        found = [
            fault
            for tp, log in self._led()
            for fault in tier_judges.lag(tp, log, LOCAL_RETENTION_BYTES + 2 * SEGMENT_BYTES)
        ]
        known: dict[UUID, RemoteLogSegmentMetadata] = {}
        for each in self._known_segments():
            known.update(each)
        return found + tier_judges.orphans(known, self.world.disk.everything(BUCKET), self._topic_ids())

    def judged_facts(self) -> list[Fact]:
        """The history without records that retention has deleted."""
        starts = {tp: log.log_start_offset for tp, log in self._led_at_the_end}
        return [
            fact
            for fact in super().judged_facts()
            if not isinstance(fact, Acked | HandedOut) or fact.offset >= starts.get(fact.tp, 0)
        ]

    def stop(self) -> None:
        self._led_at_the_end = list(self._led())
        super().stop()


@contextmanager
def _heard_writes(run: TieredRun) -> Iterator[None]:
    """Record the brokers' writes to the remote log metadata, and when they have read them back."""
    original = RemoteLogMetadataManager.write

    async def write(self: RemoteLogMetadataManager, record: MetadataRecord) -> None:
        written = MetadataWrite(run.world.now_ms, self._broker_id, record)
        run.metadata_written(written)
        await original(self, record)
        written.read_ms = run.world.now_ms

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RemoteLogMetadataManager, "write", write)
        yield


@contextmanager
def _quick_timeouts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote_log_manager, "COPY_TIMEOUT_S", COPY_TIMEOUT_S)
        patch.setattr(remote_log_manager, "DELETE_TIMEOUT_S", DELETE_TIMEOUT_S)
        patch.setattr(remote_log_manager, "_ABANDONED_AFTER_MS", ABANDONED_AFTER_MS)
        yield


class AwayRun(TieredRun):
    """An hour without the object store, and no other fault. The cluster is less busy than in other runs."""

    properties = MappingProxyType({
        **PROPERTIES,
        "remote.log.manager.task.interval.ms": str(AWAY_INTERVAL_MS),
        "replica.fetch.wait.max.ms": "5000",
        "replica.lag.time.max.ms": "20000",
        "replica.socket.timeout.ms": "30000",
    })  # fmt: skip
    send_every_s = (2.0, 6.0)
    reads_every_s = 60.0
    faults_ms = AWAY_MS + 60_000
    tidy_ms = TIDY_MS + remote_log_manager._MOST_ROUNDS_PAUSED * AWAY_INTERVAL_MS
    """The next attempt to copy may be a whole pause away when the store returns."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, [Fault(30_000, "store-away", STORE, AWAY_MS)], ())

    def _begin_recreating(self) -> None:
        """Do nothing: an hour would have hundreds of topics."""

    def _stop_recreating(self) -> None:
        pass

    def repeated(self) -> list[str]:
        """Warnings that were logged more than once for a partition."""
        counts = Counter(self.warnings)
        return [f"the log says {count} times: {warning}" for warning, count in counts.items() if count > 1]


def play_tiered(
    seed: int,
    plan: Sequence[Fault] | None = None,
    kinds: Iterable[str] = TIER_FAULTS,
) -> Outcome:
    """Play one run. ``plan``: faults instead of those that the seed draws from ``kinds``."""
    with _quick_timeouts():
        return _played(TieredRun(seed, plan, kinds))


def play_away(seed: int) -> Outcome:
    """Play an hour without the object store."""
    with _quick_timeouts():
        run = AwayRun(seed)
        outcome = _played(run)
        outcome.violations += run.repeated()
        return outcome


def _played(run: TieredRun) -> Outcome:
    observer = cast(ILogObserver, run.logged)
    globalLogPublisher.addObserver(observer)
    try:
        with _heard_writes(run):
            outcome = play_run(run)
    finally:
        globalLogPublisher.removeObserver(observer)
    outcome.violations += tier_metadata_judges.attempts(run.metadata_writes)
    outcome.violations += tier_metadata_judges.leaders(run.metadata_writes, run.history.facts, RECREATED.topic)
    outcome.violations += tier_metadata_judges.copies(run.metadata_writes, run.history.facts)
    return outcome
