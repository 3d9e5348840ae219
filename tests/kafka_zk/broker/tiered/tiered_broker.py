"""A broker with remote storage: real logs, handlers and folders; the test controls time and faults."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, fail, maybeDeferred, succeed
from twisted.internet.task import Clock

from kafka_zk.base.rate import QuotaWindow
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.table import Dispatcher
from kafka_zk.broker.tiered.deleted_partitions import DeletedPartitions
from kafka_zk.broker.tiered.metadata_client import MetadataClient
from kafka_zk.broker.tiered.remote_log_manager import RemoteLogManager, StoragePlugin
from kafka_zk.broker.tiered.remote_log_metadata_manager import RemoteLogMetadataManager
from kafka_zk.broker.tiered.remote_reads import RemoteReads
from kafka_zk.broker.tiered.rlm_quota_manager import RLMQuotaManager
from kafka_zk.broker.tiered.storage_calls import StorageCalls
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.request import RequestHeader, response_body_position
from kafka_zk.storage.files.config_table import LONG_MAX
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.tiered.metadata_partition import METADATA_TOPIC
from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog
from kafka_zk.storage.tiered.remote_segment_reader import RemoteIndexCache, RemoteSegmentReader
from kafka_zk.storage.tiered.segment_metadata import TopicIdPartition
from kafka_zk.storage.tiered.segment_storage import LocalSegmentStorage, SegmentStorage
from tests.kafka_zk.broker.conftest import CONTEXT, build_harness
from tests.storage.helpers import T0, append, batch

R = TypeVar("R")
T = TopicPartition("t", 0)
TURN_S = 0.001


class WallClock(Clock):
    """Timers and a time of day that a test moves together. As in a reactor, a call without delay comes in the next
    turn, TURN_S later."""

    def callLater(self, delay: float, *arguments: Any, **named: Any) -> Any:
        return super().callLater(max(delay, TURN_S), *arguments, **named)

    def wall_ms(self) -> int:
        return T0 + int(self.seconds() * 1000)

    def wall_ns(self) -> int:
        return self.wall_ms() * 1_000_000


class Threads:
    """Run work immediately; while ``holds`` is True, hold it until ``release``."""

    def __init__(self) -> None:
        self.holds = False
        self.held: list[tuple[Callable[[], Any], Deferred[Any]]] = []

    def __call__(self, work: Callable[[], R]) -> "Deferred[R]":
        if not self.holds:
            return maybeDeferred(work)
        self.held.append((work, Deferred()))
        return self.held[-1][1]

    def release(self) -> None:
        held, self.held = self.held, []
        for work, done in held:
            maybeDeferred(work).chainDeferred(done)


class Connection:
    """A connection to the broker itself. ``fault``: raised instead of sending a request; ``loses``: APIs whose
    responses are lost;
    ``late``: if it is a list, Fetch responses wait until the test fires its Deferreds."""

    connected_to_broker = True

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self.fault: Exception | None = None
        self.loses: set[ApiKey] = set()
        self.late: list[Deferred[None]] | None = None

    def version_for(self, api_key: int) -> int:
        return BROKER_VERSIONS[ApiKey(api_key)][1]

    def send_raw(self, api_key: int, version: int, body_parts: Sequence[Any]) -> "Deferred[memoryview]":
        if self.fault is not None:
            return fail(self.fault)
        body = memoryview(bytearray(b"".join(body_parts)))
        answer = maybeDeferred(
            self._dispatcher.dispatch, CONTEXT, RequestHeader(ApiKey(api_key), version, 7, "rlmm"), body
        )
        answer.addCallback(self._body, ApiKey(api_key), version)
        if self.late is not None and api_key == ApiKey.FETCH:
            waiting: Deferred[None] = Deferred()
            self.late.append(waiting)
            return waiting.addCallback(lambda _: answer)
        return answer

    def _body(self, parts: list[Any], api_key: ApiKey, version: int) -> memoryview:
        if api_key in self.loses:
            raise ConnectionError("the connection was lost")
        frame = memoryview(b"".join(part if isinstance(part, bytes | bytearray) else part.read() for part in parts))
        return frame[response_body_position(frame, api_key, version) :]

    def disconnect(self) -> None:
        return None


class TieredBroker:
    """Leads one partition of the topic ``t``, with segments of two records each. ``storage``: Kafka's
    LocalTieredStorage by default."""

    def __init__(
        self,
        folder: Path,
        has_metadata_topic: bool = True,
        storage: SegmentStorage | None = None,
        **topic_keys: str,
    ) -> None:
        self.harness = build_harness(folder / "logs")
        self.replicas = self.harness.services.replicas
        defaults = replace(self.replicas.logs.default_config, remote_log_storage_system_enable=True)
        self.replicas.set_topic_defaults(defaults)
        self.clock = WallClock()
        self.connection = Connection(Dispatcher(self.harness.services))
        self.storage = storage or LocalSegmentStorage(str(folder / "remote"))
        self.remote_folder = folder / "remote"
        self.threads = Threads()
        self.created: list[str] = []
        self.index_cache_bytes = 1 << 20
        self.copy_bytes_per_second = self.fetch_bytes_per_second = LONG_MAX
        if has_metadata_topic:
            self.harness.lead(METADATA_TOPIC, 3)
        keys = {"segment.bytes": "250", "remote.storage.enable": "true"}
        keys |= {"local.retention.ms": "0", "retention.ms": "-1"}
        self.harness.configs.topics["t"] = {**keys, **{key.replace("_", "."): text for key, text in topic_keys.items()}}
        self.topic_id: uuid.UUID = self.harness.lead("t")
        self.start()

    def start(self, seed: int = 1) -> None:
        """Create the manager of a broker that has just started and knows no metadata."""
        self.client = MetadataClient(self.harness.services.metadata, lambda broker_id: succeed(self.connection))
        self.metadata = RemoteLogMetadataManager(0, self.clock, self.client)
        copies, deletions, reads = (StorageCalls(self.clock, self.threads, 2, 10) for _ in range(3))
        copy_quota = RLMQuotaManager(self.clock, lambda: self.copy_bytes_per_second, QuotaWindow())
        fetch_quota = RLMQuotaManager(self.clock, lambda: self.fetch_bytes_per_second, QuotaWindow())
        self.reader_calls = reads
        self.plugin = StoragePlugin(self.storage, copies, deletions, copy_quota)
        reader = RemoteSegmentReader(self.storage, RemoteIndexCache(self.storage, lambda: self.index_cache_bytes))
        self.reads = self.harness.services.remote_reads = RemoteReads(
            self.clock, self.metadata, reader, reads, fetch_quota
        )
        self.deleted = DeletedPartitions(self.replicas.logs, self.harness.topics, maybeDeferred)
        self.harness.services.deleted_partitions = self.deleted
        self.manager = RemoteLogManager(
            self.clock,
            self.replicas,
            self.metadata,
            self.plugin,
            lambda: self.created.append(METADATA_TOPIC),
            self.deleted,
            Random(seed),
        )

    def delete_topic(self, leader_epoch: int = -2) -> int:
        """Send StopReplica as for a deleted topic, or for a replica that moves away. Returns its error code."""
        request = codec.request(ApiKey.STOP_REPLICA)
        topic = request.StopReplicaTopicState
        state = topic.StopReplicaPartitionState(partition_index=0, leader_epoch=leader_epoch, delete_partition=True)
        states = [topic(topic_name="t", partition_states=[state])]
        whole = request(controller_id=0, controller_epoch=1, broker_epoch=1, topic_states=states)
        return int(self.harness.ask(ApiKey.STOP_REPLICA, 4, whole).partition_errors[0].error_code)

    @property
    def tp(self) -> TopicIdPartition:
        return TopicIdPartition(self.topic_id, "t", 0)

    @property
    def log(self) -> Log:
        log = self.replicas.partitions[T].log
        assert log is not None
        return log

    @property
    def remote(self) -> RemotePartitionLog:
        return self.metadata.log(self.tp)

    def fill(self, count: int) -> None:
        """Append batches of one record each; the timestamp of a record is T0 plus its offset."""
        for _ in range(count):
            append(self.log, batch(value=b"x" * 40, timestamp_ms=T0 + self.log.log_end_offset))
        self.log.follow_log_end()

    def run(self) -> None:
        """Run one round of tasks."""
        self.clock.advance(30)
        self.manager.run_tasks()
        self.clock.advance(TURN_S)

    def objects(self, suffix: str = ".log") -> list[int]:
        """The start offsets of the objects with this suffix."""
        return sorted(int(each.name[:20]) for each in self.remote_folder.rglob(f"*{suffix}"))
