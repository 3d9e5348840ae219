"""OffsetCommit, versions 0 to 9: the request read and the answer written without an object of kafka-python's for each
partition, of which there may be hundreds in every commit.

Request body: ``group_id``, ``generation_id`` int32 and ``member_id`` (1+), ``group_instance_id`` (7+, nullable),
``retention_time_ms`` int64 (2 to 4), then per topic its name and per partition its number int32, the offset int64,
``leader_epoch`` int32 (6+), ``commit_timestamp`` int64 (1 only) and the nullable metadata. Response body:
``throttle_time_ms`` int32 (3+), then per topic its name and per partition its number int32 and an error code int16.
Versions from 8 on are flexible. Source: OffsetCommitRequest.json, OffsetCommitResponse.json@3.9.
"""

import struct
from collections.abc import Generator, Sequence
from typing import NamedTuple

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
_WITHOUT_METADATA = struct.Struct(">iqi2s")  # from version 6 on; the end says that there are none
_NO_METADATA = (b"\0\0", b"\xff\xff")
_NO_METADATA_FLEXIBLE = (b"\1\0", b"\0\0")  # and no tagged fields

_NO_THROTTLE = bytes(4)
_RESULT = struct.Struct(">ih")
_FLEXIBLE_RESULT = struct.Struct(">ihx")  # no tagged fields

Row = tuple[int, int, int, str, int]
"""Partition, offset, leader epoch (-1: none), metadata, commit timestamp in ms (-1: now)."""


class OffsetCommitRequest(NamedTuple):
    """``topics``: the name of each and its rows. What the version does not have is as if the client had none."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    retention_time_ms: int
    topics: list[tuple[str, list[Row]]]


def read_offset_commit_request(version: int, body: memoryview) -> OffsetCommitRequest:
    """The request in ``body`` (the frame without its header). Raises ProtocolError."""
    steps = read_offset_commit_request_in_steps(version, body)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            request: OffsetCommitRequest = end.value
            return request


def read_offset_commit_request_in_steps(version: int, body: memoryview) -> Generator[int, None, OffsetCommitRequest]:
    """The same for a large body: yields the bytes of memory that are needed next, before they are used, and 0 now and
    then. Raises ProtocolError."""
    if len(body) > MAX_BODY_BYTES:
        raise ProtocolError(f"an OffsetCommit request of {len(body)} bytes, at most {MAX_BODY_BYTES} are allowed")
    try:
        return (yield from _read(version, body))
    except MALFORMED as error:
        raise ProtocolError(f"a malformed OffsetCommit request of version {version}: {error}") from error


def _read(version: int, body: memoryview) -> Generator[int, None, OffsetCommitRequest]:
    flexible = version >= _FLEXIBLE_SINCE
    generation_id, member_id, group_instance_id, retention_time_ms = -1, "", None, -1
    group_id, position = read_name(body, 0, flexible)
    if version >= 1:
        (generation_id,) = _INT32.unpack_from(body, position)
        member_id, position = read_name(body, position + 4, flexible)
    if version >= _INSTANCE_ID_SINCE:
        group_instance_id, position = read_string(body, position, flexible)
    if version in _RETENTION_IN:
        (retention_time_ms,) = _INT64.unpack_from(body, position)
        position += 8
    topic_count, position = read_count(body, position, flexible)
    element_count = topic_count
    topics: list[tuple[str, list[Row]]] = []
    for _ in range(topic_count):
        name, position = read_name(body, position, flexible)
        row_count, position = read_count(body, position, flexible)
        element_count += row_count
        if element_count > _MAX_ELEMENTS:
            raise ProtocolError(f"more than {_MAX_ELEMENTS} topics and partitions")
        yield (1 + row_count) * OBJECT_BYTES
        rows: list[Row] = []
        while len(rows) < row_count:
            position = _read_rows(version, body, position, rows, min(row_count, len(rows) + _ROWS_AT_ONCE))
            yield 0
        if flexible:
            position = skip_tagged_fields(body, position)
        topics.append((name, rows))
    if flexible:
        skip_tagged_fields(body, position)
    return OffsetCommitRequest(group_id, generation_id, member_id, group_instance_id, retention_time_ms, topics)


def _read_rows(version: int, body: memoryview, position: int, rows: list[Row], count: int) -> int:
    """Read until there are ``count``; returns the position after them."""
    no_metadata = _NO_METADATA_FLEXIBLE if version >= _FLEXIBLE_SINCE else _NO_METADATA
    for _ in range(len(rows), count):
        if version >= _LEADER_EPOCH_SINCE:
            partition, offset, leader_epoch, end = _WITHOUT_METADATA.unpack_from(body, position)
            if end in no_metadata:  # as most clients commit
                rows.append((partition, offset, leader_epoch, "", -1))
                position += 18
                continue
        row, position = _read_row(version, body, position)
        rows.append(row)
    return position


def _read_row(version: int, body: memoryview, position: int) -> tuple[Row, int]:
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
    """Packs a partition and its error code."""
    return _FLEXIBLE_RESULT if version >= _FLEXIBLE_SINCE else _RESULT


def write_offset_commit_response(
    version: int, correlation_id: int, topics: Sequence[tuple[str, Sequence[bytes]]]
) -> bytes:
    """Header and body, without the size prefix: for each topic its partitions, packed by ``result_struct``."""
    flexible = version >= _FLEXIBLE_SINCE
    parts = [response_header(ApiKey.OFFSET_COMMIT, version, correlation_id)]
    if version >= _THROTTLE_SINCE:
        parts.append(_NO_THROTTLE)
    parts.append(length(len(topics), flexible))
    tags = b"\0" if flexible else b""
    for name, results in topics:
        parts += (string(name, flexible), length(len(results), flexible), b"".join(results), tags)
    parts.append(tags)
    return b"".join(parts)
