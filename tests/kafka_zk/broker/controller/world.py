"""Brokers that consist of a registration, a controller, and a receiver of its requests, on the in-memory ZooKeeper.

Requests pass through the real codec in both directions, so a broker receives what was really encoded.
"""

import uuid
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.control_requests import VERSIONS
from kafka_zk.broker.controller.environment import Environment
from kafka_zk.broker.controller.events import ControllerEvent
from kafka_zk.broker.controller.loop import Controller, ControllerConfig
from kafka_zk.broker.handlers.table import MESSAGE_HANDLERS
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.broker.replica.purgatory import Purgatory
from kafka_zk.broker.security.authorizer import NoAuthorizer
from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.primitives import Buffer
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.registry.brokers import BrokerRegistry
from kafka_zk.registry.client.client import SessionState
from kafka_zk.registry.client.errors import ControlledByKRaft, RegistryError
from kafka_zk.registry.paths import ensure_persistent_paths
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.registry.znodes import topics
from kafka_zk.registry.znodes.brokers import BrokerInfo, EndPoint
from kafka_zk.registry.znodes.topics import LeaderIsrAndControllerEpoch
from kafka_zk.sim.machine.scheduler import Scheduler
from kafka_zk.sim.zookeeper.client import SimClient
from kafka_zk.sim.zookeeper.zookeeper import SimZooKeeper

REQUEST_CONTEXT = RequestContext("PLAINTEXT", "PLAINTEXT", "User:ANONYMOUS", "127.0.0.1", 1, "test")

TOPIC_ID = "A" * 21 + "Q"
"""The id of topic t."""
OUR_VERSIONS = {int(key): (0, highest) for key, (_, highest) in VERSIONS.items()}


class Broker:
    """One broker process. ``replicas``: the partitions that it leads or follows; ``metadata``: what clients would see.
    """

    def __init__(self, cluster: "Cluster", broker_id: int, config: ControllerConfig) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.client: SimClient = cluster.zookeeper.client(f"broker-{broker_id}")
        self.info = BrokerInfo.of(broker_id, (EndPoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9000 + broker_id),))
        self.epoch = -1
        self.up = True
        self.unclean_start = False
        self.sessions: list[int] = []
        self.events: list[Any] = []
        self.taken_over: list[ControlledByKRaft] = []
        self.requests: list[tuple[ApiKey, Any]] = []  # as decoded, in the order of arrival
        self.controller_epoch = -1
        self.replicas: dict[TopicPartition, Any] = {}
        self.metadata = MetadataCache()
        self.metadata_purgatory = Purgatory(cluster.scheduler.clock)
        self.refusals: dict[TopicPartition, ErrorCode] = {}  # the error code of each partition that is refused
        self.versions = dict(OUR_VERSIONS)
        self.controller = Controller(
            Environment(broker_id, self.client, cluster.scheduler.clock, cluster.connect),
            config,
            self.events.append,
            lambda: self.controller_epoch,
            on_kraft=self.taken_over.append,
        )

    async def start(self) -> None:
        await self._register()
        self.client.add_session_listener(self._session_changed)
        await self.controller.start()

    def named(self, kind: type[ControllerEvent]) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def handle(self, api_key: ApiKey, request: Any) -> Any:
        """Handle a request as a broker does: check controller and broker epoch, then apply each partition."""
        if not self.up:
            raise ConnectionRefusedError("the broker is down")
        self.requests.append((api_key, request))
        refusal = ErrorCode.NONE
        if request.broker_epoch < self.epoch:
            refusal = ErrorCode.STALE_BROKER_EPOCH
        elif request.controller_epoch < self.controller_epoch:
            refusal = ErrorCode.STALE_CONTROLLER_EPOCH
        else:
            self.controller_epoch = request.controller_epoch
        answer = {
            ApiKey.LEADER_AND_ISR: self._leader_and_isr,
            ApiKey.STOP_REPLICA: self._stop_replica,
            ApiKey.UPDATE_METADATA: self._update_metadata,
        }[api_key]
        return answer(request, refusal)

    def _leader_and_isr(self, request: Any, refusal: ErrorCode) -> Any:
        response = codec.response(ApiKey.LEADER_AND_ISR)
        if refusal:
            return response(error_code=refusal, partition_errors=[], topics=[])
        listed = []
        for topic in request.topic_states:
            errors = []
            for state in topic.partition_states:
                tp = TopicPartition(topic.topic_name, state.partition_index)
                code = self.refusals.get(tp, ErrorCode.NONE)
                known = self.replicas.get(tp)
                if known is not None and known.leader_epoch > state.leader_epoch:
                    code = ErrorCode.STALE_CONTROLLER_EPOCH
                elif not code:
                    self.replicas[tp] = state
                errors.append(
                    response.LeaderAndIsrPartitionError(
                        topic_name=tp.topic, partition_index=tp.partition, error_code=code
                    )
                )
            listed.append((topic.topic_id, errors))
        return response(
            error_code=0,
            partition_errors=[error for _, errors in listed for error in errors],
            topics=[response.LeaderAndIsrTopicError(topic_id=i or uuids.ZERO, partition_errors=e) for i, e in listed],
        )

    def _stop_replica(self, request: Any, refusal: ErrorCode) -> Any:
        response = codec.response(ApiKey.STOP_REPLICA)
        errors = []
        stopped = [
            TopicPartition(t.topic_name, s.partition_index)
            for t in request.topic_states or ()
            for s in t.partition_states
        ] + [TopicPartition(t.name, p) for t in request.topics or () for p in t.partition_indexes]
        for tp in stopped if not refusal else ():
            code = self.refusals.get(tp, ErrorCode.NONE)
            if not code:
                self.replicas.pop(tp, None)
            errors.append(
                response.StopReplicaPartitionError(topic_name=tp.topic, partition_index=tp.partition, error_code=code)
            )
        return response(error_code=refusal, partition_errors=errors)

    def _update_metadata(self, request: Any, refusal: ErrorCode) -> Any:
        if not refusal:
            self.metadata.update(request)
            self.metadata_purgatory.check("metadata")
        return codec.response(ApiKey.UPDATE_METADATA)(error_code=refusal)

    async def _register(self) -> None:
        registry = BrokerRegistry(self.client, self.cluster.scheduler.clock)
        unclean_start = self.unclean_start and not self.sessions
        self.epoch = await registry.register(self.info, self.sessions, unclean_start=unclean_start)
        if self.client.session_id is not None:
            self.sessions.append(self.client.session_id)

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED and self.client.session_id not in self.sessions and self.up:
            ensureDeferred(self._register_again())

    async def _register_again(self) -> None:
        try:
            await self._register()
        except RegistryError:
            return  # the next session will
        await self.controller.session_renewed()


class Connection:
    """A connection to one broker; every message is encoded and decoded as on the wire and takes a random time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.versions = broker.versions

    def request_encoded(self, api_key: int, version: int, body: Buffer) -> "Deferred[Any]":
        answered: Deferred[Any] = Deferred()
        self._broker.cluster.later(self._arrive, ApiKey(api_key), version, bytes(body), answered)
        return answered

    def disconnect(self) -> None:
        return None

    def _arrive(self, api_key: ApiKey, version: int, body: bytes, answered: "Deferred[Any]") -> None:
        try:
            response = self._broker.handle(api_key, codec.decode_request(api_key, version, memoryview(body)))
        except ConnectionRefusedError as error:
            self._broker.cluster.later(answered.errback, error)
            return
        decoded = codec.decode_response(api_key, version, memoryview(codec.encode_body(response, api_key, version)))
        self._broker.cluster.later(answered.callback, decoded)


class Cluster:
    """Brokers 0 … n-1, started one after the other: broker 0 becomes the controller."""

    def __init__(
        self, broker_count: int = 3, seed: int = 0, config: ControllerConfig | None = None, start: bool = True
    ) -> None:
        self.scheduler = Scheduler(seed)
        self.zookeeper = SimZooKeeper(self.scheduler.clock, seed)
        self.tool: SimClient = self.zookeeper.client("tool")  # an administrator, who causes no faults
        self.scheduler.run(ensure_persistent_paths(self.tool))
        self.topics = TopicRegistry(self.tool)
        self._config = config or ControllerConfig(auto_leader_rebalance_enable=False)
        self.brokers = [Broker(self, broker_id, self._config) for broker_id in range(broker_count)]
        if start:
            for broker in self.brokers:
                self.scheduler.run(broker.start())
                self.settle()

    def later(self, call: Any, *arguments: Any) -> None:
        self.scheduler.clock.callLater(self.scheduler.random.uniform(0.0001, 0.002), call, *arguments)

    async def connect(self, info: BrokerInfo) -> Connection:
        broker = self.brokers[info.broker_id]
        if not broker.up:
            raise ConnectionRefusedError("the broker is down")
        return Connection(broker)

    def settle(self, duration_ms: float = 1000) -> None:
        """Let all pending work complete."""
        self.scheduler.run_for(duration_ms)

    @property
    def active(self) -> list[Broker]:
        return [broker for broker in self.brokers if broker.up and broker.controller.is_active]

    @property
    def controller(self) -> Controller:
        """The one active controller."""
        (broker,) = self.active
        return broker.controller

    def ask(self, api_key: ApiKey, version: int, request: Any, broker_id: int | None = None) -> Any:
        """The response of a broker (None: the active controller), encoded and decoded in both directions."""
        broker = self.active[0] if broker_id is None else self.brokers[broker_id]
        services: Any = SimpleNamespace(
            controller=broker.controller,
            authorizer=NoAuthorizer({"PLAINTEXT"}),
            metadata=broker.metadata,
            clock=self.scheduler.clock,
            config=SimpleNamespace(inter_broker_protocol_version="3.9"),
            metadata_purgatory=broker.metadata_purgatory,
        )
        header = RequestHeader(api_key, version, 7, "client")
        body = bytes(codec.encode_body(request, api_key, version))
        decoded = codec.decode_request(api_key, version, memoryview(body))
        handling: Any = MESSAGE_HANDLERS[api_key](services, REQUEST_CONTEXT, header, decoded)
        response = self.scheduler.run(handling)
        return codec.decode_response(api_key, version, memoryview(codec.encode_body(response, api_key, version)))

    def create(self, topic: str, assignment: dict[int, list[int]], topic_id: str | None = "its own") -> None:
        """Write a topic as CreateTopics does, without waiting for the controller."""
        if topic_id == "its own":
            topic_id = TOPIC_ID if topic == "t" else uuids.to_text(uuid.uuid5(uuid.NAMESPACE_OID, topic))
        self.scheduler.run(self.topics.create_topic(topic, assignment, topic_id, {}))

    def delete(self, topic: str) -> None:
        self.scheduler.run(self.topics.request_deletion(topic))

    def set(self, path: str, data: bytes) -> None:
        """Write a znode as an old tool does."""
        self.scheduler.run(self.tool.set(path, data))

    def kill(self, broker_id: int) -> None:
        """Like ``kill -9``: the broker stops responding, and its session expires."""
        broker = self.brokers[broker_id]
        broker.up = False
        broker.client.pause()

    def restart(self, broker_id: int, *, unclean_start: bool = False) -> Broker:
        """A new process with the same id."""
        broker = self.brokers[broker_id] = Broker(self, broker_id, self._config)
        broker.unclean_start = unclean_start
        self.scheduler.run(broker.start())
        return broker

    def state(self, topic: str, partition: int = 0) -> LeaderIsrAndControllerEpoch | None:
        tp = TopicPartition(topic, partition)
        return self.scheduler.run(self.topics.states([tp])).get(tp)

    def states(self, topic: str, partitions: Iterable[int]) -> list[LeaderIsrAndControllerEpoch | None]:
        return [self.state(topic, partition) for partition in partitions]

    def assignment(self, topic: str) -> topics.TopicAssignment:
        return self.scheduler.run(self.topics.assignments([topic]))[topic]

    def paths(self, prefix: str) -> list[str]:
        return [path for path in self.zookeeper.tree.paths() if path == prefix or path.startswith(prefix + "/")]


def led_by(cluster: Cluster, topic: str) -> dict[int, int]:
    """Partition -> the broker that believes it is the leader. Fails if two brokers believe so."""
    leaders: dict[int, int] = {}
    for broker in cluster.brokers:
        for tp, state in broker.replicas.items():
            if broker.up and tp.topic == topic and state.leader == broker.broker_id:
                assert tp.partition not in leaders
                leaders[tp.partition] = broker.broker_id
    return leaders
