"""OffsetCommit, versions 0 to 9, without a message object per partition, because a commit may have hundreds.

Request body: ``group_id``, ``generation_id`` int32 and ``member_id`` (1+), ``group_instance_id`` (7+, nullable),
``retention_time_ms`` int64 (2 to 4), then per topic its name and per partition its number int32, the offset int64,
``leader_epoch`` int32 (6+), ``commit_timestamp`` int64 (1 only) and the nullable metadata. Response body:
``throttle_time_ms`` int32 (3+), then per topic its name and per partition its number int32 and an error code int16.
Versions from 8 on are flexible. Source: OffsetCommitRequest.json, OffsetCommitResponse.json@3.9.
"""

import struct
from collections.abc import Generator, Sequence
from typing import NamedTuple

from kafka_zk.base.steps import run_to_end
from kafka_zk.protocol.api_keys import FLEXIBLE_SINCE, ApiKey
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.memory import OBJECT_BYTES
from kafka_zk.protocol.primitives import (
    MALFORMED,
    length,
    read_count,
    read_name,
    read_string,
    skip_tagged_fields,
    string,
)
from kafka_zk.protocol.request import response_header
from kafka_zk.protocol.request_limits import MAX_BODY_BYTES, max_elements

_FLEXIBLE_SINCE = FLEXIBLE_SINCE[ApiKey.OFFSET_COMMIT]
_LEADER_EPOCH_SINCE = 6
_INSTANCE_ID_SINCE = 7
_THROTTLE_SINCE = 3
_TIMESTAMP_IN = 1
_RETENTION_IN = range(2, 5)
_MAX_ELEMENTS = max_elements(ApiKey.OFFSET_COMMIT)
_ROWS_AT_ONCE = 64

_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_OFFSET = struct.Struct(">iq")
_OFFSET_AND_EPOCH = struct.Struct(">iqi")
_OFFSET_AND_TIMESTAMP = struct.Struct(">iqq")
_WITHOUT_METADATA = struct.Struct(">iqi2s")  # since version 6; the last field means: no metadata
_NO_METADATA = frozenset((b"\0\0", b"\xff\xff"))
_NO_METADATA_FLEXIBLE = frozenset((b"\1\0", b"\0\0"))  # with an empty section of tagged fields

_NO_THROTTLE = bytes(4)
_RESULT = struct.Struct(">ih")
_FLEXIBLE_RESULT = struct.Struct(">ihx")  # no tagged fields


class Rows(NamedTuple):
    """Some partitions of a topic, in columns. ``leader_epochs``: -1 if unknown. ``timestamps_ms``: -1 means now.
    ``metadata``: None if no partition has metadata or a timestamp."""

    partitions: tuple[int, ...]
    offsets: Sequence[int]
    leader_epochs: Sequence[int]
    metadata: Sequence[str] | None
    timestamps_ms: Sequence[int]


class OffsetCommitRequest(NamedTuple):
    """``topics``: each name with its partitions, in pieces of at most 64. Fields that the version lacks have their
    defaults.
    """

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    retention_time_ms: int
    topics: list[tuple[str, list[Rows]]]


def read_offset_commit_request(version: int, body: memoryview) -> OffsetCommitRequest:
    """The request in ``body`` (the frame without its header), for small requests. Raises ProtocolError."""
    return run_to_end(read_offset_commit_request_in_steps(version, body))


def read_offset_commit_request_in_steps(version: int, body: memoryview) -> Generator[int, None, OffsetCommitRequest]:
    """Decode a large request. Yields how many bytes of memory the next step needs, or 0. Raises ProtocolError."""
    if len(body) > MAX_BODY_BYTES:
        raise ProtocolError(f"an OffsetCommit request of {len(body)} bytes, at most {MAX_BODY_BYTES} are allowed")
    try:
        request, topic_count, position = _read_front(version, body)
        element_count = topic_count
        for _ in range(topic_count):
            name, row_count, position = _read_topic_front(version, body, position)
            element_count += row_count
            _check(element_count)
            yield (1 + row_count) * OBJECT_BYTES
            pieces: list[Rows] = []
            request.topics.append((name, pieces))
            while row_count > 0:
                rows, position = _read_rows(version, body, position, row_count)
                pieces.append(rows)
                row_count -= _ROWS_AT_ONCE
                yield 0
            position = _read_end(version, body, position)
        _read_end(version, body, position)
    except MALFORMED as error:
        raise _malformed(version, error) from error
    return request


def _check(element_count: int) -> None:
    if element_count > _MAX_ELEMENTS:
        raise ProtocolError(f"more than {_MAX_ELEMENTS} topics and partitions")


def _malformed(version: int, error: Exception) -> ProtocolError:
    return ProtocolError(f"a malformed OffsetCommit request of version {version}: {error}")


def _read_front(version: int, body: memoryview) -> tuple[OffsetCommitRequest, int, int]:
    flexible = version >= _FLEXIBLE_SINCE
    generation_id, member_id, group_instance_id, retention_time_ms = -1, "", None, -1
    group_id, position = read_name(body, 0, flexible)
    if version >= 1:
        (generation_id,) = _INT32.unpack_from(body, position)
        member_id, position = read_name(body, position + 4, flexible)
    if version >= _INSTANCE_ID_SINCE:
        group_instance_id, position = read_string(body, position, flexible)
    elif version in _RETENTION_IN:
        (retention_time_ms,) = _INT64.unpack_from(body, position)
        position += 8
    topic_count, position = read_count(body, position, flexible)
    request = OffsetCommitRequest(group_id, generation_id, member_id, group_instance_id, retention_time_ms, [])
    return request, topic_count, position


def _read_topic_front(version: int, body: memoryview, position: int) -> tuple[str, int, int]:
    flexible = version >= _FLEXIBLE_SINCE
    name, position = read_name(body, position, flexible)
    row_count, position = read_count(body, position, flexible)
    return name, row_count, position


def _read_end(version: int, body: memoryview, position: int) -> int:
    return skip_tagged_fields(body, position) if version >= _FLEXIBLE_SINCE else position


def _read_rows(version: int, body: memoryview, position: int, count: int) -> tuple[Rows, int]:
    if count > _ROWS_AT_ONCE:
        count = _ROWS_AT_ONCE
    end = position + count * _WITHOUT_METADATA.size
    if version >= _LEADER_EPOCH_SINCE and end <= len(body):
        plain = zip(*_WITHOUT_METADATA.iter_unpack(body[position:end]), strict=True)
        partitions, offsets, leader_epochs, ends = plain
        if (_NO_METADATA_FLEXIBLE if version >= _FLEXIBLE_SINCE else _NO_METADATA).issuperset(ends):
            return Rows(partitions, offsets, leader_epochs, None, ()), end
    rows = []
    for _ in range(count):
        row, position = _read_row(version, body, position)
        rows.append(row)
    return Rows(*zip(*rows, strict=True)), position


def _read_row(version: int, body: memoryview, position: int) -> tuple[tuple[int, int, int, str, int], int]:
    flexible = version >= _FLEXIBLE_SINCE
    leader_epoch = timestamp_ms = -1
    if version >= _LEADER_EPOCH_SINCE:
        partition, offset, leader_epoch = _OFFSET_AND_EPOCH.unpack_from(body, position)
        position += _OFFSET_AND_EPOCH.size
    elif version == _TIMESTAMP_IN:
        partition, offset, timestamp_ms = _OFFSET_AND_TIMESTAMP.unpack_from(body, position)
        position += _OFFSET_AND_TIMESTAMP.size
    else:
        partition, offset = _OFFSET.unpack_from(body, position)
        position += _OFFSET.size
    metadata, position = read_string(body, position, flexible)
    if flexible:
        position = skip_tagged_fields(body, position)
    return (partition, offset, leader_epoch, metadata or "", timestamp_ms), position


def result_struct(version: int) -> struct.Struct:
    return _FLEXIBLE_RESULT if version >= _FLEXIBLE_SINCE else _RESULT


def topic_result(version: int, name: str, results: Sequence[bytes]) -> bytes:
    """``results``: packed with ``result_struct``."""
    flexible = version >= _FLEXIBLE_SINCE
    end = b"\0" if flexible else b""
    return b"".join((string(name, flexible), length(len(results), flexible), *results, end))


def write_offset_commit_response(version: int, correlation_id: int, topics: Sequence[bytes]) -> bytes:
    flexible = version >= _FLEXIBLE_SINCE
    parts = [response_header(ApiKey.OFFSET_COMMIT, version, correlation_id)]
    if version >= _THROTTLE_SINCE:
        parts.append(_NO_THROTTLE)
    parts.append(length(len(topics), flexible))
    parts += topics
    if flexible:
        parts.append(b"\0")
    return b"".join(parts)
