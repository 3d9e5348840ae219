"""Checks that a produced batch's records are readable, and finds the largest timestamp, without creating objects.

Unlike ``record_stream.walk``, it yields nothing. It runs for every produced batch, so short varints are decoded inline.
The native module does the same, with the same results and errors.
"""

from kafka_zk.native.loading import implementation
from kafka_zk.storage.files.config_table import LONG_MAX
from kafka_zk.storage.files.errors import CorruptRecord, InvalidRecord, UnpacksTooBig
from kafka_zk.storage.records.compression import decompress
from kafka_zk.storage.records.record_batch import CODEC_MASK, HEADER_SIZE, NO_TIMESTAMP, BatchHeader, Buffer
from kafka_zk.storage.records.varint import as_long, read_varint

_MAX_INT_BYTES = 5  # Java rejects longer encodings even of small values
_NOT_A_SIZE = 1 << 40  # beyond any batch
_SIZES = tuple(_NOT_A_SIZE if byte & 1 else byte >> 1 for byte in range(0x80))
"""Size of a record by the only byte of its length (odd: negative), or by the low seven bits of a two-byte length."""
_FIELD_BYTES = tuple(1 + (0 if byte & 1 else byte >> 1) for byte in range(0x80))
"""Size of a key or value with its length, by the length's only byte; negative: null."""

Found = tuple[int, bool]
"""The largest timestamp in ms (-1 if there is none), and whether the offset deltas are 0, 1, 2, …"""

NATIVE_RECORDS = 20_000
"""Number of records that the native module checks in less than 1 ms."""

_native = implementation().native


def is_checked_quickly(header: BatchHeader) -> bool:
    """True if the native module checks the batch in less than 1 ms. Compressed batches take longer."""
    return _native is not None and not header.attributes & CODEC_MASK and header.record_count <= NATIVE_RECORDS


def check_batch(batch: Buffer, header: BatchHeader, max_uncompressed_bytes: int) -> Found:
    """Raises: InvalidRecord if decompression fails, a record is malformed, or the number of records is not
    ``record_count``;
        UnpacksTooBig, UnsupportedCompression."""
    if not header.attributes & CODEC_MASK:
        return check_records(batch, HEADER_SIZE, header.record_count, header.base_timestamp)
    try:
        compressed = bytes(memoryview(batch)[HEADER_SIZE : header.size_bytes])
        records = decompress(header.compression, compressed, max_uncompressed_bytes)
    except UnpacksTooBig:
        raise
    except CorruptRecord as error:
        raise unreadable(error) from error
    return check_records(records, 0, header.record_count, header.base_timestamp)


def unreadable(error: CorruptRecord) -> InvalidRecord:
    """The error for unreadable records after a valid CRC: CORRUPT_MESSAGE would make the producer retry."""
    return InvalidRecord(f"the records of the batch cannot be decompressed: {error}")


def check_records(records: Buffer, position: int, record_count: int, base_timestamp: int) -> Found:
    """Check that exactly ``record_count`` records fill ``records`` from ``position``. Raises: InvalidRecord."""
    check = _check_in_python if _native is None else _native.check_records
    try:
        end, largest_ms, counts_up = check(records, position, record_count, base_timestamp)
    except (IndexError, InvalidRecord, ValueError):  # ValueError: from the native module
        raise InvalidRecord("a record of the batch is malformed or missing") from None
    if end != len(records):
        raise InvalidRecord(f"the batch holds more than the {record_count} records that its header declares")
    return largest_ms, counts_up


def _check_in_python(records: Buffer, position: int, record_count: int, base_timestamp: int) -> tuple[int, int, bool]:
    """(Position after the records, largest timestamp, whether offset deltas are 0, 1, 2, …). Raises: IndexError,
    InvalidRecord."""
    end, newest, misplaced = _walk(records, position, record_count)
    if end > len(records):  # the value of the last header ends after the data
        raise IndexError
    largest_ms = base_timestamp + (newest >> 1)
    if newest & 1 or base_timestamp < NO_TIMESTAMP or largest_ms > LONG_MAX:
        largest_ms = _largest_timestamp(records, position, record_count, base_timestamp)
    return end, largest_ms, not misplaced


def _walk(records: Buffer, position: int, record_count: int) -> tuple[int, int, int]:
    """(Position after the records, largest timestamp delta, 0 if offset deltas are 0, 1, 2, …), from zigzag-encoded
    deltas: odd ones are negative."""
    newest = expected = misplaced = 0
    for _ in range(record_count):
        byte = records[position]
        if byte < 0x80:
            position += 1
            end = position + _SIZES[byte]
        elif (second := records[position + 1]) < 0x80:
            position += 2
            end = position + _SIZES[byte & 0x7F] + (second << 6)
        else:
            size, position = _read_int(records, position)
            end = position + size
        position += 1  # attributes, unused
        byte = records[position]
        if byte < 0x80:
            position += 1
        elif (second := records[position + 1]) < 0x80:
            byte = byte & 0x7F | second << 7
            position += 2
        else:
            delta, position = read_varint(records, position)
            byte = delta << 1 ^ delta >> 63
        newest = byte if byte > newest else newest
        byte = records[position]
        if byte < 0x80:
            position += 1
        elif (second := records[position + 1]) < 0x80:
            byte = byte & 0x7F | second << 7
            position += 2
        else:
            delta, position = _read_int(records, position)
            byte = delta << 1 ^ delta >> 31
        misplaced |= byte ^ expected
        expected += 2
        byte = records[position]
        if byte < 0x80:
            position += _FIELD_BYTES[byte]
        else:
            size, position = _read_int(records, position)
            position += max(0, size)
        byte = records[position]
        if byte < 0x80:
            position += _FIELD_BYTES[byte]
        elif not byte & 1 and (second := records[position + 1]) < 0x80:
            position += 2 + ((byte & 0x7F | second << 7) >> 1)
        else:
            size, position = _read_int(records, position)
            position += max(0, size)
        if records[position]:
            position = _skip_headers(records, position, end)
        else:
            position += 1
        if position != end:
            raise IndexError
    return position, newest, misplaced


def _read_int(records: Buffer, position: int) -> tuple[int, int]:
    value, following = read_varint(records, position)
    if following - position > _MAX_INT_BYTES:
        raise IndexError
    return value, following


def _skip_headers(records: Buffer, position: int, end: int) -> int:
    count, position = _read_int(records, position)
    if not 0 <= count <= end - position:
        raise IndexError
    for _ in range(count):
        size, position = _read_int(records, position)
        if size < 0:
            raise IndexError
        size, position = _read_int(records, position + size)
        position += max(0, size)
    return position


def _largest_timestamp(records: Buffer, position: int, record_count: int, base_timestamp: int) -> int:
    """The largest timestamp; sums overflow as in Java."""
    largest_ms = NO_TIMESTAMP
    for _ in range(record_count):
        size, position = read_varint(records, position)
        delta, _ = read_varint(records, position + 1)
        largest_ms = max(largest_ms, as_long(base_timestamp + delta))
        position += size
    return largest_ms
