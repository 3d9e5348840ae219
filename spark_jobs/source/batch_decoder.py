"""Decodes a fetch to Arrow record batches: whole batches of any magic, in order, within an offset range.

Compiled kernels first read the headers of all batches into a table, and then the records that the table describes:
uncompressed batches together, compressed ones after they are decompressed side by side. Message sets of magic 0 and 1,
which only brokers with an old ``log.message.format.version`` store, are first rewritten as records of magic 2.

With read_committed, records of aborted transactions are skipped. Control batches are always skipped.
Source: KIP-98; CompletedFetch.java@3.9.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from kafka_zk.spark_jobs.source import batch_kernel as table
from kafka_zk.spark_jobs.source import record_kernel as kernel
from kafka_zk.spark_jobs.source.arrow_columns import ArrowColumns
from kafka_zk.spark_jobs.source.schema import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.records.compression import decompress
from kafka_zk.storage.records.legacy_message_set import LegacyMessage, read_message_set
from kafka_zk.storage.records.record_batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAX_UNCOMPRESSED_BYTES,
    MIN_BATCH_LENGTH,
    NO_PRODUCER_ID,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    encode_record,
)
from kafka_zk.storage.records.record_decoder import decode_records
from kafka_zk.storage.records.varint import read_varint

_ABORT_MARKER = 0
_LEGACY_MIN_SIZE = 14
_VARINT_BYTES = 10
_REASONS = {
    kernel.MALFORMED: "a malformed record",
    kernel.TIME_OUT_OF_RANGE: "a record whose timestamp in ms is out of Spark's range",
}
_CRC_TO_RECORDS = HEADER_SIZE - CRC_START
_DECOMPRESSED_BYTES = 4 * 1024 * 1024
"""Compressed batches are decompressed together up to this size, because a call of the kernel costs as much as 16 KB."""
OnUnreadable = Callable[[int, int, str], object]
"""Called with the first and last offset of the batch, and the reason."""
Table = Any
"""An int64 array: one row per batch, with the columns of ``batch_kernel``."""


class AbortedTransaction(NamedTuple):
    """The producer's records from ``first_offset`` to its abort marker are skipped."""

    producer_id: int
    first_offset: int


class Fetched(NamedTuple):
    """``legacy_size_bytes``: size of the message sets at the beginning of ``data``. ``batches``: those after them.
    ``next_offset``: where the next fetch begins."""

    data: memoryview
    batches: Table
    legacy_size_bytes: int
    next_offset: int


def scan(data: memoryview, fetch_offset: int) -> Fetched:
    """Ignores a partial batch at the end. Raises CorruptRecord.

    Message sets of magic 0 and 1 come first; those after a batch of magic 2 are left to the next fetch.
    """
    legacy_end, next_offset = _scan_legacy(data, fetch_offset)
    batches = np.empty((len(data) // HEADER_SIZE, table.BATCH_FIELDS), np.int64)
    count, end = table.read_headers(np.frombuffer(data, np.uint8), legacy_end, batches)
    batches = batches[:count]
    if count:
        next_offset = max(next_offset, int(batches[:, table.LAST_OFFSET].max()) + 1)
    if len(data) - end > MAGIC_POSITION:
        _batch_length(data, end)  # a partial batch, or messages of magic 0 or 1
    return Fetched(data, batches, legacy_end, next_offset)


def _scan_legacy(data: memoryview, next_offset: int) -> tuple[int, int]:
    """Return the end of the messages of magic 0 and 1, which may begin a log, and the offset after them."""
    position = 0
    while len(data) - position > MAGIC_POSITION and data[position + MAGIC_POSITION] < 2:
        following = position + LOG_OVERHEAD + _batch_length(data, position)
        if following > len(data):
            break
        next_offset = max(next_offset, int.from_bytes(data[position : position + 8], "big") + 1)
        position = following
    return position, next_offset


def _batch_length(data: memoryview, position: int) -> int:
    length = int.from_bytes(data[position + 8 : position + LOG_OVERHEAD], "big", signed=True)
    magic = data[position + MAGIC_POSITION]
    if length < (MIN_BATCH_LENGTH if magic >= 2 else _LEGACY_MIN_SIZE) or magic > 2:
        raise CorruptRecord(f"a batch of magic {magic} with {length} bytes at position {position} of a fetch")
    return length


class BatchDecoder:
    """Decodes one range of one partition, fetch by fetch.

    Args:
        first_offset, until_offset: the range; excludes ``until_offset``.
        columns: collects the rows.
        on_unreadable: called for a skipped batch or record that cannot be read although the CRC is valid; None raises
            an error instead. Records before it in its batch have already become rows.
    """

    def __init__(
        self,
        columns: ArrowColumns,
        first_offset: int,
        until_offset: int,
        *,
        read_committed: bool = False,
        check_crcs: bool = True,
        on_unreadable: OnUnreadable | None = None,
    ) -> None:
        self._on_unreadable = on_unreadable
        self._columns = columns
        self._first_offset = first_offset
        self._until_offset = until_offset
        self._read_committed = read_committed
        self._check_crcs = check_crcs

    def feed(self, fetched: Fetched, aborted: Sequence[AbortedTransaction] = ()) -> Iterator[pa.RecordBatch]:
        """Yield complete Arrow batches; ``finish`` yields the rest.

        Raises: CorruptRecord, InvalidRecord, UnsupportedCompression.
        """
        if fetched.legacy_size_bytes:
            yield from self._legacy(fetched.data[: fetched.legacy_size_bytes])
        batches = self._visible(fetched, aborted)
        if self._check_crcs:
            _check_crcs(fetched.data, batches)
        for codec, timestamp_type, run in _runs(batches):
            if codec:
                yield from self._compressed(fetched.data, run, codec, timestamp_type)
            else:
                yield from self._decode(fetched.data, run, timestamp_type)

    def skip_to(self, offset: int) -> None:
        """Skip records below ``offset``: a batch may begin with deleted records."""
        self._first_offset = offset

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The last rows, if any."""
        if self._columns.row_count:
            yield self._columns.take()

    def _visible(self, fetched: Fetched, aborted: Sequence[AbortedTransaction]) -> Table:
        batches = fetched.batches
        seen = (batches[:, table.ATTRIBUTES] & CONTROL_FLAG == 0) & (batches[:, table.RECORD_COUNT] > 0)
        seen &= batches[:, table.LAST_OFFSET] >= self._first_offset
        seen &= batches[:, table.BASE_OFFSET] < self._until_offset
        if self._read_committed and aborted:
            seen &= ~_aborted(fetched, aborted)
        return batches if seen.all() else batches[seen]

    def _compressed(self, data: memoryview, run: Table, codec: int, timestamp_type: int) -> Iterator[pa.RecordBatch]:
        parts: list[bytes] = []
        first, size = 0, 0
        for number, (start, end) in enumerate(run[:, : table.END + 1].tolist()):
            try:
                part = decompress(codec, data[start:end], MAX_UNCOMPRESSED_BYTES)
            except CorruptRecord as error:
                self._leave_out(run[number], f"cannot be decompressed: {error}")
                part, run[number, table.RECORD_COUNT] = b"", 0
            run[number, table.START], run[number, table.END] = size, size + len(part)
            parts.append(part)
            size += len(part)
            if size >= _DECOMPRESSED_BYTES:
                yield from self._decode(b"".join(parts), run[first : number + 1], timestamp_type)
                parts, first, size = [], number + 1, 0
        yield from self._decode(b"".join(parts), run[first:], timestamp_type)

    def _leave_out(self, batch: Any, reason: str) -> None:
        first, last = int(batch[table.BASE_OFFSET]), int(batch[table.LAST_OFFSET])
        if self._on_unreadable is None:
            raise CorruptRecord(f"the batch at offset {first} {reason}")
        self._on_unreadable(first, last, f"the batch {reason}")

    def _legacy(self, data: memoryview) -> Iterator[pa.RecordBatch]:
        rest: list[LegacyMessage] = []
        for message in read_message_set(data):
            if rest and _legacy_type(message) != _legacy_type(rest[-1]):
                yield from self._legacy_records(rest)
                rest = []
            rest.append(message)
        yield from self._legacy_records(rest)

    def _legacy_records(self, messages: list[LegacyMessage]) -> Iterator[pa.RecordBatch]:
        if not messages:
            return
        blob = b"".join(encode_record(each.timestamp_ms, each.offset, each.key, each.value) for each in messages)
        batches = np.zeros((1, table.BATCH_FIELDS), np.int64)
        batches[0, table.END], batches[0, table.RECORD_COUNT] = len(blob), len(messages)
        yield from self._decode(blob, batches, _legacy_type(messages[0]))

    def _decode(self, data: bytes | memoryview, batches: Table, timestamp_type: int) -> Iterator[pa.RecordBatch]:
        columns = self._columns
        if not columns.start_timestamp_type(timestamp_type):
            yield columns.take()
            columns.start_timestamp_type(timestamp_type)
        source = np.frombuffer(data, np.uint8)
        cursor = np.zeros(kernel.CURSOR_FIELDS, np.int64)
        while True:
            status = columns.decode(source, batches, cursor, self._first_offset, self._until_offset)
            if status == kernel.DONE:
                return
            if status in _REASONS:
                self._leave_out(batches[cursor[kernel.AT_BATCH]], f"holds {_REASONS[status]}")
                columns.drop_partial_row()
                _pass_by(cursor, source, status)
                continue
            if columns.row_count:
                yield columns.take()
                columns.start_timestamp_type(timestamp_type)
            else:
                at = int(cursor[kernel.AT_POSITION])
                columns.grow(read_varint(bytes(source[at : at + _VARINT_BYTES]), 0)[0])


def _pass_by(cursor: Any, source: Any, status: int) -> None:
    """Skip the rest of a malformed batch, or one record whose timestamp does not fit in Spark."""
    if status == kernel.TIME_OUT_OF_RANGE:
        at = int(cursor[kernel.AT_POSITION])
        size, position = read_varint(bytes(source[at : at + _VARINT_BYTES]), 0)
        cursor[kernel.AT_POSITION] += position + size
        cursor[kernel.RECORDS_LEFT] -= 1
    else:
        cursor[kernel.AT_BATCH] += 1
        cursor[kernel.AT_POSITION] = cursor[kernel.RECORDS_LEFT] = 0


def _check_crcs(data: memoryview, batches: Table) -> None:
    for start, end, offset, crc in batches[:, [table.START, table.END, table.BASE_OFFSET, table.CRC]].tolist():
        computed = crc32c(data[start - _CRC_TO_RECORDS : end])
        if computed != crc:
            raise CorruptRecord(f"batch at offset {offset}: CRC is {crc:#010x}, computed {computed:#010x}")


def _runs(batches: Table) -> Iterator[tuple[int, int, Table]]:
    """Split where the codec or timestamp type changes. Yields the codec (0: none), timestamp type and batches."""
    if not len(batches):
        return
    kinds = batches[:, table.ATTRIBUTES] & (CODEC_MASK | TIMESTAMP_TYPE_FLAG)
    for run in np.split(batches, np.flatnonzero(np.diff(kinds)) + 1):
        kind = int(run[0, table.ATTRIBUTES])
        yield kind & CODEC_MASK, LOG_APPEND_TIME if kind & TIMESTAMP_TYPE_FLAG else CREATE_TIME, run


def _aborted(fetched: Fetched, aborted: Sequence[AbortedTransaction]) -> Any:
    upcoming = sorted(aborted, key=lambda each: each.first_offset)
    producers: set[int] = set()
    flags = np.zeros(len(fetched.batches), bool)
    columns = [table.START, table.LAST_OFFSET, table.ATTRIBUTES, table.PRODUCER_ID]
    for number, (start, last_offset, attributes, producer_id) in enumerate(fetched.batches[:, columns].tolist()):
        if producer_id == NO_PRODUCER_ID:
            continue
        while upcoming and upcoming[0].first_offset <= last_offset:
            producers.add(upcoming.pop(0).producer_id)
        if producer_id not in producers:
            continue
        if attributes & CONTROL_FLAG:
            if _is_abort(fetched.data, start - HEADER_SIZE):
                producers.discard(producer_id)
        else:
            flags[number] = bool(attributes & TRANSACTIONAL_FLAG)
    return flags


def _legacy_type(message: LegacyMessage) -> int:
    if not message.magic:
        return NO_TIMESTAMP_TYPE
    return LOG_APPEND_TIME if message.log_append_time else CREATE_TIME


def _is_abort(data: memoryview, position: int) -> bool:
    """The key of a control batch contains version int16 and type int16 (0: abort)."""
    marker = next(iter(decode_records(data, position)), None)
    if marker is None:  # compaction leaves an empty batch if the marker was the producer's last batch
        return False
    key = marker.key
    return key is not None and len(key) >= 4 and int.from_bytes(key[2:4], "big") == _ABORT_MARKER
