"""AddPartitionsToTxn 0 to 3 and EndTxn 0 to 4, without message objects, because every transaction begins with one and
ends with the other. A producer's requests and responses for the same partitions have equal bytes, so decoded requests
and encoded responses are cached. Readers raise ProtocolError.

Source: AddPartitionsToTxnRequest.json, EndTxnRequest.json and their responses@3.9.
"""

import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol.api_keys import FLEXIBLE_SINCE, ApiKey
from kafka_zk.protocol.errors import ErrorCode, ProtocolError
from kafka_zk.protocol.primitives import (
    MALFORMED,
    length,
    read_count,
    read_name,
    skip_tagged_fields,
    string,
)
from kafka_zk.protocol.request import response_header

_ADD_PARTITIONS, _END_TXN = ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN
_ADD_FLEXIBLE = FLEXIBLE_SINCE[_ADD_PARTITIONS]
_END_FLEXIBLE = FLEXIBLE_SINCE[_END_TXN]

_PRODUCER = struct.Struct(">qh")
_PRODUCER_AND_RESULT = struct.Struct(">qhB")
_PARTITION = struct.Struct(">i")
_RESULT = struct.Struct(">ih")
_FLEXIBLE_RESULT = struct.Struct(">ihx")  # no tagged fields
_END = struct.Struct(">ih")  # throttle time (always 0) and error code
_NO_THROTTLE = bytes(4)
_NO_TAGS = b"\0"
_MOST_REMEMBERED = 1024
_LARGEST_REMEMBERED_BYTES = 256
_MOST_PARTITIONS_REMEMBERED = 16


class AddPartitionsToTxnRequest(NamedTuple):
    """``tps``: without duplicates."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    tps: tuple[TopicPartition, ...]


class EndTxnRequest(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


def read_add_partitions_to_txn_request(version: int, body: memoryview) -> AddPartitionsToTxnRequest:
    """The request in ``body`` (the frame without its header), for small requests."""
    if len(body) > _LARGEST_REMEMBERED_BYTES:
        return _read_add_partitions(version, body)
    return _remembered_add_partitions(version, bytes(body))


def _read_add_partitions(version: int, body: memoryview | bytes) -> AddPartitionsToTxnRequest:
    try:
        flexible = version >= _ADD_FLEXIBLE
        transactional_id, position = read_name(body, 0, flexible)
        producer_id, producer_epoch = _PRODUCER.unpack_from(body, position)
        topic_count, position = read_count(body, position + _PRODUCER.size, flexible)
        tps: list[TopicPartition] = []
        for _ in range(topic_count):
            name, position = read_name(body, position, flexible)
            count, position = read_count(body, position, flexible)
            tps += [TopicPartition(name, number) for number in struct.unpack_from(f">{count}i", body, position)]
            position += 4 * count
            if flexible:
                position = skip_tagged_fields(body, position)
        if flexible:
            skip_tagged_fields(body, position)
    except MALFORMED as error:
        raise ProtocolError(f"a malformed AddPartitionsToTxn request of version {version}: {error}") from error
    return AddPartitionsToTxnRequest(transactional_id, producer_id, producer_epoch, tuple(dict.fromkeys(tps)))


_remembered_add_partitions = lru_cache(_MOST_REMEMBERED)(_read_add_partitions)


def write_add_partitions_to_txn_response(
    version: int, correlation_id: int, codes: Mapping[TopicPartition, ErrorCode]
) -> bytes:
    """Header and body, without the size prefix, with a code for each partition."""
    return response_header(_ADD_PARTITIONS, version, correlation_id) + _added(version, codes.items())


def write_partitions_added_to_txn(version: int, correlation_id: int, tps: tuple[TopicPartition, ...]) -> bytes:
    is_small = len(tps) <= _MOST_PARTITIONS_REMEMBERED
    body = _remembered_all_added(version, tps) if is_small else _all_added(version, tps)
    return response_header(_ADD_PARTITIONS, version, correlation_id) + body


def _all_added(version: int, tps: tuple[TopicPartition, ...]) -> bytes:
    return _added(version, dict.fromkeys(tps, ErrorCode.NONE).items())


_remembered_all_added = lru_cache(_MOST_REMEMBERED)(_all_added)


def _added(version: int, codes: Iterable[tuple[TopicPartition, ErrorCode]]) -> bytes:
    flexible = version >= _ADD_FLEXIBLE
    pack = (_FLEXIBLE_RESULT if flexible else _RESULT).pack
    by_topic: dict[str, list[bytes]] = {}
    for (topic, partition), code in codes:
        by_topic.setdefault(topic, []).append(pack(partition, code))
    parts = [_NO_THROTTLE, length(len(by_topic), flexible)]
    for topic, results in by_topic.items():
        parts += (string(topic, flexible), length(len(results), flexible), *results)
        if flexible:
            parts.append(_NO_TAGS)
    if flexible:
        parts.append(_NO_TAGS)
    return b"".join(parts)


def read_end_txn_request(version: int, body: memoryview) -> EndTxnRequest:
    if len(body) > _LARGEST_REMEMBERED_BYTES:
        return _read_end(version, body)
    return _remembered_end(version, bytes(body))


def _read_end(version: int, body: memoryview | bytes) -> EndTxnRequest:
    try:
        flexible = version >= _END_FLEXIBLE
        transactional_id, position = read_name(body, 0, flexible)
        producer_id, producer_epoch, committed = _PRODUCER_AND_RESULT.unpack_from(body, position)
        if flexible:
            skip_tagged_fields(body, position + _PRODUCER_AND_RESULT.size)
    except MALFORMED as error:
        raise ProtocolError(f"a malformed EndTxn request of version {version}: {error}") from error
    return EndTxnRequest(transactional_id, producer_id, producer_epoch, bool(committed))


_remembered_end = lru_cache(_MOST_REMEMBERED)(_read_end)


def write_end_txn_response(version: int, correlation_id: int, code: ErrorCode) -> bytes:
    body = _END.pack(0, code)
    if version >= _END_FLEXIBLE:
        body += _NO_TAGS
    return response_header(_END_TXN, version, correlation_id) + body
