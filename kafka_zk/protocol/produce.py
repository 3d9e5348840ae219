"""Produce, versions 0 to 11; records are not decoded.

Request body: ``transactional_id`` (3+, nullable), ``acks`` int16, ``timeout_ms`` int32, then per topic its name and per
partition its number (int32) and the records. Response body: per topic its name and per partition ``index`` int32,
``error_code`` int16, ``base_offset`` int64, ``log_append_time_ms`` int64 (2+), ``log_start_offset`` int64 (5+),
``record_errors`` and ``error_message`` (8+), ``CurrentLeader`` tagged (10+); then ``throttle_time_ms`` int32 (1+) and
``NodeEndpoints`` tagged (10+). Versions from 9 on are flexible.

The native module decodes ordinary requests and encodes responses without error details. Python code does the rest, and
everything if there is no native module.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from kafka_zk.base.types import new_tuple
from kafka_zk.native.loading import implementation
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ProtocolError
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
    Buffer,
    length,
    read_count,
    read_length,
    read_name,
    read_string,
    skip_tagged_fields,
    string,
    tagged_field_spans,
)
from kafka_zk.protocol.request import response_header
from kafka_zk.protocol.request_limits import max_elements

FLEXIBLE_SINCE = 9
_PRODUCE = ApiKey.PRODUCE
_MAX_ELEMENTS = max_elements(ApiKey.PRODUCE)

_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_INT32 = struct.Struct(">i")
_RESULT_V0 = struct.Struct(">ihq")
_RESULT_V2 = struct.Struct(">ihqq")
_RESULT_V5 = struct.Struct(">ihqqq")
_NO_ERRORS = b"\x00\x00\x00\x00\xff\xff"  # version 8: no record errors, no message
_NO_DETAILS = ((), None, None)  # the last three fields of a PartitionResult without details
_NO_ERRORS_FLEXIBLE = b"\x01\x00\x00"  # the same, and no tagged fields

_native = implementation().native


class PartitionData(NamedTuple):
    partition: int
    records: Buffer | None


class TopicData(NamedTuple):
    topic: str
    partitions: list[PartitionData]


class ProduceRequest(NamedTuple):
    """``topics``: (topic, its (partition, records)) as plain tuples. Records are views of the request's frame, writable
    if the frame is."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: Sequence[tuple[str, Sequence[tuple[int, Buffer | None]]]]


class PartitionResult(NamedTuple):
    """``record_errors``: (index in the batch, problem) of records."""

    partition: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str | None]] = ()
    error_message: str | None = None
    current_leader: CurrentLeader | None = None


class TopicResult(NamedTuple):
    topic: str
    partitions: list[PartitionResult]


class ProduceResponse(NamedTuple):
    topics: list[TopicResult]
    throttle_time_ms: int = 0
    node_endpoints: Sequence[NodeEndpoint] = ()


def read_produce_request(version: int, body: memoryview) -> ProduceRequest:
    """``body``: the frame without its header. Raises ProtocolError."""
    if _native is not None:
        found = _native.read_produce(version, body)
        if found is not None:
            return new_tuple(ProduceRequest, found)
    try:
        return _read_request(version, body)
    except MALFORMED as error:
        raise ProtocolError(f"a malformed Produce request of version {version}: {error}") from error


def _read_request(version: int, body: memoryview) -> ProduceRequest:
    flexible = version >= FLEXIBLE_SINCE
    position = 0
    transactional_id = None
    if version >= 3:
        transactional_id, position = read_string(body, 0, flexible)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(body, position)
    topic_count, position = read_count(body, position + 6, flexible)
    element_count = topic_count
    topics = []
    for _ in range(topic_count):
        topic, position = read_name(body, position, flexible)
        partition_count, position = read_count(body, position, flexible)
        element_count += partition_count
        if element_count > _MAX_ELEMENTS:
            raise ProtocolError(f"more than {_MAX_ELEMENTS} topics and partitions")
        partitions = []
        for _ in range(partition_count):
            (partition,) = _INT32.unpack_from(body, position)
            size_bytes, position = read_length(body, position + 4, flexible)
            records = None
            if size_bytes >= 0:
                end = position + size_bytes
                records = body[position:end]
                position = end
            if flexible:
                position = position + 1 if not body[position] else skip_tagged_fields(body, position)
            partitions.append((partition, records))
        if flexible:
            position = position + 1 if not body[position] else skip_tagged_fields(body, position)
        topics.append((topic, partitions))
    if flexible and body[position]:
        skip_tagged_fields(body, position)
    return new_tuple(ProduceRequest, (transactional_id, acks, timeout_ms, topics))


def write_produce_request(version: int, request: ProduceRequest) -> list[Buffer]:
    """Parts to send in order; records are separate parts."""
    flexible = version >= FLEXIBLE_SINCE
    end = b"\x00" if flexible else b""
    parts: list[Buffer] = []
    out = bytearray()
    if version >= 3:
        out += string(request.transactional_id, flexible)
    out += _ACKS_AND_TIMEOUT.pack(request.acks, request.timeout_ms)
    out += length(len(request.topics), flexible)
    for topic, partitions in request.topics:
        out += string(topic, flexible)
        out += length(len(partitions), flexible)
        for partition, records in partitions:
            out += _INT32.pack(partition)
            out += length(-1 if records is None else len(records), flexible)
            if records:
                parts += (out, records)
                out = bytearray()
            out += end
        out += end
    out += end
    if out:
        parts.append(out)
    return parts


def write_produce_response(version: int, correlation_id: int, response: ProduceResponse) -> bytes:
    if _native is not None and not response.node_endpoints:
        written = _native.write_produce(version, correlation_id, response.topics, response.throttle_time_ms)
        if written is not None:
            return written
    flexible = version >= FLEXIBLE_SINCE
    out = [response_header(_PRODUCE, version, correlation_id), length(len(response.topics), flexible)]
    for topic, partitions in response.topics:
        out += (string(topic, flexible), length(len(partitions), flexible))
        for result in partitions:
            out.append(_result(version, result))
        if flexible:
            out.append(b"\x00")
    if version >= 1:
        out.append(_INT32.pack(response.throttle_time_ms))
    if response.node_endpoints and version >= 10:
        out.append(node_endpoints(response.node_endpoints))
    elif flexible:
        out.append(b"\x00")
    return b"".join(out)


def _result(version: int, result: PartitionResult) -> bytes:
    if version >= FLEXIBLE_SINCE and result[5:] == _NO_DETAILS:
        return _RESULT_V5.pack(*result[:5]) + _NO_ERRORS_FLEXIBLE
    if version < 5:
        return _RESULT_V0.pack(*result[:3]) if version < 2 else _RESULT_V2.pack(*result[:4])
    fixed = _RESULT_V5.pack(*result[:5])
    if version < 8:
        return fixed
    flexible = version >= FLEXIBLE_SINCE
    if result[5:] == _NO_DETAILS:
        return fixed + _NO_ERRORS
    out = [fixed, length(len(result.record_errors), flexible)]
    for batch_index, message in result.record_errors:
        out += (_INT32.pack(batch_index), string(message, flexible), b"\x00" if flexible else b"")
    out.append(string(result.error_message, flexible))
    if flexible:
        leader = result.current_leader if version >= 10 else None
        out.append(tagged_fields([] if leader is None else [(0, current_leader(leader))]))
    return b"".join(out)


def read_produce_response(version: int, body: memoryview) -> ProduceResponse:
    """Raises ProtocolError."""
    try:
        return _read_response(version, body)
    except MALFORMED as error:
        raise ProtocolError(f"a malformed Produce response of version {version}: {error}") from error


def _read_response(version: int, body: memoryview) -> ProduceResponse:
    flexible = version >= FLEXIBLE_SINCE
    topic_count, position = read_count(body, 0, flexible)
    topics = []
    for _ in range(topic_count):
        topic, position = read_name(body, position, flexible)
        partition_count, position = read_count(body, position, flexible)
        partitions = []
        for _ in range(partition_count):
            result, position = _read_result(version, body, position)
            partitions.append(result)
        if flexible:
            position = skip_tagged_fields(body, position)
        topics.append(TopicResult(topic, partitions))
    throttle_time_ms = 0
    if version >= 1:
        (throttle_time_ms,) = _INT32.unpack_from(body, position)
        position += 4
    endpoints: list[NodeEndpoint] = []
    if flexible:
        for tag, start, end in tagged_field_spans(body, position):
            if tag == 0 and version >= 10:
                endpoints = read_node_endpoints(body[:end], start)
    return ProduceResponse(topics, throttle_time_ms, endpoints)


def _read_result(version: int, body: memoryview, position: int) -> tuple[PartitionResult, int]:
    flexible = version >= FLEXIBLE_SINCE
    layout = _RESULT_V0 if version < 2 else _RESULT_V2 if version < 5 else _RESULT_V5
    result = PartitionResult(*layout.unpack_from(body, position))
    position += layout.size
    if version < 8:
        return result, position
    error_count, position = read_count(body, position, flexible)
    record_errors = []
    for _ in range(error_count):
        (batch_index,) = _INT32.unpack_from(body, position)
        message, position = read_string(body, position + 4, flexible)
        if flexible:
            position = skip_tagged_fields(body, position)
        record_errors.append((batch_index, message))
    error_message, position = read_string(body, position, flexible)
    leader = None
    if flexible:
        for tag, start, end in tagged_field_spans(body, position):
            position = end
            if tag == 0 and version >= 10:
                leader = read_current_leader(body[:end], start)
    if record_errors or error_message is not None or leader is not None:
        result = result._replace(record_errors=record_errors, error_message=error_message, current_leader=leader)
    return result, position
