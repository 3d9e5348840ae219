"""Scans a segment file's batches with few reads: for an offset, a boundary, or all headers.

A log may be older than its broker, so in addition to magic 2 it may contain old message sets, whose entries begin with
their *last* offset.
Tests: tests/storage/log/test_log.py.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from kafka_zk.storage.files import files
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.records.record_batch import HEADER_SIZE, LOG_OVERHEAD

_FRONT = Struct(">qi4xb4xhi")  # base offset, batch length, (epoch), magic, (crc), attributes, last offset delta
_FRONT_SIZE = 27
_SMALLEST_ENTRY = 26
_MIN_LENGTH_BY_MAGIC = (14, 22, HEADER_SIZE - LOG_OVERHEAD)
_CHUNK_BYTES = 8192


class BatchSpan(NamedTuple):
    """A batch in its file; ``attributes`` are 0 before magic 2."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    magic: int
    attributes: int = 0


def read_range(descriptor: int, position: int, size_bytes: int) -> bytes:
    """Read ``size_bytes``; returns fewer only at the end of the file."""
    data = files.pread(descriptor, size_bytes, position)
    if len(data) == size_bytes or not data:
        return data
    parts = [data]
    got = len(data)
    while got < size_bytes:
        data = files.pread(descriptor, size_bytes - got, position + got)
        if not data:
            break
        parts.append(data)
        got += len(data)
    return b"".join(parts)


def iter_spans(descriptor: int, position: int, end: int, chunk_bytes: int = _CHUNK_BYTES) -> Iterator[BatchSpan]:
    """The batches from ``position`` to ``end``, which must be batch boundaries.

    Raises: CorruptRecord for anything but complete batches; the CRC is not checked.
    """
    chunk = b""
    chunk_start = position
    while position < end:
        index = position - chunk_start
        if index + _FRONT_SIZE > len(chunk):
            chunk = read_range(descriptor, position, min(chunk_bytes, end - position))
            chunk_start = position
            index = 0
            if len(chunk) == _SMALLEST_ENTRY:
                chunk += b"\0"  # magic 0's empty message is a byte shorter than _FRONT
            if len(chunk) < _FRONT_SIZE:
                raise CorruptRecord(f"{len(chunk)} bytes at position {position} are too few for a batch")
        base_offset, length, magic, attributes, last_offset_delta = _FRONT.unpack_from(chunk, index)
        if not 0 <= magic <= 2 or length < _MIN_LENGTH_BY_MAGIC[magic] or base_offset < 0:
            raise CorruptRecord(
                f"no batch at position {position}: offset {base_offset}, length {length}, magic {magic}"
            )
        size_bytes = length + LOG_OVERHEAD
        if position + size_bytes > end:
            raise CorruptRecord(f"a batch of {size_bytes} bytes at position {position} with {end - position} left")
        last_offset = base_offset
        if magic == 2:
            if last_offset_delta < 0:
                raise CorruptRecord(f"no batch at position {position}: last offset delta {last_offset_delta}")
            last_offset += last_offset_delta
        else:
            attributes = 0
        yield BatchSpan(position, size_bytes, base_offset, last_offset, magic, attributes)
        position += size_bytes


def iter_batches_at(
    descriptor: int, position: int, end: int, chunk_bytes: int, spend: Callable[[int], None]
) -> Iterator[tuple[BatchSpan, bytes]]:
    """The batches with their bytes, read in chunks; ``spend`` is called with the number of bytes read.

    Raises like ``iter_spans``; also CorruptRecord at the end of the file.
    """
    chunk = b""
    chunk_start = position
    while position < end:
        index = position - chunk_start
        if index + HEADER_SIZE > len(chunk):
            chunk = read_range(descriptor, position, min(max(chunk_bytes, HEADER_SIZE), end - position))
            spend(len(chunk))
            chunk_start, index = position, 0
        span = None
        if len(chunk) - index >= _FRONT_SIZE:
            base_offset, length, magic, attributes, last_offset_delta = _FRONT.unpack_from(chunk, index)
            size_bytes = length + LOG_OVERHEAD
            fits = length >= _MIN_LENGTH_BY_MAGIC[2] and position + size_bytes <= end
            if magic == 2 and fits and base_offset >= 0 and last_offset_delta >= 0:
                last_offset = base_offset + last_offset_delta
                span = BatchSpan(position, size_bytes, base_offset, last_offset, magic, attributes)
        if span is None:  # old magic, or damage
            span = next(iter_spans(descriptor, position, end))
        following = index + span.size_bytes
        if following > len(chunk):
            chunk = read_range(descriptor, position, min(max(chunk_bytes, span.size_bytes), end - position))
            spend(len(chunk))
            chunk_start, index, following = position, 0, span.size_bytes
            if len(chunk) < following:
                raise CorruptRecord(f"a batch of {following} bytes at position {position}, where {len(chunk)} are left")
        yield span, chunk[index:following]
        position += span.size_bytes


def is_indexed(span: BatchSpan, indexed_offset: int) -> bool:
    """True if an index entry for ``indexed_offset`` may refer to the batch, which begins at most one offset later.

    Normally the entry has the batch's last offset. If Kafka appended several batches together, the entry has a later
    offset; after damage, it has the offset before the batch.
    """
    return span.base_offset <= indexed_offset + 1


def find_offset(
    descriptor: int, offset: int, position: int, end: int, indexed_offset: int | None = None
) -> BatchSpan | None:
    """The first batch from ``position`` on that ends at or after ``offset``.

    Args:
        indexed_offset: the offset in the index entry for ``position``.
    Raises: CorruptRecord for damage, or if entry and batch do not match.
    """
    for span in iter_spans(descriptor, position, end):
        if indexed_offset is not None:
            if not is_indexed(span, indexed_offset):
                raise CorruptRecord(f"the index names position {position} for offset {indexed_offset}")
            indexed_offset = None
        if span.last_offset >= offset:
            return span
    if indexed_offset is not None:
        raise CorruptRecord(f"the index names position {position}, after the end")
    return None


def find_boundary(descriptor: int, position: int, limit: int, end: int) -> tuple[int, int, int]:
    """The last boundary up to ``limit``, which is below ``end``; ``position`` must also be a boundary.

    Returns: (its position, first offset after it, size of the next batch, which ends after ``limit``).
    """
    span = None
    try:
        for span in iter_spans(descriptor, position, end):
            if span.position + span.size_bytes > limit:
                return span.position, span.base_offset, span.size_bytes
    except CorruptRecord:
        if span is None:
            raise
        return span.position + span.size_bytes, span.last_offset + 1, 0  # everything before the damage is valid
    raise CorruptRecord(f"no batch boundary after position {position}")
