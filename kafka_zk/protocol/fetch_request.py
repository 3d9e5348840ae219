"""The Fetch request, versions 0 to 17, in both directions.

Body: ``replica_id`` int32 (0-14, later in the tagged ``ReplicaState``), ``max_wait_ms`` int32, ``min_bytes`` int32,
``max_bytes`` int32 (3+), ``isolation_level`` int8 (4+), ``session_id`` and ``session_epoch`` int32 (7+), per topic its
name (0-12) or id (13+) and the partitions, ``forgotten_topics_data`` (7+), ``rack_id`` (11+). A partition is its number
int32, ``current_leader_epoch`` int32 (9+), ``fetch_offset`` int64, ``last_fetched_epoch`` int32 (12+),
``log_start_offset`` int64 (5+), ``partition_max_bytes`` int32. Versions from 12 on are flexible.
"""

import struct
from collections.abc import Generator, Sequence
from typing import NamedTuple

from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.leader_hint import tagged_fields
from kafka_zk.protocol.memory import OBJECT_BYTES
from kafka_zk.protocol.primitives import (
    MALFORMED,
    length,
    read_count,
    read_name,
    read_string,
    skip_tagged_fields,
    string,
    tagged_field_spans,
)
from kafka_zk.protocol.request_limits import MAX_BODY_BYTES, max_elements

FLEXIBLE_SINCE = 12
_MAX_ELEMENTS = max_elements(ApiKey.FETCH)
TOPIC_IDS_SINCE = 13

_TAG_CLUSTER_ID = 0
_TAG_REPLICA_STATE = 1
_TAG_DIRECTORY_ID = 0
_NO_TOPICS = 1  # an empty array in flexible versions
_UUID_BYTES = 16

_INT32 = struct.Struct(">i")
_REPLICA_STATE = struct.Struct(">iq")


class FetchPartition(NamedTuple):
    """One partition to fetch. Sizes are in bytes; -1 means unknown in fields with that default.

    ``replica_directory_id``: 16 bytes, or None.
    """

    partition: int
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    replica_directory_id: bytes | None = None


class FetchTopic(NamedTuple):
    """``topic`` up to version 12, ``topic_id`` (16 bytes) from 13 on; the other one is None."""

    topic: str | None
    topic_id: bytes | None
    partitions: list[FetchPartition]


class ForgottenTopic(NamedTuple):
    topic: str | None
    topic_id: bytes | None
    partitions: list[int]


class FetchRequest(NamedTuple):
    """``replica_id``: -1 for a consumer."""

    max_wait_ms: int
    min_bytes: int
    topics: list[FetchTopic]
    max_bytes: int = 0x7FFFFFFF
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    forgotten_topics: Sequence[ForgottenTopic] = ()
    rack_id: str = ""
    replica_id: int = -1
    replica_epoch: int = -1
    cluster_id: str | None = None


def _head(version: int) -> struct.Struct:
    layout = ">" + ("" if version >= 15 else "i") + "ii"
    return struct.Struct(
        layout + ("i" if version >= 3 else "") + ("b" if version >= 4 else "") + ("ii" if version >= 7 else "")
    )


def _partition(version: int) -> struct.Struct:
    if version < 5:
        return struct.Struct(">iqi")
    if version < 9:
        return struct.Struct(">iqqi")
    return struct.Struct(">iiqqi" if version < 12 else ">iiqiqi")


_HEADS = tuple(_head(version) for version in range(18))
_PARTITIONS = tuple(_partition(version) for version in range(18))


def read_fetch_request(version: int, body: memoryview) -> FetchRequest:
    """``body``: the frame without its header. Raises ProtocolError."""
    try:
        return _read_request(version, body)
    except MALFORMED as error:
        raise ProtocolError(f"a malformed Fetch request of version {version}: {error}") from error


def read_fetch_request_in_steps(version: int, body: memoryview) -> Generator[int, None, FetchRequest]:
    """Decode a large request. Yields how many bytes of memory the next step needs, or 0. Raises ProtocolError."""
    if len(body) > MAX_BODY_BYTES:
        raise ProtocolError(f"a Fetch request of {len(body)} bytes, at most {MAX_BODY_BYTES} are allowed")
    flexible = version >= FLEXIBLE_SINCE
    try:
        topic_count, position = read_count(body, _HEADS[version].size, flexible)
        elements_left = _MAX_ELEMENTS - topic_count
        topics = []
        for _ in range(topic_count):
            topic, topic_id, position = _read_topic_name(version, body, position)
            count, position = read_count(body, position, flexible)
            elements_left = _count(elements_left, count)
            yield count * OBJECT_BYTES
            partitions: list[FetchPartition] = []
            while len(partitions) < count:
                read, position = _read_partitions(version, body, position, min(count - len(partitions), 100))
                partitions += read
                yield 0
            if flexible:
                position = skip_tagged_fields(body, position)
            topics.append(FetchTopic(topic, topic_id, partitions))
        return _read_request(version, body, (topics, position))
    except MALFORMED as error:
        raise ProtocolError(f"a malformed Fetch request of version {version}: {error}") from error


def _count(left: int, count: int) -> int:
    """Return how many more topics and partitions are allowed after another ``count``. Raises ProtocolError."""
    if count > left:
        raise ProtocolError(f"more than {_MAX_ELEMENTS} topics and partitions")
    return left - count


def _read_request(version: int, body: memoryview, read: tuple[list[FetchTopic], int] | None = None) -> FetchRequest:
    """``read``: topics that were decoded already, and the position after them."""
    flexible = version >= FLEXIBLE_SINCE
    head = _HEADS[version]
    numbers = head.unpack_from(body)
    replica_id, numbers = (-1, numbers) if version >= 15 else (numbers[0], numbers[1:])
    max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = (
        numbers + (0, 0, 0x7FFFFFFF, 0, 0, -1)[len(numbers) :]
    )
    if read is None:
        topic_count, position = read_count(body, head.size, flexible)
        topics = []
        for _ in range(topic_count):
            topic, topic_id, position = _read_topic_name(version, body, position)
            count, position = read_count(body, position, flexible)
            partitions, position = _read_partitions(version, body, position, count)
            if flexible:
                position = position + 1 if not body[position] else skip_tagged_fields(body, position)
            topics.append(FetchTopic(topic, topic_id, partitions))
    else:
        topics, position = read
    forgotten: list[ForgottenTopic] = []
    rack_id = ""
    if version >= FLEXIBLE_SINCE and body[position] == _NO_TOPICS:
        position += 1
    elif version >= 7:
        forgotten, position = _read_forgotten(version, body, position)
    if version >= 11:
        rack_id, position = read_name(body, position, flexible)
    replica_epoch = -1
    cluster_id = None
    if flexible and body[position]:
        for tag, start, end in tagged_field_spans(body, position):
            if tag == _TAG_CLUSTER_ID:
                cluster_id, _ = read_string(body[:end], start, True)
            elif tag == _TAG_REPLICA_STATE and version >= 15:
                replica_id, replica_epoch = _REPLICA_STATE.unpack_from(body[:end], start)
    return FetchRequest(
        max_wait_ms,
        min_bytes,
        topics,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        forgotten,
        rack_id,
        replica_id,
        replica_epoch,
        cluster_id,
    )


def _read_topic_name(version: int, body: memoryview, position: int) -> tuple[str | None, bytes | None, int]:
    if version < TOPIC_IDS_SINCE:
        topic, position = read_name(body, position, version >= FLEXIBLE_SINCE)
        return topic, None, position
    topic_id = bytes(body[position : position + 16])
    if len(topic_id) < 16:
        raise ProtocolError("a truncated topic id")
    return None, topic_id, position + 16


def _read_partitions(version: int, body: memoryview, position: int, count: int) -> tuple[list[FetchPartition], int]:
    flexible = version >= FLEXIBLE_SINCE
    layout = _PARTITIONS[version]
    partitions = []
    for _ in range(count):
        numbers = layout.unpack_from(body, position)
        position += layout.size
        partition = _partition_of(version, numbers)
        if flexible:
            if body[position] == 0:
                position += 1
            else:
                for tag, start, end in tagged_field_spans(body, position):
                    position = end
                    if tag == _TAG_DIRECTORY_ID and version >= 17:
                        if end - start != _UUID_BYTES:
                            raise ProtocolError(f"a directory id of {end - start} bytes")
                        partition = partition._replace(replica_directory_id=bytes(body[start:end]))
        partitions.append(partition)
    return partitions, position


def _partition_of(version: int, numbers: tuple[int, ...]) -> FetchPartition:
    if version >= 12:
        partition, leader_epoch, offset, last_epoch, start_offset, max_bytes = numbers
        return FetchPartition(partition, offset, max_bytes, leader_epoch, last_epoch, start_offset)
    if version >= 9:
        partition, leader_epoch, offset, start_offset, max_bytes = numbers
        return FetchPartition(partition, offset, max_bytes, leader_epoch, -1, start_offset)
    if version >= 5:
        partition, offset, start_offset, max_bytes = numbers
        return FetchPartition(partition, offset, max_bytes, -1, -1, start_offset)
    partition, offset, max_bytes = numbers
    return FetchPartition(partition, offset, max_bytes)


def _read_forgotten(version: int, body: memoryview, position: int) -> tuple[list[ForgottenTopic], int]:
    flexible = version >= FLEXIBLE_SINCE
    topic_count, position = read_count(body, position, flexible)
    elements_left = _MAX_ELEMENTS
    forgotten = []
    for _ in range(topic_count):
        topic, topic_id, position = _read_topic_name(version, body, position)
        count, position = read_count(body, position, flexible)
        elements_left = _count(elements_left, count + 1)
        partitions = list(struct.unpack_from(f">{count}i", body, position))
        position += 4 * len(partitions)
        if flexible:
            position = skip_tagged_fields(body, position)
        forgotten.append(ForgottenTopic(topic, topic_id, partitions))
    return forgotten, position


def write_fetch_request(version: int, request: FetchRequest) -> bytes:
    """Fields that ``version`` lacks are omitted."""
    flexible = version >= FLEXIBLE_SINCE
    end = b"\x00" if flexible else b""
    numbers = (
        request.replica_id,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
    )[1 if version >= 15 else 0 :]
    head = _HEADS[version]
    out = bytearray(head.pack(*numbers[: len(head.format) - 1]))
    out += length(len(request.topics), flexible)
    for topic in request.topics:
        out += _topic_name(version, topic)
        out += length(len(topic.partitions), flexible)
        for partition in topic.partitions:
            _write_partition(out, version, partition)
        out += end
    if version >= 7:
        out += length(len(request.forgotten_topics), flexible)
        for forgotten in request.forgotten_topics:
            out += _topic_name(version, forgotten)
            out += length(len(forgotten.partitions), flexible)
            out += struct.pack(f">{len(forgotten.partitions)}i", *forgotten.partitions)
            out += end
    if version >= 11:
        out += string(request.rack_id, flexible)
    if flexible:
        tags = [] if request.cluster_id is None else [(_TAG_CLUSTER_ID, string(request.cluster_id, True))]
        if version >= 15 and (request.replica_id, request.replica_epoch) != (-1, -1):
            state = _REPLICA_STATE.pack(request.replica_id, request.replica_epoch) + b"\x00"
            tags.append((_TAG_REPLICA_STATE, state))
        out += tagged_fields(tags)
    return bytes(out)


def _topic_name(version: int, topic: FetchTopic | ForgottenTopic) -> bytes:
    if version < TOPIC_IDS_SINCE:
        return string(topic.topic or "", version >= FLEXIBLE_SINCE)
    return topic.topic_id or bytes(16)


def _write_partition(out: bytearray, version: int, fetched: FetchPartition) -> None:
    partition, offset, max_bytes, leader_epoch, last_epoch, start_offset, directory_id = fetched
    layout = _PARTITIONS[version]
    if version < 5:
        out += layout.pack(partition, offset, max_bytes)
    elif version < 9:
        out += layout.pack(partition, offset, start_offset, max_bytes)
    elif version < 12:
        out += layout.pack(partition, leader_epoch, offset, start_offset, max_bytes)
    else:
        out += layout.pack(partition, leader_epoch, offset, last_epoch, start_offset, max_bytes)
        with_id = version >= 17 and directory_id is not None
        out += tagged_fields([(_TAG_DIRECTORY_ID, directory_id)] if with_id and directory_id else [])
