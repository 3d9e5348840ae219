"""From the bytes of a fetch to Arrow record batches: whole batches of any magic, in order, within an offset range.

The headers of batches are read one by one (their CRC is checked), their records only by the compiled kernel: those that
lie uncompressed in the fetched bytes all together, compressed ones batch by batch. Message sets of magic 0 and 1, which
only brokers with an old ``log.message.format.version`` store, are first rewritten as records of magic 2.

With read_committed the records of aborted transactions are left out; control batches are never records.
Source: KIP-98; CompletedFetch.java@3.9. Tests: tests/spark_jobs/test_batch_decoder.py.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from spark_jobs import record_kernel as kernel
from spark_jobs.arrow_columns import ArrowColumns
from spark_jobs.schema import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE
from storage.compression import decompress
from storage.errors import CorruptRecord
from storage.legacy_message_set import LegacyMessage, read_message_set
from storage.record_batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAX_UNCOMPRESSED_BYTES,
    MIN_BATCH_LENGTH,
    NO_PRODUCER_ID,
    TIMESTAMP_TYPE_FLAG,
    BatchHeader,
    check_crc,
    decode_records,
    encode_record,
    read_header,
)
from storage.varint import read_varint

_ABORT_MARKER = 0
_LEGACY_MIN_SIZE = 14
_VARINT_BYTES = 10
_REASONS = {
    kernel.MALFORMED: "a malformed record",
    kernel.TIME_OUT_OF_RANGE: "a record whose timestamp in ms is too far away for Spark",
}


class AbortedTransaction(NamedTuple):
    """As a fetch response lists them: from here on, until its marker, the producer's records do not count."""

    producer_id: int
    first_offset: int


class Fetched(NamedTuple):
    """The whole batches of one fetch, with their headers; ``next_offset`` is where the next fetch goes on."""

    data: memoryview
    batches: Sequence[tuple[int, BatchHeader]]
    legacy_size_bytes: int
    next_offset: int


def scan(data: memoryview, fetch_offset: int) -> Fetched:
    """Find the whole batches; a part of one at the end is left out. Raises: CorruptRecord.

    Message sets of magic 0 and 1 come first; those behind a batch of magic 2 are left to the next fetch.
    """
    position, end = 0, len(data)
    batches: list[tuple[int, BatchHeader]] = []
    next_offset = fetch_offset
    legacy_end = 0
    while end - position > MAGIC_POSITION:
        size = int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
        magic = data[position + MAGIC_POSITION]
        if size < (MIN_BATCH_LENGTH if magic >= 2 else _LEGACY_MIN_SIZE) or magic > 2:
            raise CorruptRecord(f"a batch of magic {magic} with {size} bytes at position {position} of a fetch")
        following = position + LOG_OVERHEAD + size
        if following > end:
            break
        if magic == 2:
            header = read_header(data, position)
            batches.append((position, header))
            next_offset = max(next_offset, header.next_offset)
        elif batches:
            break
        else:
            legacy_end = following
            next_offset = max(next_offset, int.from_bytes(data[position : position + 8], "big") + 1)
        position = following
    return Fetched(data, batches, legacy_end, next_offset)


class BatchDecoder:
    """Decodes one range of one partition, fetch by fetch.

    Args: ``first_offset`` (included) and ``until_offset`` (not included) of the range; ``columns`` collects the rows.
    """

    def __init__(
        self,
        columns: ArrowColumns,
        first_offset: int,
        until_offset: int,
        *,
        read_committed: bool = False,
        check_crcs: bool = True,
    ) -> None:
        self._columns = columns
        self._first_offset = first_offset
        self._until_offset = until_offset
        self._read_committed = read_committed
        self._check_crcs = check_crcs

    def feed(self, fetched: Fetched, aborted: Sequence[AbortedTransaction] = ()) -> Iterator[pa.RecordBatch]:
        """Yield the record batches that get complete; what is left is in ``finish``.

        Raises: CorruptRecord, InvalidRecord, UnsupportedCompression.
        """
        if fetched.legacy_size_bytes:
            yield from self._legacy(fetched.data[: fetched.legacy_size_bytes])
        pending: list[tuple[int, BatchHeader]] = []
        for position, header in self._visible(fetched, aborted):
            if self._check_crcs:
                check_crc(fetched.data, position, header)
            if header.attributes & CODEC_MASK:
                yield from self._uncompressed(fetched.data, pending)
                pending = []
                yield from self._compressed(fetched.data, position, header)
            else:
                pending.append((position, header))
        yield from self._uncompressed(fetched.data, pending)

    def skip_to(self, offset: int) -> None:
        """Leave out what lies before: a batch may begin with records that were deleted."""
        self._first_offset = offset

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the last rows, if any."""
        if self._columns.row_count:
            yield self._columns.take()

    def _visible(self, fetched: Fetched, aborted: Sequence[AbortedTransaction]) -> Iterator[tuple[int, BatchHeader]]:
        """The batches with records that a reader may see and that lie in the range, at least in part."""
        upcoming = sorted(aborted, key=lambda each: each.first_offset)
        hidden: set[int] = set()
        for position, header in fetched.batches:
            if self._read_committed and header.producer_id != NO_PRODUCER_ID:
                while upcoming and upcoming[0].first_offset <= header.last_offset:
                    hidden.add(upcoming.pop(0).producer_id)
                if header.is_control:
                    if header.producer_id in hidden and _is_abort(fetched.data, position):
                        hidden.discard(header.producer_id)
                elif header.is_transactional and header.producer_id in hidden:
                    continue
            if header.is_control or not header.record_count:
                continue
            if header.last_offset >= self._first_offset and header.base_offset < self._until_offset:
                yield position, header

    def _uncompressed(self, data: memoryview, batches: list[tuple[int, BatchHeader]]) -> Iterator[pa.RecordBatch]:
        if not batches:
            return
        rows: list[list[int]] = []
        before: int | None = None
        for position, header in batches:
            kind = _timestamp_type(header)
            if before is not None and kind != before:
                yield from self._decode(data, rows, before)
                rows = []
            before = kind
            rows.append(_row(header, position + HEADER_SIZE, position + header.size_bytes))
        if before is not None:
            yield from self._decode(data, rows, before)

    def _compressed(self, data: memoryview, position: int, header: BatchHeader) -> Iterator[pa.RecordBatch]:
        blob = decompress(
            header.compression, data[position + HEADER_SIZE : position + header.size_bytes], MAX_UNCOMPRESSED_BYTES
        )
        yield from self._decode(blob, [_row(header, 0, len(blob))], _timestamp_type(header))

    def _legacy(self, data: memoryview) -> Iterator[pa.RecordBatch]:
        rest: list[LegacyMessage] = []
        for message in read_message_set(data):
            if rest and _legacy_type(message) != _legacy_type(rest[-1]):
                yield from self._legacy_records(rest)
                rest = []
            rest.append(message)
        yield from self._legacy_records(rest)

    def _legacy_records(self, messages: list[LegacyMessage]) -> Iterator[pa.RecordBatch]:
        """Messages of one timestamp type, rewritten as records whose deltas are their offsets and timestamps."""
        if not messages:
            return
        blob = b"".join(encode_record(each.timestamp_ms, each.offset, each.key, each.value) for each in messages)
        rows = [[0, len(blob), 0, 0, 0, 0, len(messages)]]
        yield from self._decode(blob, rows, _legacy_type(messages[0]))

    def _decode(self, data: bytes | memoryview, rows: list[list[int]], timestamp_type: int) -> Iterator[pa.RecordBatch]:
        columns = self._columns
        if not columns.start_timestamp_type(timestamp_type):
            yield columns.take()
            columns.start_timestamp_type(timestamp_type)
        source = np.frombuffer(data, np.uint8)
        batches = np.array(rows, np.int64)
        cursor = np.zeros(kernel.CURSOR_FIELDS, np.int64)
        while True:
            status = columns.decode(source, batches, cursor, self._first_offset, self._until_offset)
            if status == kernel.DONE:
                return
            if status in _REASONS:
                where = rows[int(cursor[kernel.AT_BATCH])][kernel.BASE_OFFSET]
                raise CorruptRecord(f"the batch at offset {where} holds {_REASONS[status]}")
            if columns.row_count:
                yield columns.take()
                columns.start_timestamp_type(timestamp_type)
            else:
                at = int(cursor[kernel.AT_POSITION])
                columns.grow(read_varint(bytes(source[at : at + _VARINT_BYTES]), 0)[0])


def _row(header: BatchHeader, start: int, end: int) -> list[int]:
    append_time = int(bool(header.attributes & TIMESTAMP_TYPE_FLAG))
    times = [header.base_timestamp, append_time, header.max_timestamp]
    return [start, end, header.base_offset, *times, header.record_count]


def _timestamp_type(header: BatchHeader) -> int:
    return LOG_APPEND_TIME if header.attributes & TIMESTAMP_TYPE_FLAG else CREATE_TIME


def _legacy_type(message: LegacyMessage) -> int:
    if not message.magic:
        return NO_TIMESTAMP_TYPE
    return LOG_APPEND_TIME if message.log_append_time else CREATE_TIME


def _is_abort(data: memoryview, position: int) -> bool:
    """A control record's key is version int16 and type int16; type 0 ends a transaction by aborting it."""
    key = next(iter(decode_records(data, position))).key
    return key is not None and len(key) >= 4 and int.from_bytes(key[2:4], "big") == _ABORT_MARKER
