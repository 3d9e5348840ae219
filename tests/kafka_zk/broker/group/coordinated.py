"""A coordinator over real logs in a folder, on virtual time."""

import uuid
from collections.abc import Awaitable, Coroutine
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred, succeed

from kafka_zk.base.events import Event, EventSource
from kafka_zk.base.types import LogAppendInfo, TopicPartition
from kafka_zk.broker.group.config import CoordinatorConfig, GroupConfig
from kafka_zk.broker.group.coordinator import GroupCoordinator
from kafka_zk.broker.group.partitions import OFFSETS_TOPIC
from kafka_zk.broker.group.records import OffsetAndMetadata
from kafka_zk.broker.group.reporter import GroupReporter
from kafka_zk.broker.group.requests import JoinGroup, JoinResult, SyncGroup, SyncResult
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.broker.replica.manager import LeaderState, ReplicaManager
from kafka_zk.broker.replica.partition import LeaderAndIsrPartitionState
from kafka_zk.broker.replica.purgatory import Purgatory
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.sim.machine.scheduler import VirtualClock
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.hosted_logs import LogCallbacks
from kafka_zk.storage.manager.log_manager import LogManager
from kafka_zk.storage.records.record_batch import RecordBatchBuilder, iter_batches
from kafka_zk.storage.records.record_decoder import Record, decode_records

EPOCH_MS = 1_700_000_000_000
SESSION_MS = 10_000
NO_DELAY = CoordinatorConfig(GroupConfig(initial_rebalance_delay_ms=0), partition_count=1)
P0 = TopicPartition(OFFSETS_TOPIC, 0)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class World:
    """One broker's groups; another ``start`` in the same folder is a restart."""

    def __init__(self, folder: Path, config: CoordinatorConfig = NO_DELAY) -> None:
        self.folder = folder
        self.config = config
        self.clock = VirtualClock(EPOCH_MS)
        self.events: list[Event] = []
        self.start()

    def start(self) -> None:
        """Start the process; it leads no partition yet."""
        logs = LogManager(
            [self.folder],
            LogConfig(),
            broker_id=0,
            cluster_id="c",
            clock_ms=self.clock.wall_ms,
            callbacks=LogCallbacks(
                on_directory_failure=lambda directory, error, lost: self.replicas.directory_failed(lost)
            ),
        )  # fmt: skip
        logs.start({})
        self.logs = logs
        self.metadata = MetadataCache()
        self.replicas = ReplicaManager(
            0, logs, self.clock, Purgatory(self.clock), lambda work: succeed(work()), self.metadata
        )
        source = EventSource("broker-0", self.events.append, self.clock.wall_ms)
        self.coordinator = GroupCoordinator(
            self.config, self.clock, self.replicas, self.metadata, report=GroupReporter(source).report
        )
        self.replicas.role_listeners.append(self.coordinator.role_changed)

    def stop(self) -> None:
        """Stop the process cleanly."""
        self.coordinator.close()
        self.logs.shutdown(1)

    def lead(self, *, leader: int = 0, epoch: int = 0, properties: dict[str, str] | None = None) -> None:
        """Send LeaderAndIsr for partition 0, and run the calls that are due."""
        state = LeaderAndIsrPartitionState(leader, epoch, 1, 0, [0], [0], True)
        states = [LeaderState(P0, OFFSETS_ID, state, properties or {})]
        assert [code for _, code in self.replicas.become_leader_or_follower(states)] == [ErrorCode.NONE]
        self.turns()

    def turns(self, count: int = 200) -> None:
        """Let the reactor run pending calls; the clock does not advance."""
        for _ in range(count):
            self.clock.advance(0)

    @property
    def log(self) -> Log:
        return self.replicas.partition(P0).leader_log()

    def write(self, *records: tuple[bytes, bytes | None], **builder: Any) -> None:
        """Append a batch that the coordinator did not write."""
        batch = RecordBatchBuilder(**builder)
        for key, value in records:
            batch.append(EPOCH_MS, key, value)
        answer = self.replicas.append_own(P0, Log.append_own_batch, bytearray(batch.build()), 0, 1000)
        assert isinstance(answer, LogAppendInfo)

    def records(self) -> list[Record]:
        """All records of the log."""
        found = self.log.read(0, 1 << 20).slice
        data = b"" if found is None else found.read()
        return [record for position, _ in iter_batches(data) for record in decode_records(data, position)]

    # -- members ------------------------------------------------------------------------------------------------------

    def begin_join(self, member_id: str = "", group: str = "g", **fields: Any) -> "Deferred[JoinResult]":
        fields = {
            "group_instance_id": None, "client_id": "c", "client_host": "/127.0.0.1",
            "session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": 30_000, "protocol_type": "consumer",
            "protocols": (("range", SUBSCRIBED_TO_T),), "requires_known_member_id": False, **fields,
        }  # fmt: skip
        request = JoinGroup(member_id, "", **fields)
        return ensureDeferred(self.coordinator.join(group, request))

    def join(self, member_id: str = "", group: str = "g", **fields: Any) -> JoinResult:
        """The result of a JoinGroup that does not wait."""
        result: JoinResult = now(self.begin_join(member_id, group, **fields))
        return result

    def sync(self, joined: JoinResult, assignments: dict[str, bytes] | None = None, group: str = "g") -> SyncResult:
        request = SyncGroup(joined.member_id, joined.generation_id, assignments=assignments)
        result: SyncResult = done(self.coordinator.sync(group, request))
        return result

    def stable_member(self, group: str = "g") -> JoinResult:
        """One member with an assignment."""
        joined = self.join(group=group)
        assert joined.error is ErrorCode.NONE
        assert self.sync(joined, {joined.member_id: b"all"}, group).assignment == b"all"
        return joined

    def heartbeat(self, joined: JoinResult, group: str = "g") -> ErrorCode:
        return self.coordinator.heartbeat(group, joined.member_id, None, joined.generation_id)


OFFSETS_ID = uuid.UUID(int=9)
SUBSCRIBED_TO_T = b"\0\1" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"


def committed(offset: int, metadata: str = "", at_ms: int = EPOCH_MS, expires_ms: int = -1) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, -1, metadata, at_ms, expires_ms)


def now(waiting: "Deferred[Any]") -> Any:
    """The result of a Deferred that has fired."""
    results: list[Any] = []
    waiting.addBoth(results.append)
    assert results, "not answered yet"
    return results[0]


def done(work: "Coroutine[Any, Any, Any] | Awaitable[Any]") -> Any:
    return now(ensureDeferred(work))  # type: ignore[arg-type]
