"""Converts message sets of clients before Kafka 0.11 to batches (Produce 0 to 2), and batches to message sets (Fetch 0
and 1: magic 0; 2 and 3: magic 1).

A conversion costs CPU per record and can multiply the bytes. So one fetch converts at most ``PART_BYTES`` per
partition, and in total no more records than one batch can have; a response may be smaller than requested. The reactor
works between parts, a helper process does large conversions, and each batch takes memory from the broker's budget.
Without free memory, a fetch without results waits, and a fetch with results returns them: no fetch waits while it holds
converted bytes.

Source: KafkaApis.maybeConvertFetchedData, LazyDownConversionRecordsSend.java, LogValidator.java@3.9.
"""

from contextlib import ExitStack
from pickle import PickleBuffer

from kafka_zk.base.turns import Turns
from kafka_zk.base.types import FetchIsolation, TopicPartition
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code
from kafka_zk.broker.handlers.services import Services
from kafka_zk.protocol.errors import ApiError, ErrorCode, ProtocolError
from kafka_zk.protocol.fetch import FetchedPartition
from kafka_zk.protocol.fetch_request import FetchPartition
from kafka_zk.protocol.memory import Memory
from kafka_zk.storage.files.errors import CorruptRecord, InvalidRecord, OffsetOutOfRange, StorageError, UnpacksTooBig
from kafka_zk.storage.log.batch_work import AT_ONCE_BYTES, AT_ONCE_RECORDS, DownConvertWork, UpConvertWork
from kafka_zk.storage.records import conversion
from kafka_zk.storage.records.legacy_message_set import whole_size_bytes
from kafka_zk.storage.records.record_batch import CODEC_MASK, BatchHeader
from kafka_zk.storage.records.record_stream import MAX_RECORDS
from kafka_zk.storage.segments.file_slice import FileSlice
from kafka_zk.storage.segments.segment import Segment
from kafka_zk.storage.segments.segment_scan import BatchSpan

PART_BYTES = 256 * 1024
_RECORD_COST_BYTES = 64  # memory per record, in addition to its bytes
_MESSAGE_BYTES = 34  # size of a magic-1 message without key and value
MAGIC_2_SINCE_PRODUCE = 3
MAGIC_2_SINCE_FETCH = 4
_MAGIC_1_SINCE_FETCH = 2
_ONE_MESSAGE_SINCE_FETCH = 3  # since KIP-74; earlier versions have strict limits
_MAGIC_POSITION = 16


async def up_convert(
    services: Services, memory: Memory, records: memoryview, max_size_bytes: int | None
) -> memoryview:
    """Convert a message set to one writable batch; empty if the set has no complete message.

    As in Kafka, an incomplete last message is dropped, and a magic-2 batch is returned unchanged. Raises: StorageError,
    ApiError.
    """
    if len(records) > _MAGIC_POSITION and records[_MAGIC_POSITION] == 2:
        return records
    if len(records) <= AT_ONCE_BYTES:
        whole = records[: whole_size_bytes(records)]
        if not whole:
            return whole
        try:
            return memoryview(
                conversion.up_convert(whole, max_uncompressed_bytes=AT_ONCE_BYTES, max_size_bytes=max_size_bytes)
            )
        except UnpacksTooBig:
            pass  # too long for one reactor turn
    converted: bytes = await services.replicas.batch_helpers.run(UpConvertWork(PickleBuffer(records), max_size_bytes))
    memory.take(len(converted))
    return memoryview(bytearray(converted))


def read(
    services: Services,
    version: int,
    tp: TopicPartition,
    fetch: FetchPartition,
    isolation: FetchIsolation,
    left_bytes: int,
    is_first: bool,
) -> FetchedPartition:
    """Read one partition for a fetch of version 0 to 3, without conversion.

    Version 3 returns a first batch above the client's limit if nothing precedes it. Versions 0 to 2 return nothing in
    that case, as in Kafka since magic 2.
    """
    limit_bytes = min(fetch.partition_max_bytes, left_bytes)
    try:
        log, found = services.replicas.read(
            tp, fetch.fetch_offset, min(limit_bytes, PART_BYTES), isolation
        )
        if not log.config.message_downconversion_enable:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    except OffsetOutOfRange:
        return FetchedPartition(fetch.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
    except EXPECTED as error:
        return FetchedPartition(fetch.partition, error_code(error))
    result = FetchedPartition(fetch.partition, 0, log.high_watermark)
    if found.slice is None:
        return result
    if found.slice.size_bytes <= limit_bytes or (is_first and version >= _ONE_MESSAGE_SINCE_FETCH):
        return result._replace(records=found.slice)
    return result


def _check_has_old_form(span: BatchSpan, header: BatchHeader) -> None:
    if span.magic != 2:
        raise CorruptRecord(f"magic {span.magic} at position {span.position}, expected 2")
    if not header.is_control:
        conversion.check_has_old_form(header)


def _needed_bytes(span: BatchSpan, header: BatchHeader) -> int:
    """Upper limit of the converted size; an estimate if the batch is compressed."""
    return 0 if header.is_control else span.size_bytes + max(0, header.record_count) * _MESSAGE_BYTES


class DownConversion:
    """The conversions for one Fetch request."""

    def __init__(self, services: Services, memory: Memory, version: int, isolation: FetchIsolation) -> None:
        self._services = services
        self._memory = memory
        self._magic = int(version >= _MAGIC_1_SINCE_FETCH)
        self._isolation = isolation
        self._turns = Turns(services.clock)
        self._records_left = MAX_RECORDS
        self._has_converted = False

    async def convert(
        self, tp: TopicPartition, fetch_offset: int, result: FetchedPartition
    ) -> FetchedPartition:
        """Convert a result of ``read``. The caller holds its slice."""
        services = self._services
        found = result.records
        try:
            while isinstance(found, FileSlice):
                with ExitStack() as held:
                    held.callback(found.retain().release)
                    converted, next_offset = await self._convert_slice(found, fetch_offset)
                if converted or next_offset is None:
                    return result._replace(records=converted)
                # These were only control batches, which have no old format. After an empty response, the client would
                # fetch the same offset forever.
                _, read = services.replicas.read(tp, next_offset, PART_BYTES, self._isolation)
                found = read.slice
        except OSError as error:
            assert isinstance(found, FileSlice)
            services.replicas.read_failed(tp, found, error)
            return FetchedPartition(result.partition, error_code(error))
        except EXPECTED as error:
            return FetchedPartition(result.partition, error_code(error))
        return result._replace(records=found or b"")

    async def _convert_slice(self, found: FileSlice, first_offset: int) -> tuple[bytes | bytearray, int | None]:
        """Convert batches up to the first failure. Returns the bytes, and the offset after them.

        Raises: StorageError if it is the first batch.
        """
        converted: bytes | bytearray = b""
        next_offset = None
        for span in found.segment.spans(found.position, found.position + found.size_bytes):
            header = found.segment.header_at(span.position)
            try:
                _check_has_old_form(span, header)
                needed_bytes = _needed_bytes(span, header)
                if not await self._take(header.record_count, needed_bytes):
                    break
                part = await self._convert_and_count(found.segment, span, header, first_offset, needed_bytes)
            except StorageError:
                if not converted:
                    raise
                break
            if not converted:
                converted = part
            elif isinstance(converted, bytearray):
                converted += part
            else:
                converted = bytearray(converted) + part
            next_offset = header.last_offset + 1
            self._records_left -= header.record_count
            self._has_converted = self._has_converted or bool(part)
        return converted, next_offset

    async def _take(self, record_count: int, needed_bytes: int) -> bool:
        """Take memory for a batch. For a fetch's first batch, waits for memory. For other batches, returns False if
        memory is short or the limit of records is reached.

        Raises: InvalidRecord if the batch needs more than the whole budget; ClientGone.
        """
        if self._has_converted:
            return record_count <= self._records_left and self._memory.try_take(needed_bytes)
        try:
            await self._memory.reserve(needed_bytes)
        except ProtocolError as error:
            raise InvalidRecord(f"a batch is too big to be converted: {error}") from error
        return True

    async def _convert_and_count(
        self, segment: Segment, span: BatchSpan, header: BatchHeader, first_offset: int, taken_bytes: int
    ) -> bytes | bytearray:
        size_bytes = 0
        try:
            converted = await self._convert_batch(segment, span, header, first_offset)
            size_bytes = len(converted)
            return converted
        finally:
            if size_bytes > taken_bytes:
                self._memory.take(size_bytes - taken_bytes)
            else:
                self._memory.give_back(taken_bytes - size_bytes)

    async def _convert_batch(
        self, segment: Segment, span: BatchSpan, header: BatchHeader, first_offset: int
    ) -> bytes | bytearray:
        at_once_bytes = AT_ONCE_BYTES if header.attributes & CODEC_MASK else PART_BYTES
        if span.size_bytes <= at_once_bytes and header.record_count <= AT_ONCE_RECORDS:
            await self._turns.spend(max(span.size_bytes, header.record_count * _RECORD_COST_BYTES))
            batch = segment.read(span.position, span.size_bytes)
            try:
                return conversion.down_convert_batch(
                    batch, header, self._magic, first_offset=first_offset, max_uncompressed_bytes=at_once_bytes
                )
            except UnpacksTooBig:
                pass  # too long for one reactor turn
        work = DownConvertWork(span.position, span.size_bytes, self._magic, first_offset)
        converted: bytes = await self._services.replicas.batch_helpers.run_on(segment, work)
        return converted
