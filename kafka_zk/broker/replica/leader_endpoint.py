"""A replica fetcher's connection and requests to its leader.

Request versions are those of the inter-broker protocol, so the leader is not asked for its versions. After a failure,
the next request uses a new connection. Source: RemoteLeaderEndPoint.scala@3.9.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.inter_broker_protocol import FollowerVersions
from kafka_zk.broker.replica.fetch_session_handler import SessionRequest
from kafka_zk.broker.replica.fetcher_effects import EpochQuestion
from kafka_zk.broker.replica.fetcher_state import UNDEFINED_EPOCH
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode, ProtocolError
from kafka_zk.protocol.fetch import EpochEndOffset, FetchResponse, read_fetch_response
from kafka_zk.protocol.fetch_request import FetchRequest, write_fetch_request

LATEST = -1
EARLIEST = -2
EARLIEST_LOCAL = -4

_ListOffsets: Any = codec.request(ApiKey.LIST_OFFSETS)
_LeaderEpochs: Any = codec.request(ApiKey.OFFSET_FOR_LEADER_EPOCH)
_EPOCH_END_VERSION = 4  # supported by all brokers with remote storage
_EPOCH_SINCE = 1  # OffsetForLeaderEpoch's responses then contain the epoch


class LeaderConnection(Protocol):
    """The methods of ``KafkaConnection`` that are used."""

    @property
    def connected_to_broker(self) -> bool: ...

    def send_raw(self, api_key: int, version: int, body_parts: Sequence[bytes]) -> Awaitable[memoryview]: ...

    def request(self, api_key: int, message: Any, *, version: int) -> Awaitable[Any]: ...

    def disconnect(self) -> object: ...


class FetchLimits(NamedTuple):
    """Limits of a follower's fetch: replica.fetch.wait.max.ms, .min.bytes, .response.max.bytes."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int


class EpochAnswer(NamedTuple):
    question: EpochQuestion
    error_code: int
    end: EpochEndOffset


class LeaderEndPoint:
    """Methods raise the connection's errors."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        connect: Callable[[], Awaitable[LeaderConnection]],
        versions: FollowerVersions,
        limits: FetchLimits,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._connect = connect
        self._versions = versions
        self._limits = limits
        self._connection: LeaderConnection | None = None
        self._closes = 0

    async def fetch(self, version: int, wanted: SessionRequest) -> FetchResponse:
        """Send a Fetch. Records are views of the response's frame. Raises ProtocolError if the response is invalid."""
        request = FetchRequest(
            max_wait_ms=self._limits.max_wait_ms,
            min_bytes=self._limits.min_bytes,
            topics=wanted.topics,
            max_bytes=self._limits.max_bytes,
            session_id=wanted.session_id,
            session_epoch=wanted.session_epoch,
            forgotten_topics=wanted.forgotten_topics,
            replica_id=self._broker_id,
            replica_epoch=self._broker_epoch(),
        )
        connection = await self._connected()
        frame = await connection.send_raw(ApiKey.FETCH, version, [write_fetch_request(version, request)])
        return read_fetch_response(version, frame)

    async def offset(self, tp: TopicPartition, leader_epoch: int, timestamp: int) -> int:
        """The leader's LATEST (log end) or EARLIEST (log start) offset. Raises ApiError."""
        return int((await self._listed(tp, leader_epoch, timestamp)).offset)

    async def earliest_local(self, tp: TopicPartition, leader_epoch: int) -> tuple[int, int]:
        """The leader's first local offset, and its epoch. Raises ApiError."""
        found = await self._listed(tp, leader_epoch, EARLIEST_LOCAL)
        return int(found.offset), int(found.leader_epoch)

    async def epoch_end(self, tp: TopicPartition, leader_epoch: int, epoch: int) -> tuple[int, int]:
        """(Largest epoch <= ``epoch`` that the leader knows, its end offset). Raises ApiError."""
        [answer] = await self.epoch_ends([EpochQuestion(tp, leader_epoch, epoch)], _EPOCH_END_VERSION)
        if answer.error_code:
            raise ApiError(ErrorCode.of(answer.error_code))
        return answer.end

    async def _listed(self, tp: TopicPartition, leader_epoch: int, timestamp: int) -> Any:
        partition = _ListOffsets.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=tp.partition, current_leader_epoch=leader_epoch, timestamp=timestamp, max_num_offsets=1
        )
        topic = _ListOffsets.ListOffsetsTopic(name=tp.topic, partitions=[partition])
        message = _ListOffsets(replica_id=self._broker_id, isolation_level=0, topics=[topic])
        connection = await self._connected()
        answer = await connection.request(ApiKey.LIST_OFFSETS, message, version=self._versions.list_offsets)
        for named in answer.topics:
            for found in named.partitions:
                if (named.name, found.partition_index) == tp:
                    if found.error_code:
                        raise ApiError(ErrorCode.of(found.error_code))
                    return found
        raise ProtocolError(f"an answer to ListOffsets without {tp}")

    async def epoch_ends(
        self, questions: Sequence[EpochQuestion], version: int | None = None
    ) -> list[EpochAnswer]:
        """The leader's response to each question (OffsetForLeaderEpoch). ``version``: if None, that of the inter-broker
        protocol. Raises ProtocolError if a response is missing."""
        version = self._versions.offset_for_leader_epoch if version is None else version
        assert version is not None, "this protocol has no use for OffsetForLeaderEpoch"
        topics: dict[str, list[Any]] = {}
        for tp, leader_epoch, epoch in questions:
            topics.setdefault(tp.topic, []).append(
                _LeaderEpochs.OffsetForLeaderTopic.OffsetForLeaderPartition(
                    partition=tp.partition, current_leader_epoch=leader_epoch, leader_epoch=epoch
                )
            )
        message = _LeaderEpochs(
            replica_id=self._broker_id,
            topics=[
                _LeaderEpochs.OffsetForLeaderTopic(topic=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
        )
        connection = await self._connected()
        answer = await connection.request(ApiKey.OFFSET_FOR_LEADER_EPOCH, message, version=version)
        by_tp = {question.tp: question for question in questions}
        answers = []
        for topic in answer.topics:
            for found in topic.partitions:
                question = by_tp.get(TopicPartition(topic.topic, found.partition))
                if question is not None:
                    epoch = found.leader_epoch if version >= _EPOCH_SINCE else UNDEFINED_EPOCH
                    answers.append(EpochAnswer(question, found.error_code, EpochEndOffset(epoch, found.end_offset)))
        if missing := by_tp.keys() - {answer.question.tp for answer in answers}:
            raise ProtocolError(f"an answer to OffsetForLeaderEpoch without {min(missing)}")
        return answers

    def close(self) -> None:
        """Close the connection; waiting requests fail."""
        self._closes += 1
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    async def _connected(self) -> LeaderConnection:
        known = self._connection
        if known is not None and known.connected_to_broker:
            return known
        closes = self._closes
        connection = await self._connect()
        if closes != self._closes:
            connection.disconnect()
            raise ConnectionError("the leader is not followed any more")
        self._connection = connection
        return connection
