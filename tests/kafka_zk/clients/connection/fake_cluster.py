"""A cluster of brokers on plain values behind the interface of KafkaConnection, for drivers under a ``Clock``.

Every response takes one millisecond of the clock; brokers can be down, connections can be cut.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionLost, ConnectionRefusedError
from twisted.internet.task import Clock

from kafka_zk.base.types import TopicPartition
from kafka_zk.network.client import KafkaConnection
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import FetchedPartition, FetchedTopic, FetchResponse, write_fetch_response
from kafka_zk.protocol.fetch_request import read_fetch_request
from kafka_zk.protocol.leader_hint import CurrentLeader, NodeEndpoint
from kafka_zk.protocol.produce import (
    PartitionResult,
    ProduceResponse,
    TopicResult,
    read_produce_request,
    write_produce_response,
)
from kafka_zk.protocol.request import response_body_position
from kafka_zk.storage.records.record_batch import read_header
from tests.kafka_zk.clients.producer.model_broker import ModelBroker

ANSWER_S = 0.001
EMPTY_FETCH_S = 0.02
"""Time that an empty fetch waits. Without a wait, a test would have a great number of such requests."""
TOPIC_ID = UUID(int=0xABC)


@dataclass
class FakeCluster:
    """Brokers 0..n-1 on host ``b<id>``, port 9092; ``leaders`` per topic and partition. One log for all brokers."""

    clock: Clock
    leaders: dict[str, list[int]]
    node_ids: list[int] = field(default_factory=lambda: [0, 1])
    down: set[int] = field(default_factory=set)
    unreachable: set[int] = field(default_factory=set)
    """Brokers to which no connection can be opened, although the metadata have them."""
    untold: set[int] = field(default_factory=set)
    """Brokers that have just started and have received no metadata from a controller yet."""
    epochs: dict[TopicPartition, int] = field(default_factory=dict)
    names_leaders: bool = False
    """Whether errors name the new leader (KIP-951)."""
    errors: list[tuple[int, int]] = field(default_factory=list)  # (api key, code): each is returned once, in order
    seen: list[tuple[int, int]] = field(default_factory=list)  # (node, api key)

    def __post_init__(self) -> None:
        self.model = ModelBroker()
        self.batches: dict[TopicPartition, list[bytes]] = {}
        self.connections: list[FakeConnection] = []
        self.connect_count = 0

    async def connect(
        self, reactor: Clock, host: str, port: int, client_id: str, timeout_s: float, *, request_timeout_s: float
    ) -> KafkaConnection:
        self.connect_count += 1
        waiting: Deferred[None] = Deferred()
        reactor.callLater(ANSWER_S, waiting.callback, None)
        await waiting
        node_id = int(host.removeprefix("b"))
        if node_id in self.down | self.unreachable or node_id not in self.node_ids:
            raise ConnectionRefusedError(string=host)
        return cast(KafkaConnection, self.connected(node_id))

    def connected(self, node_id: int) -> "FakeConnection":
        connection = FakeConnection(self, node_id)
        self.connections.append(connection)
        return connection

    def stop(self, node_id: int) -> None:
        """Stop a broker; its connections break."""
        self.down.add(node_id)
        for connection in [each for each in self.connections if each.node_id == node_id]:
            connection.cut()

    def move(self, tp: TopicPartition, node_id: int) -> None:
        self.leaders[tp.topic][tp.partition] = node_id
        self.epochs[tp] = self.epochs.get(tp, 0) + 1

    def hint(self, tp: TopicPartition) -> CurrentLeader | None:
        if not self.names_leaders:
            return None
        return CurrentLeader(self.leaders[tp.topic][tp.partition], self.epochs.get(tp, 0))

    @property
    def endpoints(self) -> list[NodeEndpoint]:
        return [NodeEndpoint(each, f"b{each}", 9092, None) for each in self.node_ids] if self.names_leaders else []

    def answer(self, node_id: int, api_key: int, version: int, body: memoryview) -> bytes:
        """The header and body of the response."""
        self.seen.append((node_id, api_key))
        code = ErrorCode.NONE
        if self.errors and self.errors[0][0] == api_key:
            code = ErrorCode(self.errors.pop(0)[1])
        return _ANSWERS[api_key](self, node_id, version, body, code)


class FakeConnection:
    def __init__(self, cluster: FakeCluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.on_disconnect: Callable[[Any], None] | None = None
        self.waiting: list[Deferred[memoryview]] = []
        self.versions = {api_key: (0, 3) for api_key in _ANSWERS} | {ApiKey.PRODUCE: (0, 11), ApiKey.FETCH: (0, 17)}
        self.versions |= {ApiKey.METADATA: (0, 12), ApiKey.LIST_OFFSETS: (0, 7), ApiKey.CREATE_TOPICS: (0, 7)}

    def version_for(self, api_key: int) -> int:
        return self.versions[ApiKey(api_key)][1]

    async def request(self, api_key: int, message: Any, *, version: int | None = None) -> Any:
        version = self.version_for(api_key) if version is None else version
        body = await self.send_raw(api_key, version, [codec.encode_body(message, api_key, version)])
        return codec.decode_response(api_key, version, body)

    def send_raw(
        self, api_key: int, version: int, parts: list[Any], *, expect_response: bool = True
    ) -> "Deferred[memoryview]":
        body = memoryview(b"".join(parts))
        if not expect_response:
            self.cluster.answer(self.node_id, api_key, version, body)
            return succeed(memoryview(b""))
        result: Deferred[memoryview] = Deferred()
        self.waiting.append(result)
        finds_nothing = api_key == ApiKey.FETCH and _finds_nothing(self.cluster, version, body)
        takes_s = EMPTY_FETCH_S if finds_nothing else ANSWER_S
        self.cluster.clock.callLater(takes_s, self._answer, result, api_key, version, body)
        return result

    def _answer(self, result: "Deferred[memoryview]", api_key: int, version: int, body: memoryview) -> None:
        if result in self.waiting:
            frame = memoryview(bytearray(self.cluster.answer(self.node_id, api_key, version, body)))
            self.waiting.remove(result)
            result.callback(frame[response_body_position(frame, api_key, version) :])

    def cut(self) -> None:
        if self in self.cluster.connections:
            self.cluster.connections.remove(self)
            waiting, self.waiting = self.waiting, []
            for each in waiting:
                each.errback(ConnectionLost())
            if self.on_disconnect is not None:
                self.on_disconnect(None)

    def disconnect(self) -> None:
        self.cut()


def _metadata(cluster: FakeCluster, node_id: int, version: int, body: memoryview, code: ErrorCode) -> bytes:
    asked = codec.decode_request(ApiKey.METADATA, version, body).topics
    known = {} if node_id in cluster.untold else cluster.leaders
    names = list(known) if asked is None else [topic.name for topic in asked]
    response = codec.response(ApiKey.METADATA)
    topic_class = response.MetadataResponseTopic
    topics = []
    for name in names:
        leaders = known.get(name)
        error = code if code else ErrorCode.NONE if leaders is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partitions = [
            topic_class.MetadataResponsePartition(
                error_code=0,
                partition_index=index,
                leader_id=leader,
                leader_epoch=cluster.epochs.get(TopicPartition(name, index), 0),
                replica_nodes=[leader],
                isr_nodes=[leader],
                offline_replicas=[],
            )
            for index, leader in enumerate(leaders or ())
        ]
        topics.append(
            topic_class(error_code=error, name=name, topic_id=TOPIC_ID, is_internal=False, partitions=partitions)
        )
    brokers = [
        response.MetadataResponseBroker(node_id=each, host=f"b{each}", port=9092, rack=None)
        for each in cluster.node_ids
        if each not in cluster.down and node_id not in cluster.untold
    ]
    controller = min((each.node_id for each in brokers), default=-1)
    message = response(brokers=brokers, cluster_id="fake", controller_id=controller, topics=topics)
    return bytes(codec.encode_response(ApiKey.METADATA, version, 0, message))


def _produce(cluster: FakeCluster, node_id: int, version: int, body: memoryview, code: ErrorCode) -> bytes:
    topics = []
    for topic, partitions in read_produce_request(version, body).topics:
        results = []
        for partition, records in partitions:
            tp = TopicPartition(topic, partition)
            if code:
                result = PartitionResult(partition, code)
            elif cluster.leaders[topic][partition] != node_id:
                result = PartitionResult(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=cluster.hint(tp))
            else:
                assert records is not None
                log_size = len(cluster.model.logs.get(tp, ()))
                result = cluster.model.produce(tp, bytes(records))
                if len(cluster.model.logs.get(tp, ())) > log_size:
                    batch = bytearray(records)
                    batch[:8] = result.base_offset.to_bytes(8, "big")
                    cluster.batches.setdefault(tp, []).append(bytes(batch))
            results.append(result)
        topics.append(TopicResult(topic, results))
    endpoints = cluster.endpoints
    return write_produce_response(version, 0, ProduceResponse(topics, node_endpoints=endpoints))


def _finds_nothing(cluster: FakeCluster, version: int, body: memoryview) -> bool:
    """Whether the request fetches every partition at its end."""
    for name, _, partitions in read_fetch_request(version, body).topics:
        topic = name or next(iter(cluster.leaders))
        for wanted in partitions:
            batches = cluster.batches.get(TopicPartition(topic, wanted.partition), [])
            if wanted.fetch_offset != (read_header(batches[-1]).next_offset if batches else 0):
                return False
    return True


def _fetch(cluster: FakeCluster, node_id: int, version: int, body: memoryview, code: ErrorCode) -> bytes:
    topics = []
    for name, topic_id, partitions in read_fetch_request(version, body).topics:
        topic = name or next(iter(cluster.leaders))
        answers = []
        for wanted in partitions:
            tp = TopicPartition(topic, wanted.partition)
            batches = cluster.batches.get(tp, [])
            end = read_header(batches[-1]).next_offset if batches else 0
            if code:
                answers.append(FetchedPartition(wanted.partition, code))
            elif cluster.leaders[topic][wanted.partition] != node_id:
                code_of_move = ErrorCode.NOT_LEADER_OR_FOLLOWER
                answers.append(FetchedPartition(wanted.partition, code_of_move, current_leader=cluster.hint(tp)))
            elif wanted.fetch_offset > end:
                answers.append(FetchedPartition(wanted.partition, ErrorCode.OFFSET_OUT_OF_RANGE))
            else:
                data = b"".join(each for each in batches if read_header(each).next_offset > wanted.fetch_offset)
                answers.append(FetchedPartition(wanted.partition, 0, end, end, 0, data[: wanted.partition_max_bytes]))
        topics.append(FetchedTopic(name, topic_id, answers))
    response = FetchResponse(topics, node_endpoints=cluster.endpoints)
    return b"".join(write_fetch_response(version, 0, response))  # type: ignore[arg-type]


def _list_offsets(cluster: FakeCluster, node_id: int, version: int, body: memoryview, code: ErrorCode) -> bytes:
    response = codec.response(ApiKey.LIST_OFFSETS)
    topic_class = response.ListOffsetsTopicResponse
    topics = []
    for topic in codec.decode_request(ApiKey.LIST_OFFSETS, version, body).topics:
        partitions = []
        for each in topic.partitions:
            tp = TopicPartition(topic.name, each.partition_index)
            not_leader = cluster.leaders[topic.name][each.partition_index] != node_id
            error = code or (ErrorCode.NOT_LEADER_OR_FOLLOWER if not_leader else ErrorCode.NONE)
            offset = len(cluster.model.logs.get(tp, ())) if each.timestamp == -1 else 0 if each.timestamp == -2 else -1
            partitions.append(
                topic_class.ListOffsetsPartitionResponse(
                    partition_index=each.partition_index, error_code=error, timestamp=-1, offset=offset, leader_epoch=0
                )
            )
        topics.append(topic_class(name=topic.name, partitions=partitions))
    return bytes(codec.encode_response(ApiKey.LIST_OFFSETS, version, 0, response(topics=topics)))


def _init_producer_id(cluster: FakeCluster, node_id: int, version: int, body: memoryview, code: ErrorCode) -> bytes:
    earlier = sum(asked == ApiKey.INIT_PRODUCER_ID for _, asked in cluster.seen[:-1])
    message = codec.response(ApiKey.INIT_PRODUCER_ID)(error_code=code, producer_id=7 + earlier, producer_epoch=0)
    return bytes(codec.encode_response(ApiKey.INIT_PRODUCER_ID, version, 0, message))


def _create_topics(cluster: FakeCluster, node_id: int, version: int, body: memoryview, code: ErrorCode) -> bytes:
    response = codec.response(ApiKey.CREATE_TOPICS)
    results = []
    for topic in codec.decode_request(ApiKey.CREATE_TOPICS, version, body).topics:
        error = code or (ErrorCode.TOPIC_ALREADY_EXISTS if topic.name in cluster.leaders else ErrorCode.NONE)
        if not error:
            cluster.leaders[topic.name] = [0] * topic.num_partitions
        results.append(
            response.CreatableTopicResult(
                name=topic.name,
                topic_id=TOPIC_ID,
                error_code=error,
                error_message="it is there" if error else None,
                num_partitions=topic.num_partitions,
                replication_factor=1,
                configs=[],
            )
        )
    return bytes(codec.encode_response(ApiKey.CREATE_TOPICS, version, 0, response(topics=results)))


_ANSWERS: dict[int, Callable[[FakeCluster, int, int, memoryview, ErrorCode], bytes]] = {
    ApiKey.METADATA: _metadata,
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.CREATE_TOPICS: _create_topics,
}


def advance(clock: Clock, seconds: float) -> None:
    """Advance the clock in steps of a millisecond, so that responses cause the next requests."""
    for _ in range(round(seconds / ANSWER_S)):
        clock.advance(ANSWER_S)


def finish(clock: Clock, deferred: "Deferred[Any]", at_most_s: float = 10.0) -> Any:
    """Advance the clock until ``deferred`` has fired; returns its result, or raises its exception."""
    outcome: list[Any] = []
    failure: list[Any] = []
    deferred.addCallbacks(outcome.append, failure.append)
    for _ in range(round(at_most_s / ANSWER_S)):
        if outcome or failure:
            break
        clock.advance(ANSWER_S)
    if failure:
        failure[0].raiseException()
    assert outcome, f"no result within {at_most_s} s of the clock"
    return outcome[0]
