"""A broker's services without a network: real logs in a temporary folder, an in-memory ZooKeeper, a Clock."""

import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.task import Clock

from kafka_zk.base.clock import wall_ms
from kafka_zk.base.events import SILENT, EventSource
from kafka_zk.base.rate import QuotaWindow
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.dynamic_config import DynamicBrokerConfig
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.controller.feature_updates import apply_updates
from kafka_zk.broker.controller.operations import AllocateProducerIds, ControllerOperation, UpdateFeatures
from kafka_zk.broker.group.config import CoordinatorConfig
from kafka_zk.broker.group.coordinator import GroupCoordinator
from kafka_zk.broker.group.offsets_topic import OffsetsTopic
from kafka_zk.broker.group.reporter import GroupReporter
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.handlers.table import Dispatcher
from kafka_zk.broker.handlers.transactions.write_txn_markers import write
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.broker.process.live_config import LiveConfig
from kafka_zk.broker.quota.client_quotas import ClientQuotas
from kafka_zk.broker.quota.enforcement import Enforcement
from kafka_zk.broker.quota.quota_configs import QuotaConfigs
from kafka_zk.broker.replica.fetch_session import FetchSessions
from kafka_zk.broker.replica.log_cleaner import LogCleaner, LogCleanerSettings
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.replica.purgatory import Purgatory
from kafka_zk.broker.replica.replica_alter_log_dirs_manager import ReplicaAlterLogDirsManager
from kafka_zk.broker.replica.transaction_markers import TransactionMarker
from kafka_zk.broker.security.authorizer import NoAuthorizer
from kafka_zk.broker.security.scram_credentials import ScramCredentials
from kafka_zk.broker.transaction.config import TransactionConfig
from kafka_zk.broker.transaction.coordinator import CoordinatorHost, TransactionCoordinator
from kafka_zk.broker.transaction.marker_channels import TxnMarker, Written
from kafka_zk.broker.transaction.producer_ids import ProducerIdManager
from kafka_zk.broker.transaction.state_topic import TransactionStateTopic
from kafka_zk.network.connection_quotas import ConnectionQuotas
from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader, response_body_position
from kafka_zk.registry.client.errors import NoAuth, RegistryError
from kafka_zk.registry.offsets import StoredOffset
from kafka_zk.registry.znodes.topics import TopicAssignment
from kafka_zk.sim.machine.scheduler import VirtualClock
from kafka_zk.storage.manager.hosted_logs import LogCallbacks
from kafka_zk.storage.manager.log_manager import LogManager
from kafka_zk.storage.records.record_batch import RecordBatchBuilder

R = TypeVar("R")

CONTEXT = RequestContext("PLAINTEXT", "PLAINTEXT", "User:ANONYMOUS", "127.0.0.1", 1, "test")


class FakeController:
    is_active = True

    async def handle_controlled_shutdown(self, broker_id: int, broker_epoch: int) -> Iterable[TopicPartition]:
        return []

    async def carry_out(self, operation: ControllerOperation[Any]) -> Any:
        match operation:
            case AllocateProducerIds():
                return range(1000, 2000)
            case UpdateFeatures(updates):
                return apply_updates(updates, {"left": 1})[1]
            case _:
                raise ApiError(ErrorCode.NOT_CONTROLLER)

    def allow_unclean_elections(self, *, by_default: bool) -> None:
        return None


class FakeConfigs:
    """The config registry without ZooKeeper; it sends no notifications."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[str, str]] = {}
        self.brokers: dict[str, dict[str, str]] = {}
        self.users: dict[str, dict[str, str]] = {}
        self.clients: dict[str, dict[str, str]] = {}
        self.ips: dict[str, dict[str, str]] = {}
        self.hidden: set[tuple[str, str]] = set()

    async def entities(self, entity_type: str, names: list[str]) -> dict[str, dict[str, str]]:
        stored = getattr(self, entity_type)
        return {name: stored.get(name, {}) for name in names if (entity_type, name) not in self.hidden}

    async def synced_entities(self, entity_type: str, names: list[str]) -> dict[str, dict[str, str]]:
        return await self.entities(entity_type, names)

    async def entity(self, entity_type: str, name: str) -> dict[str, str]:
        return (await self.entities(entity_type, [name]))[name]

    async def change_entity(self, entity_type: str, name: str, properties: dict[str, str]) -> None:
        getattr(self, entity_type)[name] = dict(properties)

    async def entity_names(self, entity_type: str) -> list[str]:
        return sorted({name.partition("/")[0] for name in getattr(self, entity_type)})

    async def names_of_clients_of_users(self) -> list[str]:
        return sorted(name for name in self.users if "/" in name)

    async def update_entity(
        self,
        entity_type: str,
        name: str,
        change: Callable[[dict[str, str]], dict[str, str]],
        *,
        removes_empty: bool = False,
    ) -> None:
        stored = getattr(self, entity_type)
        await self.change_entity(entity_type, name, change(stored.get(name, {})))
        if removes_empty and not stored[name]:
            del stored[name]


class FakeControllerEpochs:
    """``/controller_epoch``: every epoch up to ``stored`` is in use. ``failure``: the error that a read raises."""

    def __init__(self, stored: int = 2**31 - 1) -> None:
        self.stored = stored
        self.newest = -1
        self.failure: RegistryError | None = None

    async def confirm(self, epoch: int) -> bool:
        if epoch > self.newest:
            if self.failure is not None:
                raise self.failure
            self.newest = max(self.newest, self.stored)
        return epoch <= self.newest


class FakeTopics:
    """The writing side of the topic registry; it has no watches."""

    def __init__(self) -> None:
        self.created: dict[str, Any] = {}
        self.ordered_deletions: list[str] = []
        self.assigned: dict[str, TopicAssignment] = {}

    async def create_topic(self, name: str, assignment: Any, topic_id: str, config_values: Any) -> None:
        self.created[name] = (assignment, topic_id, config_values)

    async def missing(self, names: Iterable[str]) -> set[str]:
        return {name for name in names if name not in self.created}

    async def request_deletion(self, name: str) -> None:
        self.ordered_deletions.append(name)

    async def deletions(self) -> list[str]:
        return self.ordered_deletions

    async def assignments(self, names: Iterable[str]) -> dict[str, TopicAssignment]:
        return {name: self.assigned[name] for name in names if name in self.assigned}

    async def add_partitions(self, name: str, added: dict[int, list[int]]) -> None:
        before = self.assigned[name]
        self.assigned[name] = TopicAssignment({**before.partitions, **added}, before.topic_id)


class FakeOffsets:
    """A group's offset registry without ZooKeeper."""

    stored: ClassVar[dict[str, dict[TopicPartition, int]]] = {}
    failure: ClassVar[RegistryError | None] = None
    hidden: ClassVar[frozenset[TopicPartition]] = frozenset()

    def __init__(self, group: str) -> None:
        self._stored = self.stored.setdefault(group, {})

    async def store(self, offsets: dict[TopicPartition, int]) -> None:
        if self.failure is not None:
            raise self.failure
        self._stored.update(offsets)

    async def fetch_visible(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[TopicPartition, StoredOffset], dict[TopicPartition, NoAuth]]:
        if self.failure is not None:
            raise self.failure
        hidden = {tp: NoAuth(str(tp)) for tp in partitions if tp in self.hidden}
        return {tp: StoredOffset(self._stored[tp], 0) for tp in partitions if tp in self._stored}, hidden


class FakeMarkers:
    """The brokers that write markers. ``codes``: partition -> error code, for partitions whose marker is not written.
    ``services``: those of the broker that writes all other markers.
    """

    def __init__(self) -> None:
        self.written: list[TxnMarker] = []
        self.codes: dict[TopicPartition, ErrorCode] = {}
        self.services: Services | None = None

    def write(self, broker_id: int, markers: Sequence[TxnMarker]) -> Written | Awaitable[Written]:
        if self.services is not None:
            return write(self.services, [(TransactionMarker(*each[:4]), each.tps) for each in markers])
        self.written += markers
        return {each.producer_id: {tp: self.codes.get(tp, ErrorCode.NONE) for tp in each.tps} for each in markers}


class HandClock(Clock):
    """Timers that the test advances, and the machine's real wall clock, whose cost request_cost.py measures."""

    wall_ms = staticmethod(wall_ms)
    wall_ns = staticmethod(time.time_ns)

    def callLater(self, delay: float, *arguments: Any, **keywords: Any) -> Any:
        assert delay >= 0, "a reactor refuses it"
        return super().callLater(delay, *arguments, **keywords)


@dataclass
class Harness:
    """``ask`` sends a request as a client would and returns the decoded response."""

    services: Services
    clock: HandClock | VirtualClock
    configs: FakeConfigs
    topics: FakeTopics
    markers: FakeMarkers

    def start(
        self, api_key: ApiKey, version: int, request: Any, context: RequestContext = CONTEXT
    ) -> "Deferred[Any]":
        body = memoryview(bytearray(codec.encode_body(request, api_key, version)))
        header = RequestHeader(api_key, version, 7, "client")
        dispatched = maybeDeferred(Dispatcher(self.services).dispatch, context, header, body)
        return dispatched.addCallback(_decoded, api_key, version)

    def ask(self, api_key: ApiKey, version: int, request: Any) -> Any:
        answer: list[Any] = []
        self.start(api_key, version, request).addCallback(answer.append)
        assert answer, "not answered yet"
        return answer[0]

    def lead(self, topic: str, partitions: int = 1, **state: Any) -> uuid.UUID:
        """Make this broker the leader, and add the topic to its metadata cache, as a controller does. Returns the
        topic's id."""
        topic_id = uuids.random_topic_id()
        fields = {"controller_epoch": 1, "leader": 0, "leader_epoch": 0, "isr": [0], "replicas": [0], **state}
        self.ask(ApiKey.LEADER_AND_ISR, 7, leader_and_isr(topic, topic_id, partitions, fields))
        self.ask(ApiKey.UPDATE_METADATA, 8, update_metadata(topic, topic_id, partitions, fields))
        return topic_id

    def lead_again(self, topic: str, topic_id: uuid.UUID, **state: Any) -> int:
        """Send LeaderAndIsr for partition 0. Returns its error code."""
        fields = {"controller_epoch": 1, "leader": 0, "leader_epoch": 0, "isr": [0], "replicas": [0], **state}
        answer = self.ask(ApiKey.LEADER_AND_ISR, 7, leader_and_isr(topic, topic_id, 1, fields))
        return int(answer.topics[0].partition_errors[0].error_code)


def leader_and_isr(topic: str, topic_id: uuid.UUID, partitions: int, fields: dict[str, Any]) -> Any:
    request = codec.request(ApiKey.LEADER_AND_ISR)
    return request(
        controller_id=0, controller_epoch=1, broker_epoch=1, type=0, live_leaders=[],
        topic_states=[
            request.LeaderAndIsrTopicState(
                topic_name=topic, topic_id=topic_id,
                partition_states=[
                    request.LeaderAndIsrPartitionState(
                        partition_index=partition, partition_epoch=0, adding_replicas=[], removing_replicas=[], **fields
                    )
                    for partition in range(partitions)
                ],
            )
        ],
    )  # fmt: skip


def update_metadata(topic: str, topic_id: Any, partitions: int, fields: dict[str, Any]) -> Any:
    request = codec.request(ApiKey.UPDATE_METADATA)
    return request(
        controller_id=0, controller_epoch=1, broker_epoch=1,
        live_brokers=[
            request.UpdateMetadataBroker(
                id=0, rack=None,
                endpoints=[
                    request.UpdateMetadataBroker.UpdateMetadataEndpoint(
                        port=9092, host="localhost", listener="PLAINTEXT", security_protocol=0
                    )
                ],
            )
        ],
        topic_states=[
            request.UpdateMetadataTopicState(
                topic_name=topic, topic_id=topic_id,
                partition_states=[
                    request.UpdateMetadataPartitionState(
                        partition_index=partition, zk_version=0, offline_replicas=[], **fields
                    )
                    for partition in range(partitions)
                ],
            )
        ],
    )  # fmt: skip


def _decoded(parts: list[Any] | None, api_key: ApiKey, version: int) -> Any:
    if parts is None:
        return None
    frame = memoryview(b"".join(part if isinstance(part, bytes | bytearray) else part.read() for part in parts))
    return codec.decode_response(api_key, version, frame[response_body_position(frame, api_key, version) :])


def build_harness(folder: Path, events: EventSource = SILENT, **properties: str) -> Harness:
    """Services whose logs are in ``folder``. ``properties``: configuration keys of the broker, with ``_`` for ``.``."""
    keys = {key.replace("_", "."): value for key, value in properties.items()}
    config, _ = KafkaConfig.from_properties(
        {"zookeeper.connect": "none:1", "broker.id": "0", "log.dirs": str(folder), **keys}
    )
    clock = HandClock()
    replicas: ReplicaManager
    logs = LogManager(
        config.log_directories,
        config.topic_defaults,
        broker_id=0,
        cluster_id="cluster",
        clock_ms=lambda: 1_700_000_000_000,
        callbacks=LogCallbacks(on_directory_failure=lambda directory, error, lost: replicas.directory_failed(lost)),
    )  # fmt: skip
    logs.start({})
    purgatory = Purgatory(clock)

    def run_now(work: Callable[[], R]) -> "Deferred[R]":
        return succeed(work())

    metadata = MetadataCache()
    replicas = ReplicaManager(0, logs, clock, purgatory, run_now, metadata, events)
    configs, topics = FakeConfigs(), FakeTopics()

    coordinator = GroupCoordinator(
        CoordinatorConfig.of(config), clock, replicas, metadata, report=GroupReporter(events).report
    )
    replicas.role_listeners.append(coordinator.role_changed)
    replicas.marker_listeners.append(coordinator.transactional_commits.markers_written)

    async def block() -> range:
        return range(5000, 6000)

    markers = FakeMarkers()
    transactions = TransactionCoordinator(
        TransactionConfig.of(config), clock, replicas, metadata, ProducerIdManager(block),
        CoordinatorHost(markers.write, topics.missing),
    )
    replicas.role_listeners.append(transactions.role_changed)
    alter_log_dirs = ReplicaAlterLogDirsManager(clock, replicas, run_now, lambda: 2**63 - 1)
    replicas.role_listeners.append(alter_log_dirs.role_changed)
    client_quotas = Enforcement(ClientQuotas(QuotaWindow(), QuotaWindow()), clock)
    services = Services(
        0, "cluster", config, clock, NoAuthorizer({"PLAINTEXT"}), metadata, replicas,
        purgatory, FetchSessions(10, count(1).__next__), Purgatory(clock),
        FakeController(), topics, configs, lambda: 1, FakeControllerEpochs(),  # type: ignore[arg-type]
        DynamicBrokerConfig(config.properties), FakeOffsets,  # type: ignore[arg-type]
        coordinator, OffsetsTopic(config, metadata, topics),  # type: ignore[arg-type]
        transactions, TransactionStateTopic(config, metadata, topics),  # type: ignore[arg-type]
        alter_log_dirs, client_quotas, ScramCredentials(b"secret"),
    )  # fmt: skip
    FakeOffsets.stored.clear()
    return Harness(services, clock, configs, topics, markers)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Callable[..., Harness]]:
    """A factory: ``harness(key=value, …)`` with configuration keys of the broker."""
    made: list[Harness] = []

    def build(**properties: str) -> Harness:
        made.append(build_harness(tmp_path, SILENT, **properties))
        return made[-1]

    yield build
    for each in made:
        each.services.replicas.batch_helpers.close()


def live_config(
    broker: Harness,
    quotas: ConnectionQuotas,
    follow_listeners: Callable[[], Awaitable[None]] = lambda: succeed(None),
    credentials: ScramCredentials | None = None,
) -> LiveConfig:
    """The parts that follow the configuration in ZooKeeper; the log cleaner does not run."""
    replicas = broker.services.replicas
    off = LogCleanerSettings(is_enabled=False)
    cleaner = LogCleaner(broker.clock, replicas.run_in_thread, lambda descriptor: Deferred(), replicas.logs, off)
    client_quotas = QuotaConfigs(broker.services.client_quotas, broker.services.configs, replicas.run_in_thread)
    return LiveConfig(broker.services, quotas, cleaner, follow_listeners, credentials, client_quotas)


def batch(*values: bytes, timestamp_ms: int = 1_700_000_000_000, **builder: Any) -> bytes:
    """A record batch with the values."""
    records = RecordBatchBuilder(**builder)
    for value in values:
        records.append(timestamp_ms, None, value)
    return bytes(records.build())
