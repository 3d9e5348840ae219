"""Decodes a batch's records as a stream, with one uncompressed chunk or record in memory.

It is for untrusted batches, in which a few bytes can encode millions of records, and creates no object per record.
``record_decoder``, ``record_check`` and ``record_filter`` have faster loops.
"""

from collections.abc import Iterator

from kafka_zk.storage.files.errors import InvalidRecord
from kafka_zk.storage.records.compression import decompress_chunks
from kafka_zk.storage.records.record_batch import CODEC_MASK, HEADER_SIZE, MAX_UNCOMPRESSED_BYTES, BatchHeader, Buffer
from kafka_zk.storage.records.varint import read_varint

MAX_RECORDS = 1_000_000
"""Maximum number of records in a batch that must be decoded as a whole. Kafka has no limit."""

_FRONT_BYTES = 32  # length, attributes, two deltas and key length take at most 31

RecordSpan = tuple[bytearray, int, int, int, int, int]
"""(data, start, timestamp delta, offset delta, position of the key's length, end); ``data`` is valid until the next
span."""


def check_count(header: BatchHeader) -> None:
    """Raise InvalidRecord for too many records."""
    if header.record_count > MAX_RECORDS:
        raise InvalidRecord(f"{header.record_count} records in a batch; at most {MAX_RECORDS} can be checked")


def batch_chunks(
    batch: Buffer, header: BatchHeader, max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES
) -> Iterator[bytes]:
    """The uncompressed records, in chunks. Raises like ``decompress_chunks``."""
    records = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    if header.attributes & CODEC_MASK:
        return decompress_chunks(header.compression, records, max_uncompressed_bytes)
    return decompress_chunks(0, records, max_uncompressed_bytes)


def walk(chunks: Iterator[bytes], record_count: int) -> Iterator[RecordSpan]:
    """Yield the span of each record without decoding the fields after the deltas.

    Raises: InvalidRecord for a malformed record, or unless there are exactly ``record_count``; also what ``chunks``
    raises.
    """
    data = bytearray()
    position = size = 0
    try:
        for _ in range(record_count):
            if size - position < _FRONT_BYTES:
                del data[:position]
                position = 0
                size = _fill(data, chunks, _FRONT_BYTES)
            start = position
            byte = data[position]
            if byte < 0x80:
                position += 1
                end = position + ((byte >> 1) ^ -(byte & 1))
            else:
                length, position = read_varint(data, position)
                end = position + length
            if end > size:
                del data[:start]
                position, end, start = position - start, end - start, 0
                size = _fill(data, chunks, end)
            position += 1  # attributes, unused
            byte = data[position]
            if byte < 0x80:
                timestamp_delta = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                timestamp_delta, position = read_varint(data, position)
            byte = data[position]
            if byte < 0x80:
                offset_delta = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                offset_delta, position = read_varint(data, position)
            if position > end or end > size:
                raise IndexError
            yield data, start, timestamp_delta, offset_delta, position, end
            position = end
    except IndexError:
        raise InvalidRecord("a record of the batch is malformed or missing") from None
    if position != size or any(chunks):
        raise InvalidRecord(f"the batch holds more than the {record_count} records that it declares")


def _fill(data: bytearray, chunks: Iterator[bytes], size_bytes: int) -> int:
    """Append chunks until ``data`` has ``size_bytes`` or the chunks end. Returns its length."""
    while len(data) < size_bytes:
        chunk = next(chunks, None)
        if chunk is None:
            break
        data += chunk
    return len(data)


def key_and_value(data: bytearray, position: int, end: int) -> tuple[int, int, int, int]:
    """(Key start, key size, value start, value size) of a record; size -1 means null.

    Raises: InvalidRecord if the fields, with headers, do not fill the record.
    """
    try:
        byte = data[position]
        if byte < 0x80:
            key_size = (byte >> 1) ^ -(byte & 1)
            key_start = position + 1
        else:
            key_size, key_start = read_varint(data, position)
        position = key_start + key_size if key_size > 0 else key_start
        byte = data[position]
        if byte < 0x80:
            value_size = (byte >> 1) ^ -(byte & 1)
            value_start = position + 1
        else:
            value_size, value_start = read_varint(data, position)
        position = value_start + value_size if value_size > 0 else value_start
        if data[position]:
            position = _skip_headers(data, position, end)
        else:
            position += 1
        if position != end:
            raise IndexError
    except IndexError:
        raise InvalidRecord("the fields of a record do not fill it") from None
    return key_start, key_size, value_start, value_size


def _skip_headers(data: bytearray, position: int, end: int) -> int:
    count, position = read_varint(data, position)
    if not 0 <= count <= end - position:
        raise IndexError
    for _ in range(count):
        for least in (0, -1):  # name, then value, which may be null (-1)
            size, position = read_varint(data, position)
            if size < least:
                raise IndexError
            position += max(0, size)
    return position
