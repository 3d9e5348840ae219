"""Decodes a magic-2 batch's records in memory, for readers and internal topics.

``record_stream`` decodes incrementally. Tests: tests/storage/records/test_record_batch.py.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kafka_zk.storage.files.errors import InvalidRecord
from kafka_zk.storage.records.compression import decompress
from kafka_zk.storage.records.record_batch import (
    CODEC_MASK,
    HEADER_SIZE,
    MAX_UNCOMPRESSED_BYTES,
    TIMESTAMP_TYPE_FLAG,
    BatchHeader,
    Buffer,
    Header,
    read_header,
)
from kafka_zk.storage.records.varint import read_varint


class Record(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


def decode_records(
    buffer: Buffer, position: int = 0, *, max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES
) -> Iterator[Record]:
    """Yield the decompressed records of the batch at ``position``.

    Raises: CorruptRecord for damage or above the limit, InvalidRecord if records and header do not match.
    """
    header = read_header(buffer, position)
    data = _uncompressed(buffer, position, header, max_uncompressed_bytes)
    append_time_ms = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_FLAG else None
    try:
        yield from _decode(data, header.base_offset, header.base_timestamp, append_time_ms, header.record_count)
    except IndexError as error:
        raise InvalidRecord(f"batch at offset {header.base_offset} holds a malformed record") from error


def _uncompressed(buffer: Buffer, position: int, header: BatchHeader, max_size_bytes: int) -> bytes:
    with memoryview(buffer) as view:
        data = bytes(view[position + HEADER_SIZE : position + header.size_bytes])
    if header.attributes & CODEC_MASK:
        return decompress(header.compression, data, max_size_bytes=max_size_bytes)
    return data


def _decode(
    data: bytes, base_offset: int, base_timestamp: int, append_time_ms: int | None, record_count: int
) -> Iterator[Record]:
    """One-byte varints are decoded inline, because this function takes most of a consumer's CPU time."""
    position = 0
    for _ in range(record_count):
        length, position = read_varint(data, position)
        end = position + length
        if length < 0 or end > len(data):
            raise IndexError
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
        key, position = _read_bytes(data, position, end)
        value, position = _read_bytes(data, position, end)
        if data[position]:
            headers, position = _read_headers(data, position, end)
        else:
            headers = ()
            position += 1
        if position != end:
            raise IndexError
        timestamp_ms = base_timestamp + timestamp_delta if append_time_ms is None else append_time_ms
        yield Record(base_offset + offset_delta, timestamp_ms, key, value, headers)
    if position != len(data):
        raise IndexError


def decode_keys_and_values(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """Yield (offset, key, value) of each record without decoding headers, for readers of millions of records.

    Raises like ``decode_records``.
    """
    header = read_header(buffer, position)
    data = _uncompressed(buffer, position, header, MAX_UNCOMPRESSED_BYTES)
    try:
        yield from _decode_keys_and_values(data, header.base_offset, header.record_count)
    except IndexError as error:
        raise InvalidRecord(f"batch at offset {header.base_offset} holds a malformed record") from error


def _decode_keys_and_values(
    data: bytes, base_offset: int, record_count: int
) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """Like ``_decode``, with keys and values read inline."""
    position = 0
    size_bytes = len(data)
    for _ in range(record_count):
        length, position = read_varint(data, position)
        end = position + length
        if length < 0 or end > size_bytes:
            raise IndexError
        position += 1  # attributes, unused
        if data[position] < 0x80:
            position += 1
        else:
            _, position = read_varint(data, position)
        byte = data[position]
        if byte < 0x80:
            offset_delta = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            offset_delta, position = read_varint(data, position)
        byte = data[position]
        if byte < 0x80 and not byte & 1:
            start = position + 1
            position = start + (byte >> 1)
            key: bytes | None = data[start:position]
        else:
            key, position = _read_bytes(data, position, end)
        byte = data[position]
        if byte < 0x80 and not byte & 1:
            start = position + 1
            position = start + (byte >> 1)
            value: bytes | None = data[start:position]
        else:
            value, position = _read_bytes(data, position, end)
        if data[position]:
            _, position = _read_headers(data, position, end)
        else:
            position += 1
        if position != end:
            raise IndexError
        yield base_offset + offset_delta, key, value
    if position != size_bytes:
        raise IndexError


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    byte = data[position]
    if byte < 0x80:
        length = (byte >> 1) ^ -(byte & 1)
        position += 1
    else:
        length, position = read_varint(data, position)
    if length < 0:
        return None, position
    following = position + length
    if following > end:
        raise IndexError
    return data[position:following], following


def _read_headers(data: bytes, position: int, end: int) -> tuple[tuple[Header, ...], int]:
    count, position = read_varint(data, position)
    if not 0 <= count <= end - position:
        raise IndexError
    headers = []
    for _ in range(count):
        name, position = _read_bytes(data, position, end)
        if name is None:
            raise IndexError
        value, position = _read_bytes(data, position, end)
        headers.append((name.decode(errors="replace"), value))  # not validated on append, as in Kafka
    return tuple(headers), position
