"""Fetches the metadata log from the leading controller, up to the high watermark.

If an offset is only in a snapshot, the controller responds to a fetch with the snapshot's id. FetchSnapshot then reads
the snapshot in portions, which may end within a batch. Both requests need ClusterAction on Cluster.

Source: KIP-595, KIP-630, KafkaRaftClient.java@3.9.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol
from uuid import UUID

from kafka_zk.clients.connection.errors import broker_error
from kafka_zk.migration.metadata.replay import LARGEST_BATCH_BYTES, MetadataLog, Replay, UnreadableMetadata
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.files.errors import StorageError
from kafka_zk.storage.records.record_batch import iter_batches

Address = tuple[str, int]

_TOPIC = "__cluster_metadata"
_TOPIC_ID = UUID(int=1)
_FETCH_VERSION = 13  # the topic is named by its id
_FETCH_SNAPSHOT_VERSION = 0
_PORTION_BYTES = 1024 * 1024
_MOST_LEADERS = 5
_ELSEWHERE = frozenset((
    ErrorCode.INVALID_REQUEST, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
))  # fmt: skip
"""Errors for a request with a wrong epoch or without one; the response names the leader and its epoch."""
_UNKNOWN = -1

Connect = Callable[[Address], Awaitable["Connection"]]


class Connection(Protocol):
    def request(self, api_key: int, message: Any, *, version: int | None = None) -> Awaitable[Any]: ...


class _LeaderMoved(Exception):
    def __init__(self, leader_id: int, leader_epoch: int) -> None:
        super().__init__(f"the leader is controller {leader_id}")
        self.leader_id, self.leader_epoch = leader_id, leader_epoch


async def fetch_log(connect: Connect, controllers: Mapping[int, Address], first: int) -> MetadataLog:
    """Ask the controller ``first`` for the leader, and read the leader's log. ``controllers``: id -> address.

    Raises: UnreadableMetadata; BrokerError if the permission is missing; the errors of ``connect``.
    """
    asked, leader_epoch = first, _UNKNOWN
    for _ in range(_MOST_LEADERS):
        connection = await connect(controllers[asked])
        try:
            return await _Fetch(connection, leader_epoch).whole_log(f"controller {asked}")
        except _LeaderMoved as moved:
            if moved.leader_id not in controllers:
                leader = "no leader" if moved.leader_id < 0 else f"the leader {moved.leader_id}, which was not reached"
                raise UnreadableMetadata(f"the controllers have {leader}") from None
            asked, leader_epoch = moved.leader_id, moved.leader_epoch
    raise UnreadableMetadata(f"the controllers changed their leader {_MOST_LEADERS} times")


class _Fetch:
    def __init__(self, connection: Connection, leader_epoch: int) -> None:
        self._connection = connection
        self._leader_epoch = leader_epoch
        self._replay = Replay()

    async def whole_log(self, source: str) -> MetadataLog:
        until: int | None = None
        while until is None or self._replay.end_offset < until:
            before = self._replay.end_offset
            part = await self._partition()
            if part.snapshot_id is not None and part.snapshot_id.end_offset >= 0:
                await self._snapshot(part.snapshot_id)
            else:
                until = part.high_watermark if until is None else until
                _each_batch(part.records or b"", self._replay.batch, until)
            if self._replay.end_offset == before and (until is None or before < until):
                raise UnreadableMetadata(f"the leader has no records at offset {before}")
        return self._replay.result(source)

    async def _partition(self) -> Any:
        request = codec.request(ApiKey.FETCH)
        partition = request.FetchTopic.FetchPartition(
            partition=0, current_leader_epoch=self._leader_epoch, fetch_offset=self._replay.end_offset,
            last_fetched_epoch=self._last_epoch(), partition_max_bytes=_PORTION_BYTES,
        )  # fmt: skip
        message = request(
            max_wait_ms=0, min_bytes=0, max_bytes=_PORTION_BYTES,
            topics=[request.FetchTopic(topic_id=_TOPIC_ID, partitions=[partition])],
        )  # fmt: skip
        answer = await self._connection.request(ApiKey.FETCH, message, version=_FETCH_VERSION)
        part = _checked(answer, answer.responses)
        if part.diverging_epoch is not None and part.diverging_epoch.epoch >= 0:
            raise UnreadableMetadata("the log was truncated while it was read: run the command again")
        return part

    def _last_epoch(self) -> int:
        return max(self._replay.leader_epoch, 0) if self._leader_epoch >= 0 else _UNKNOWN

    async def _snapshot(self, snapshot: Any) -> None:
        self._replay = Replay()
        rest = b""
        position = size_bytes = 0
        while not size_bytes or position < size_bytes:
            part = await self._snapshot_portion(snapshot, position)
            if not part.unaligned_records:
                raise UnreadableMetadata(f"the snapshot of the leader ends at {position} of {part.size} bytes")
            position, size_bytes = position + len(part.unaligned_records), part.size
            rest = _each_batch(rest + part.unaligned_records, self._replay.snapshot_batch)
            if len(rest) > LARGEST_BATCH_BYTES:
                raise UnreadableMetadata(f"a batch of the snapshot has more than {LARGEST_BATCH_BYTES} bytes")
        self._replay.snapshot_ended(snapshot.end_offset, snapshot.epoch)

    async def _snapshot_portion(self, snapshot: Any, position: int) -> Any:
        request = codec.request(ApiKey.FETCH_SNAPSHOT)
        topic = request.TopicSnapshot
        wanted = topic.PartitionSnapshot.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch)
        partition = topic.PartitionSnapshot(
            partition=0, current_leader_epoch=self._leader_epoch, snapshot_id=wanted, position=position
        )
        message = request(max_bytes=_PORTION_BYTES, topics=[topic(name=_TOPIC, partitions=[partition])])
        answer = await self._connection.request(ApiKey.FETCH_SNAPSHOT, message, version=_FETCH_SNAPSHOT_VERSION)
        return _checked(answer, answer.topics)


def _checked(answer: Any, topics: Any) -> Any:
    """The response's only partition. Raises BrokerError, _LeaderMoved."""
    if answer.error_code != ErrorCode.NONE:
        raise broker_error(answer.error_code, "reading the metadata log")
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise UnreadableMetadata("this node does not serve the metadata log")
    part = topics[0].partitions[0]
    if part.error_code in _ELSEWHERE and part.current_leader is not None:
        raise _LeaderMoved(part.current_leader.leader_id, part.current_leader.leader_epoch)
    if part.error_code != ErrorCode.NONE:
        raise broker_error(part.error_code, "reading the metadata log")
    return part


def _each_batch(data: bytes, take: Callable[[bytes], None], until_offset: int | None = None) -> bytes:
    """Pass each complete batch below ``until_offset`` to ``take``. Returns the rest. Raises UnreadableMetadata."""
    end = 0
    try:
        for position, header in iter_batches(data):
            end = position + header.size_bytes
            if until_offset is not None and header.base_offset >= until_offset:
                break
            take(data[position:end])
    except StorageError as error:
        raise UnreadableMetadata(f"the leader sent no batches: {error}") from error
    return data[end:]
