"""Writes and reads ``__remote_log_metadata`` through the leaders of its partitions, as any client does.

It uses a connection even for partitions that this broker leads, so that there is only one code path.
Source: ProducerManager.java, ConsumerTask.java@3.9.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.fetch import read_fetch_response
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, FetchTopic, write_fetch_request
from kafka_zk.protocol.primitives import Buffer
from kafka_zk.protocol.produce import ProduceRequest, read_produce_response, write_produce_request
from kafka_zk.storage.tiered.metadata_partition import METADATA_TOPIC

_FETCH_VERSION = 12  # the last version with topic names
_LIST_OFFSETS_VERSION = 6  # supported by all brokers with remote storage
_LATEST = -1
_MAX_BYTES = 1 << 20
_PRODUCE_TIMEOUT_MS = 30_000


_ListOffsets: Any = codec.request(ApiKey.LIST_OFFSETS)


class MetadataConnection(Protocol):
    """The methods of ``network.client.KafkaConnection`` that this module uses."""

    @property
    def connected_to_broker(self) -> bool: ...

    def version_for(self, api_key: int) -> int: ...

    def send_raw(self, api_key: int, version: int, body_parts: Sequence[Buffer]) -> Awaitable[memoryview]: ...

    def disconnect(self) -> object: ...


class Fetched(NamedTuple):
    """A partition's result. ``records``: whole batches, beginning with the one that contains the requested offset."""

    error: ErrorCode
    high_watermark: int
    log_start_offset: int
    records: bytes


class MetadataClient:
    """``connect``: connects to a broker and negotiates versions. Methods raise the connection's errors."""

    def __init__(self, metadata: MetadataCache, connect: Callable[[int], Awaitable[MetadataConnection]]) -> None:
        self._metadata = metadata
        self._connect = connect
        self._connections: dict[int, MetadataConnection] = {}

    @property
    def partition_count(self) -> int:
        """The topic's partition count; 0 while the topic does not exist."""
        return len(self._metadata.topics.get(METADATA_TOPIC, ()))

    def leader(self, partition: int) -> int | None:
        """The broker id of a live leader, or None."""
        found = self._metadata.partition(METADATA_TOPIC, partition)
        return None if found is None or not self._metadata.is_alive(found.leader) else found.leader

    async def produce(self, partition: int, batch: bytes) -> int:
        """Append one batch with acks=all, and return its offset. Also raises ApiError."""
        leader = self.leader(partition)
        if leader is None:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{METADATA_TOPIC}-{partition} has no leader")
        connection = await self._connected(leader)
        version = connection.version_for(ApiKey.PRODUCE)
        request = ProduceRequest(None, -1, _PRODUCE_TIMEOUT_MS, [(METADATA_TOPIC, [(partition, batch)])])
        frame = await connection.send_raw(ApiKey.PRODUCE, version, write_produce_request(version, request))
        result = read_produce_response(version, frame).topics[0].partitions[0]
        if result.error_code:
            explained = f": {result.error_message}" if result.error_message else ""
            raise ApiError(ErrorCode.of(result.error_code), f"{METADATA_TOPIC}-{partition}{explained}")
        return result.base_offset

    async def fetch(self, leader: int, positions: Mapping[int, int]) -> dict[int, Fetched]:
        """Read the committed batches that exist now, without waiting for more. ``positions``: partition -> offset."""
        connection = await self._connected(leader)
        version = min(_FETCH_VERSION, connection.version_for(ApiKey.FETCH))
        wanted = [FetchPartition(partition, offset, _MAX_BYTES) for partition, offset in positions.items()]
        request = FetchRequest(0, 0, [FetchTopic(METADATA_TOPIC, None, wanted)], _MAX_BYTES)
        frame = await connection.send_raw(ApiKey.FETCH, version, [write_fetch_request(version, request)])
        return {
            found.partition: Fetched(
                ErrorCode.of(found.error_code),
                found.high_watermark,
                found.log_start_offset,
                bytes(found.records or b""),  # type: ignore[arg-type]  # a decoded response has no file slices
            )
            for topic in read_fetch_response(version, frame).topics
            for found in topic.partitions
        }

    async def committed_ends(self, leader: int, partitions: Iterable[int]) -> dict[int, int]:
        """The first uncommitted offset of each partition. A partition is missing while its new leader does not know the
        offset. (The high watermark in such a leader's Fetch responses may be too low, see KIP-207.)"""
        topic = _ListOffsets.ListOffsetsTopic
        wanted = [
            topic.ListOffsetsPartition(partition_index=each, current_leader_epoch=-1, timestamp=_LATEST)
            for each in partitions
        ]
        message = _ListOffsets(
            replica_id=-1, isolation_level=0, topics=[topic(name=METADATA_TOPIC, partitions=wanted)]
        )
        connection = await self._connected(leader)
        version = _LIST_OFFSETS_VERSION
        body = bytes(codec.encode_body(message, ApiKey.LIST_OFFSETS, version))
        frame = await connection.send_raw(ApiKey.LIST_OFFSETS, version, [body])
        answer: Any = codec.decode_response(ApiKey.LIST_OFFSETS, version, frame)
        return {
            found.partition_index: found.offset
            for named in answer.topics
            for found in named.partitions
            if not found.error_code
        }

    def close(self) -> None:
        """Close all connections. Requests in progress fail."""
        for broker_id in list(self._connections):
            self._connections.pop(broker_id).disconnect()

    async def _connected(self, broker_id: int) -> MetadataConnection:
        known = self._connections.get(broker_id)
        if known is not None and known.connected_to_broker:
            return known
        connection = await self._connect(broker_id)
        other = self._connections.get(broker_id)
        if other is not None and other.connected_to_broker:  # two requests connected at the same time
            connection.disconnect()
            return other
        self._connections[broker_id] = connection
        return connection
