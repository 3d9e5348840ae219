"""Clients from before Kafka 0.11: their message sets become batches (Produce 0 to 2), batches become their message sets
(Fetch 0 to 3: magic 0 for versions 0 and 1, magic 1 for 2 and 3).

Converting costs CPU per record. So at most ``PART_BYTES`` of a partition are converted for one fetch (fewer bytes than
asked for are always allowed), the reactor gets its turn between parts, and one batch that is bigger goes to a thread.

Source: KafkaApis.maybeConvertFetchedData, LazyDownConversionRecordsSend.java, LogValidator.java@3.9.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any

from twisted.internet.defer import Deferred

from kafka_zk.handlers.error_map import EXPECTED, error_code
from kafka_zk.handlers.services import Services
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.fetch import FetchedPartition
from kafka_zk.protocol.fetch_request import FetchPartition
from kafka_zk.replica.partition import Bound
from storage import conversion
from storage.errors import InvalidRecord, OffsetOutOfRange, UnsupportedCompression
from storage.legacy_message_set import iter_entries
from storage.record_batch import BatchHeader, iter_batches
from storage.segment import FileSlice
from storage.types import TopicPartition

PART_BYTES = 256 * 1024
_TURN_BYTES = 64 * 1024
_RECORD_COST_BYTES = 64  # what a record costs beside its bytes
MAGIC_2_SINCE_PRODUCE = 3
MAGIC_2_SINCE_FETCH = 4
_MAGIC_1_SINCE_FETCH = 2
_ONE_MESSAGE_SINCE_FETCH = 3  # KIP-74; before, a limit was a limit
_MAGIC_POSITION = 16
_ENTRY_FRONT = Struct(">qi")  # offset of a message, size of what follows


async def up_convert(services: Services, records: memoryview) -> memoryview:
    """The one batch that a message set makes, writable; empty if the set has no whole message.

    A message that is cut at the end is left out and a batch of magic 2 stays as it is, both as in Kafka.
    Raises: StorageError.
    """
    if len(records) > _MAGIC_POSITION and records[_MAGIC_POSITION] == 2:
        return records
    whole = records[: _whole_size_bytes(records)]
    if not whole:
        return whole
    return memoryview(bytearray(await _run(services, len(whole), lambda: _up_convert(whole))))


def _whole_size_bytes(records: memoryview) -> int:
    """Up to where the set consists of whole messages."""
    position = 0
    while position + _ENTRY_FRONT.size <= len(records):
        following = position + _ENTRY_FRONT.size + max(0, _ENTRY_FRONT.unpack_from(records, position)[1])
        if following > len(records):
            break
        position = following
    return position


def _up_convert(records: memoryview) -> bytes:
    entries = list(iter_entries(records))
    if len(entries) > 1 and (any(entry.codec for entry in entries) or len({entry.magic for entry in entries}) > 1):
        raise InvalidRecord("a compressed message must be alone in its set, and all must have the same magic")
    return conversion.up_convert(records)


def read(
    services: Services,
    version: int,
    topic_partition: TopicPartition,
    fetch: FetchPartition,
    bound: Bound,
    left_bytes: int,
    is_first: bool,
) -> FetchedPartition:
    """What a fetch of version 0 to 3 gets from one partition, not yet converted.

    When even the first batch is bigger than the client allows, version 3 gets it if nothing came before it. Versions
    0 to 2 get nothing then, as from Kafka since it stores magic 2 (its 0.8 sent the beginning of the message).
    """
    limit_bytes = min(fetch.partition_max_bytes, left_bytes)
    try:
        partition, log, found = services.replicas.read(
            topic_partition, fetch.fetch_offset, min(limit_bytes, PART_BYTES), bound
        )
        if not log.config.message_downconversion_enable:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    except OffsetOutOfRange:
        return FetchedPartition(fetch.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
    except EXPECTED as error:
        return FetchedPartition(fetch.partition, error_code(error))
    result = FetchedPartition(fetch.partition, 0, partition.high_watermark)
    if found.slice is None:
        return result
    if found.slice.size_bytes <= limit_bytes or (is_first and version >= _ONE_MESSAGE_SINCE_FETCH):
        return result._replace(records=found.slice)
    return result


async def down_convert(
    services: Services,
    version: int,
    topic_partition: TopicPartition,
    fetch_offset: int,
    bound: Bound,
    result: FetchedPartition,
) -> FetchedPartition:
    """The result of ``read`` with its records as the message set that the version knows."""
    magic = int(version >= _MAGIC_1_SINCE_FETCH)
    records = result.records
    try:
        while isinstance(records, FileSlice):
            data = records.read()
            converted, next_offset = await _convert_batches(services, data, magic, fetch_offset)
            if converted or next_offset is None:
                return result._replace(records=converted)
            # Control batches only: they have no old form, and an empty answer would keep the client here forever.
            _, _, found = services.replicas.read(topic_partition, next_offset, PART_BYTES, bound)
            records = found.slice
    except EXPECTED as error:
        return FetchedPartition(result.partition, error_code(error))
    return result._replace(records=records or b"")


async def _convert_batches(services: Services, data: bytes, magic: int, first_offset: int) -> tuple[bytes, int | None]:
    """The batches converted, up to one that has no old form; and the offset after the last one.

    Raises: UnsupportedCompression if already the first has none.
    """
    parts: list[bytes] = []
    next_offset = None
    spent_bytes = 0
    for position, header in iter_batches(data):
        cost_bytes = max(header.size_bytes, header.record_count * _RECORD_COST_BYTES)
        try:
            parts.append(await _run(services, cost_bytes, _conversion_of(data, position, header, magic, first_offset)))
        except UnsupportedCompression:
            if not any(parts):
                raise
            break
        next_offset = header.last_offset + 1
        spent_bytes += cost_bytes
        if spent_bytes > _TURN_BYTES:
            spent_bytes = 0
            await _turn(services.clock)
    return b"".join(parts), next_offset


def _conversion_of(
    data: bytes, position: int, header: BatchHeader, magic: int, first_offset: int
) -> Callable[[], bytes]:
    batch = memoryview(data)[position : position + header.size_bytes]
    return lambda: conversion.down_convert(batch, magic, first_offset=first_offset)


async def _run(services: Services, size_bytes: int, work: Callable[[], bytes]) -> bytes:
    """Here and now, or in a thread if that takes long."""
    if size_bytes <= PART_BYTES:
        return work()
    done: list[bytes] = []
    await services.replicas.run_in_thread(lambda: done.append(work()))
    return done[0]


async def _turn(clock: Any) -> None:
    """Let the reactor look after other connections."""
    turn: Deferred[None] = Deferred()
    clock.callLater(0, turn.callback, None)
    await turn
