"""The Fetch response, versions 0 to 17, in both directions. Records are file slices or bytes and are not decoded.

Body: ``throttle_time_ms`` int32 (1+), ``error_code`` int16 and ``session_id`` int32 (7+), per topic its name (0-12) or
id (13+) and the partitions, ``NodeEndpoints`` tagged (16+). A partition is its number int32, ``error_code`` int16,
``high_watermark`` int64, ``last_stable_offset`` int64 (4+), ``log_start_offset`` int64 (5+), ``aborted_transactions``
(4+, nullable), ``preferred_read_replica`` int32 (11+), the records; tagged (12+) ``DivergingEpoch``, ``CurrentLeader``.
The request is in ``fetch_request``. Versions from 12 on are flexible.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.fetch_request import FLEXIBLE_SINCE, TOPIC_IDS_SINCE
from kafka_zk.protocol.leader_hint import (
    CurrentLeader,
    NodeEndpoint,
    current_leader,
    node_endpoints,
    read_current_leader,
    read_node_endpoints,
    tagged_fields,
)
from kafka_zk.protocol.primitives import (
    MALFORMED,
    length,
    read_count,
    read_length,
    read_name,
    skip_tagged_fields,
    string,
    tagged_field_spans,
)
from kafka_zk.protocol.request import response_header

_TAG_DIVERGING_EPOCH = 0
_TAG_CURRENT_LEADER = 1

_INT32 = struct.Struct(">i")
_ERROR_AND_SESSION = struct.Struct(">hi")
_ABORTED = struct.Struct(">qq")
_EPOCH_END = struct.Struct(">iq")


class Slice(Protocol):
    """A range of a segment file (``storage/segments/file_slice.py``). Its owner calls ``release`` once."""

    @property
    def position(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def in_active_segment(self) -> bool: ...

    def __len__(self) -> int: ...

    def fileno(self) -> int: ...

    def read(self) -> bytes: ...

    def retain(self) -> object: ...

    def release(self) -> None: ...


Part = bytes | bytearray | memoryview | Slice


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int


class EpochEndOffset(NamedTuple):
    epoch: int
    end_offset: int


class FetchedPartition(NamedTuple):
    """The result for one partition.

    ``aborted_transactions``: None for read_uncommitted, a list for read_committed (KIP-98). ``diverging_epoch``: where
    a follower must truncate (KIP-595). ``current_leader``: for NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH.
    """

    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Part | None = b""
    aborted_transactions: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: int = -1
    diverging_epoch: EpochEndOffset | None = None
    current_leader: CurrentLeader | None = None


class FetchedTopic(NamedTuple):
    """``topic`` up to version 12, ``topic_id`` (16 bytes) from 13 on; the other one is None or ignored."""

    topic: str | None
    topic_id: bytes | None
    partitions: Sequence[FetchedPartition]


class FetchResponse(NamedTuple):
    topics: Sequence[FetchedTopic]
    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    node_endpoints: Sequence[NodeEndpoint] = ()


_NUMBERS = tuple(
    struct.Struct(">ihq" + ("q" if version >= 4 else "") + ("q" if version >= 5 else "")) for version in range(18)
)
_NUMBER_COUNT = tuple(len(layout.format) - 1 for layout in _NUMBERS)


def write_fetch_response(version: int, correlation_id: int, response: FetchResponse) -> list[Part]:
    """Header and body as parts to send in order, without the size prefix.

    Non-empty records and file slices, which are not read, are separate parts.
    """
    flexible = version >= FLEXIBLE_SINCE
    end = b"\x00" if flexible else b""
    parts: list[Part] = []
    out = bytearray(response_header(ApiKey.FETCH, version, correlation_id))
    if version >= 1:
        out += _INT32.pack(response.throttle_time_ms)
    if version >= 7:
        out += _ERROR_AND_SESSION.pack(response.error_code, response.session_id)
    out += length(len(response.topics), flexible)
    for topic, topic_id, partitions in response.topics:
        if version >= TOPIC_IDS_SINCE:
            out += topic_id or bytes(16)
        else:
            out += string(topic or "", flexible)
        out += length(len(partitions), flexible)
        for fetched in partitions:
            _write_partition_head(out, version, fetched)
            records = fetched.records
            size_bytes = _size_bytes(records)
            out += length(size_bytes, flexible)
            if size_bytes > 0 and records is not None:
                parts += (out, records)
                out = bytearray()
            if flexible:
                out += _partition_tags(fetched)
        out += end
    if version >= 16 and response.node_endpoints:
        out += node_endpoints(response.node_endpoints)
    else:
        out += end
    if out:
        parts.append(out)
    return parts


def _size_bytes(records: Part | None) -> int:
    if records is None:
        return -1
    if isinstance(records, bytes | bytearray | memoryview):
        return len(records)
    return records.size_bytes


def _write_partition_head(out: bytearray, version: int, fetched: FetchedPartition) -> None:
    out += _NUMBERS[version].pack(*fetched[: _NUMBER_COUNT[version]])
    if version < 4:
        return
    flexible = version >= FLEXIBLE_SINCE
    aborted = fetched.aborted_transactions
    if aborted is None:
        out += b"\x00" if flexible else b"\xff\xff\xff\xff"
    else:
        out += length(len(aborted), flexible)
        for transaction in aborted:
            out += _ABORTED.pack(*transaction)
            if flexible:
                out += b"\x00"
    if version >= 11:
        out += _INT32.pack(fetched.preferred_read_replica)


def _partition_tags(fetched: FetchedPartition) -> bytes:
    if fetched.diverging_epoch is None and fetched.current_leader is None:
        return b"\x00"
    tags = []
    if fetched.diverging_epoch is not None:
        tags.append((_TAG_DIVERGING_EPOCH, _EPOCH_END.pack(*fetched.diverging_epoch) + b"\x00"))
    if fetched.current_leader is not None:
        tags.append((_TAG_CURRENT_LEADER, current_leader(fetched.current_leader)))
    return tagged_fields(tags)


def read_fetch_response(version: int, body: memoryview) -> FetchResponse:
    """``body``: the frame without its header; records are views of it. Raises ProtocolError."""
    try:
        return _read_response(version, body)
    except MALFORMED as error:
        raise ProtocolError(f"a malformed Fetch response of version {version}: {error}") from error


def _read_response(version: int, body: memoryview) -> FetchResponse:
    flexible = version >= FLEXIBLE_SINCE
    position = 0
    throttle_time_ms = error_code = session_id = 0
    if version >= 1:
        (throttle_time_ms,) = _INT32.unpack_from(body, 0)
        position = 4
    if version >= 7:
        error_code, session_id = _ERROR_AND_SESSION.unpack_from(body, position)
        position += 6
    topic_count, position = read_count(body, position, flexible)
    topics = []
    for _ in range(topic_count):
        topic, position = _read_topic(version, body, position)
        topics.append(topic)
    endpoints: list[NodeEndpoint] = []
    if version >= 16:
        for tag, start, end in tagged_field_spans(body, position):
            if tag == 0:
                endpoints = read_node_endpoints(body[:end], start)
    return FetchResponse(topics, throttle_time_ms, error_code, session_id, endpoints)


def _read_topic(version: int, body: memoryview, position: int) -> tuple[FetchedTopic, int]:
    flexible = version >= FLEXIBLE_SINCE
    topic = topic_id = None
    if version >= TOPIC_IDS_SINCE:
        topic_id = bytes(body[position : position + 16])
        position += 16
    else:
        topic, position = read_name(body, position, flexible)
    count, position = read_count(body, position, flexible)
    partitions = []
    for _ in range(count):
        partition, position = _read_partition(version, body, position)
        partitions.append(partition)
    if flexible:
        position = skip_tagged_fields(body, position)
    return FetchedTopic(topic, topic_id, partitions), position


def _read_partition(version: int, body: memoryview, position: int) -> tuple[FetchedPartition, int]:
    flexible = version >= FLEXIBLE_SINCE
    layout = _NUMBERS[version]
    numbers: tuple[int, int, int, int, int] = (*layout.unpack_from(body, position), -1, -1)[:5]
    position += layout.size
    aborted: list[AbortedTransaction] | None = None
    preferred_read_replica = -1
    if version >= 4:
        aborted, position = _read_aborted(body, position, flexible)
    if version >= 11:
        (preferred_read_replica,) = _INT32.unpack_from(body, position)
        position += 4
    size_bytes, position = read_length(body, position, flexible)
    records = None
    if size_bytes >= 0:
        records = body[position : position + size_bytes]
        position += size_bytes
    diverging = leader = None
    if flexible:
        if body[position] == 0:
            position += 1
        else:
            diverging, leader, position = _read_partition_tags(body, position)
    return FetchedPartition(*numbers, records, aborted, preferred_read_replica, diverging, leader), position


def _read_aborted(body: memoryview, position: int, flexible: bool) -> tuple[list[AbortedTransaction] | None, int]:
    count, position = read_length(body, position, flexible)
    if count < 0:
        return None, position
    aborted = []
    for _ in range(count):
        aborted.append(AbortedTransaction(*_ABORTED.unpack_from(body, position)))
        position += _ABORTED.size
        if flexible:
            position = skip_tagged_fields(body, position)
    return aborted, position


def _read_partition_tags(body: memoryview, position: int) -> tuple[EpochEndOffset | None, CurrentLeader | None, int]:
    diverging = leader = None
    for tag, start, end in tagged_field_spans(body, position):
        position = end
        if tag == _TAG_DIVERGING_EPOCH:
            diverging = EpochEndOffset(*_EPOCH_END.unpack_from(body[:end], start))
        elif tag == _TAG_CURRENT_LEADER:
            leader = read_current_leader(body[:end], start)
    return diverging, leader, position
