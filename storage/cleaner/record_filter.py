"""Filters a batch for compaction: keeps each key's last record, recent tombstones, and each producer's last state.

A batch is copied unchanged if all its records are kept, otherwise rebuilt. Offsets, timestamps and headers of the kept
records stay, as do the batch's first and last offset, producer and codec.

A tombstone is removed in two steps (KIP-534). The first cleaning that finds it as its key's last record sets the
batch's delete horizon: now plus ``delete.retention.ms``. A cleaning after the horizon removes the tombstone, so
consumers have ``delete.retention.ms`` to see it, however old it was. An attribute bit says that the horizon replaces
the base timestamp. Batches of magic 0 and 1 have no horizon; the segment's age decides instead.

Records of aborted transactions are removed immediately. Once all records of a transaction are gone, its marker is also
removed in two steps (``cleaned_transactions``).

Source: Cleaner.cleanInto in LogCleaner.scala, MemoryRecords.filterTo@3.9.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kafka_zk.storage.cleaner.cleaned_transactions import CleanedTransactions
from kafka_zk.storage.cleaner.offset_map import NOTHING_REPLACED, Replaced
from kafka_zk.storage.files.config_table import INT_MAX, LONG_MAX
from kafka_zk.storage.files.errors import CorruptRecord, InvalidRecord
from kafka_zk.storage.records.compression import Compression, compress, decompress
from kafka_zk.storage.records.legacy_message_set import LegacyMessage, read_message_set, write_message_set
from kafka_zk.storage.records.record_batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    MAX_UNCOMPRESSED_BYTES,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    assemble_batch,
    check_crc,
    read_header,
)
from kafka_zk.storage.records.varint import as_long, encode_varint, read_varint
from kafka_zk.storage.segments.segment_scan import BatchSpan

NO_DATA_OFFSET = -1

RecordPlace = tuple[int, int, int, int, bytes | None, bool]
"""(Start, end, timestamp delta, offset delta, key, whether there is a value) of a record in uncompressed bytes."""


class LastRecord(NamedTuple):
    """A producer's last data batch: last offset (NO_DATA_OFFSET if there is none) and epoch."""

    data_offset: int
    epoch: int


LastOffsetOf = Callable[[bytes], int]
"""A key's last offset in the dirty part of the log, or -1."""


class Chosen(NamedTuple):
    """A batch's records to keep, encoded, and values for its header."""

    kept_count: int
    keyless_count: int  # removed records without a key
    has_tombstone: bool
    max_timestamp_delta: int
    records: bytes


Choose = Callable[[bytes, int, BatchHeader, int, bool], Chosen]
"""``choose`` for one offset map."""


class Retention(NamedTuple):
    """What one cleaning keeps.

    The offset map (``last_offset_of``) ends at ``latest_offset``; later records are kept. The batch that ends at
    ``round_end_offset`` stays, even without records, to show where the log ended.
    """

    last_offset_of: LastOffsetOf
    choose: Choose
    latest_offset: int
    round_end_offset: int
    now_ms: int
    delete_retention_ms: int
    last_records: Mapping[int, LastRecord]  # by producer id
    transactions: CleanedTransactions
    replaced: Replaced = NOTHING_REPLACED

    @property
    def horizon_ms(self) -> int:
        """Delete horizon for tombstones and markers found now."""
        return min(self.now_ms + self.delete_retention_ms, LONG_MAX)

    def keeps_producer(self, header: BatchHeader) -> bool:
        """True if the batch has its producer's last sequence or epoch."""
        last = self.last_records.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.data_offset != NO_DATA_OFFSET:
            return header.last_offset == last.data_offset
        return header.is_control and header.producer_epoch == last.epoch


class Filtered(NamedTuple):
    """The remainder of a batch; ``data``: None if nothing is written."""

    data: Buffer | None
    last_offset: int
    max_timestamp_ms: int
    read_count: int
    kept_count: int
    keyless_count: int  # records without a key, which a compacted topic should not have


def read_checked(batch: Buffer) -> BatchHeader:
    """The header of a whole batch. Raises CorruptRecord for a bad CRC, or for offsets that exceed 64 bits, because the
    CRC does not cover the base offset."""
    header = read_header(batch)
    check_crc(batch, 0, header)
    if not 0 <= header.base_offset < LONG_MAX - INT_MAX:
        raise CorruptRecord(f"a batch cannot begin at offset {header.base_offset}")
    return header


def filter_batch(batch: Buffer, retention: Retention) -> Filtered:
    """The remainder of a batch of magic 2.

    Raises: CorruptRecord, InvalidRecord. Damaged data never gets a new checksum.
    """
    header = read_checked(batch)
    if header.is_control:
        return _filter_marker(batch, header, retention)
    if retention.transactions.is_aborted(header):
        return _emptied(header, retention, 0)
    count = header.record_count
    is_known = header.last_offset <= retention.latest_offset and header.last_offset_delta + 1 == count
    if is_known and retention.replaced.has_all(header.base_offset, count):
        return _emptied(header, retention, 0)
    data, start = uncompressed_records(batch, header)
    keeps_tombstones = not header.has_delete_horizon or retention.now_ms < header.base_timestamp
    chosen = retention.choose(data, start, header, retention.latest_offset, keeps_tombstones)
    if not chosen.kept_count:
        return _emptied(header, retention, chosen.keyless_count)
    gets_horizon = chosen.has_tombstone and not header.has_delete_horizon
    if chosen.kept_count == count and not gets_horizon and not _hides_its_timestamps(header):
        return Filtered(batch, header.last_offset, header.max_timestamp, count, count, chosen.keyless_count)
    horizon_ms = retention.horizon_ms if gets_horizon else None
    rebuilt, max_timestamp_ms = _rebuild(header, chosen, horizon_ms)
    return Filtered(rebuilt, header.last_offset, max_timestamp_ms, count, chosen.kept_count, chosen.keyless_count)


def _hides_its_timestamps(header: BatchHeader) -> bool:
    """True if the largest timestamp is below the first, because older brokers stored the producer's own values."""
    base_is_timestamp = not (header.has_delete_horizon or header.attributes & TIMESTAMP_TYPE_FLAG)
    return base_is_timestamp and header.max_timestamp < header.base_timestamp


def _filter_marker(batch: Buffer, header: BatchHeader, retention: Retention) -> Filtered:
    """An unneeded marker is removed in two steps, like a tombstone."""
    count = header.record_count
    whole = Filtered(batch, header.last_offset, header.max_timestamp, count, count, 0)
    is_needed = retention.transactions.is_needed(batch, header)
    if not count or (not is_needed and header.has_delete_horizon and header.base_timestamp <= retention.now_ms):
        return _emptied(header, retention, 0)
    if is_needed or header.has_delete_horizon:
        return whole
    records, start = uncompressed_records(batch, header)
    newest = max(timestamp_delta for _, _, timestamp_delta, *_ in places(records, start, count))
    chosen = Chosen(count, 0, False, newest, records[start:])
    rebuilt, max_timestamp_ms = _rebuild(header, chosen, retention.horizon_ms)
    return whole._replace(data=rebuilt, max_timestamp_ms=max_timestamp_ms)


def _emptied(header: BatchHeader, retention: Retention, keyless_count: int) -> Filtered:
    """The remainder of a batch without kept records: its header if that must stay, or nothing."""
    must_stay = retention.keeps_producer(header) or header.next_offset == retention.round_end_offset
    data = _without_records(header) if must_stay else None
    return Filtered(data, header.last_offset, header.max_timestamp, header.record_count, 0, keyless_count)


def uncompressed_records(batch: Buffer, header: BatchHeader) -> tuple[bytes, int]:
    """(Bytes, position of the records in them) of a whole batch. Raises: CorruptRecord."""
    codec = header.attributes & CODEC_MASK
    if codec:
        return decompress(header.compression, memoryview(batch)[HEADER_SIZE:], MAX_UNCOMPRESSED_BYTES), 0
    return bytes(batch), HEADER_SIZE


def places(records: bytes, position: int, record_count: int) -> Iterator[RecordPlace]:
    """The position of each record from ``position`` to the end, with the fields that decide whether it is kept.

    Runs for every record, so most varints are decoded inline.

    Raises: CorruptRecord unless there are exactly ``record_count`` records.
    """
    size = len(records)
    try:
        for _ in range(record_count):
            start = position
            byte = records[position]
            if byte < 0x80:
                position += 1
                end = position + ((byte >> 1) ^ -(byte & 1))
            elif (second := records[position + 1]) < 0x80 and not byte & 1:  # a size of up to 8 KB
                position += 2
                end = position + ((byte & 0x7F | second << 7) >> 1)
            else:
                length, position = read_varint(records, position)
                end = position + length
            position += 1  # attributes, unused
            byte = records[position]
            if byte < 0x80:
                timestamp_delta = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                timestamp_delta, position = read_varint(records, position)
            byte = records[position]
            if byte < 0x80:
                offset_delta = (byte >> 1) ^ -(byte & 1)
                position += 1
            elif (second := records[position + 1]) < 0x80 and not byte & 1:
                offset_delta = (byte & 0x7F | second << 7) >> 1
                position += 2
            else:
                offset_delta, position = read_varint(records, position)
                if not -INT_MAX - 1 <= offset_delta <= INT_MAX:
                    raise IndexError
            byte = records[position]
            if byte < 0x80:
                key_size = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                key_size, position = read_varint(records, position)
            if key_size < 0:
                key = None
            else:
                key = records[position : position + key_size]
                position += key_size
            has_value = not records[position] & 1  # zigzag: -1, the size of null, is odd; all other sizes are even
            if not position < end <= size:
                raise IndexError
            yield start, end, timestamp_delta, offset_delta, key, has_value
            position = end
    except (IndexError, InvalidRecord):
        raise CorruptRecord("a record of the batch is malformed or missing") from None
    if position != size:
        raise CorruptRecord(f"the batch holds more than the {record_count} records that it declares")


def choose(
    last_offset_of: LastOffsetOf,
    records: bytes,
    position: int,
    header: BatchHeader,
    latest_offset: int,
    keeps_tombstones: bool,
    replaced: Replaced = NOTHING_REPLACED,
) -> Chosen:
    """The records of a batch to keep. The batch's first record is at ``position`` in ``records``. Raises:
    CorruptRecord."""
    base_offset = header.base_offset
    first_offset, bits = replaced
    bits_end = len(bits) * 8 if base_offset >= first_offset else 0
    kept: list[bytes] = []
    keyless_count = max_timestamp_delta = 0
    has_tombstone = False
    for start, end, timestamp_delta, offset_delta, key, has_value in places(records, position, header.record_count):
        offset = base_offset + offset_delta
        if offset <= latest_offset:
            if key is None:
                keyless_count += 1
                continue
            place = offset - first_offset
            has_bit = 0 <= place < bits_end
            is_replaced = bits[place >> 3] >> (place & 7) & 1 if has_bit else 0 <= last_offset_of(key) > offset
            if is_replaced or not (has_value or keeps_tombstones):
                continue
        if not kept or timestamp_delta > max_timestamp_delta:
            max_timestamp_delta = timestamp_delta
        has_tombstone = has_tombstone or not has_value
        kept.append(records[start:end])
    return Chosen(len(kept), keyless_count, has_tombstone, max_timestamp_delta, b"".join(kept))


def _rebuild(header: BatchHeader, chosen: Chosen, horizon_ms: int | None) -> tuple[bytearray, int]:
    """(The batch with the chosen records and, if given, the delete horizon; the batch's largest timestamp)."""
    max_timestamp_ms = header.max_timestamp
    attributes = header.attributes
    if not attributes & TIMESTAMP_TYPE_FLAG:
        max_timestamp_ms = as_long(header.base_timestamp + chosen.max_timestamp_delta)
    base_timestamp, data = header.base_timestamp, chosen.records
    if horizon_ms is not None:
        attributes |= DELETE_HORIZON_FLAG
        base_timestamp = horizon_ms
        by_ms = header.base_timestamp - horizon_ms
        data = b"".join(_moved(data, place, by_ms) for place in places(data, 0, chosen.kept_count))
    codec = attributes & CODEC_MASK
    rebuilt = assemble_batch(
        compress(codec, data) if codec else data,
        attributes=attributes,
        record_count=chosen.kept_count,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp_ms,
        producer=(header.producer_id, header.producer_epoch, header.base_sequence),
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        last_offset_delta=header.last_offset_delta,
    )
    return rebuilt, max_timestamp_ms


def _moved(records: bytes, place: RecordPlace, by_ms: int) -> bytes:
    start, end, timestamp_delta, *_ = place
    _, position = read_varint(records, start)
    attributes = records[position : position + 1]
    _, position = read_varint(records, position + 1)
    body = b"".join((attributes, encode_varint(as_long(timestamp_delta + by_ms)), records[position:end]))
    return encode_varint(len(body)) + body


def _without_records(header: BatchHeader) -> bytearray:
    """The header alone, with offsets, largest timestamp and the producer's sequence."""
    return assemble_batch(
        b"",
        attributes=header.attributes & (TIMESTAMP_TYPE_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG),
        record_count=0,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        producer=(header.producer_id, header.producer_epoch, header.base_sequence),
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        last_offset_delta=header.last_offset_delta,
    )


# -- magic 0 and 1 ----------------------------------------------------------------------------------------------------


def filter_entry(entry: Buffer, span: BatchSpan, retention: Retention, keeps_tombstones: bool) -> Filtered:
    """The remainder of an entry of magic 0 or 1, which may be a compressed set. No data are written for an empty set.

    ``keeps_tombstones``: the segment is not older than ``delete.retention.ms``.
    """
    messages = list(read_message_set(entry))
    kept = []
    keyless_count = 0
    for message in messages:
        if message.offset > retention.latest_offset:
            kept.append(message)
        elif message.key is None:
            keyless_count += 1
        elif message.offset >= retention.last_offset_of(message.key) and (
            message.value is not None or keeps_tombstones
        ):
            kept.append(message)
    if not kept:
        return Filtered(None, span.last_offset, NO_TIMESTAMP, len(messages), 0, keyless_count)
    data = entry if len(kept) == len(messages) else write_message_set(kept, span.magic, entry_codec(entry))
    return Filtered(data, kept[-1].offset, newest_ms(kept), len(messages), len(kept), keyless_count)


def entry_codec(entry: Buffer) -> Compression:
    """The codec of an entry of magic 0 or 1."""
    return Compression(entry[17] & CODEC_MASK)


def newest_ms(messages: list[LegacyMessage]) -> int:
    return max(message.timestamp_ms for message in messages)
