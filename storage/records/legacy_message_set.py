"""Message sets of magic 0 and 1, which clients before Kafka 0.11 use.

A set is a sequence of entries, big-endian: ``offset int64, size int32, crc uint32, magic int8, attributes int8``, in
magic 1 ``timestamp int64``, then key and value, each after an int32 length (-1: null). The CRC-32 (zlib) covers
everything from the magic byte on. Attributes: bits 0-2 the codec, bit 3 LogAppendTime (magic 1).

With a codec, the value of one entry (the wrapper) is a compressed set. Its offset is that of its *last* message. Inner
messages have absolute offsets in magic 0, and offsets relative to the first in magic 1.
Source: LegacyRecord.java, AbstractLegacyRecordBatch.java@3.9, KIP-31, KIP-32.
"""

import zlib
from collections.abc import Iterator, Sequence
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from kafka_zk.storage.files.errors import CorruptRecord, InvalidRecord, UnsupportedCompression
from kafka_zk.storage.records.compression import Compression, compress, decompress_chunks
from kafka_zk.storage.records.lz4_checksum import with_checksum
from kafka_zk.storage.records.record_batch import (
    CODEC_MASK,
    MAX_UNCOMPRESSED_BYTES,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    Buffer,
)

_ENTRY = Struct(">qiIbb")  # offset, size, crc, magic, attributes
_FRONT = Struct(">qi")
_ENTRY_FRONT_SIZE = _FRONT.size  # offset and size, not part of ``size``
_CRC_END = 16  # the CRC covers everything from here
_TIMESTAMP = Struct(">q")
_LENGTH = Struct(">i")
_CRC = Struct(">I")
_MIN_SIZE = (14, 22)


class LegacyMessage(NamedTuple):
    """A message with its absolute offset; ``timestamp_ms`` is -1 in magic 0."""

    offset: int
    magic: int
    timestamp_ms: int
    log_append_time: bool
    key: bytes | None
    value: bytes | None


class LegacyEntry(NamedTuple):
    """One entry of a set; a wrapper is still compressed."""

    offset: int
    magic: int
    attributes: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def log_append_time(self) -> bool:
        return bool(self.attributes & TIMESTAMP_TYPE_FLAG)


def iter_entries(buffer: Buffer, *, partial_tail: bool = False) -> Iterator[LegacyEntry]:
    """Yield the entries of a set without decompressing wrappers.

        partial_tail: ignore an incomplete last entry, which is valid only in a fetch response.
    Raises: CorruptRecord for a bad CRC, size, length or magic.
    """
    position = 0
    data = bytes(buffer)
    while position < len(data):
        left = len(data) - position
        size = int.from_bytes(data[position + 8 : position + 12], "big", signed=True) if left >= 12 else 0
        if left < _ENTRY_FRONT_SIZE or left - _ENTRY_FRONT_SIZE < size:
            if partial_tail:
                return
            raise CorruptRecord(f"a message of {size} bytes with {left} left")
        if size < _MIN_SIZE[0]:
            raise CorruptRecord(f"a message of {size} bytes is too small")
        following = position + _ENTRY_FRONT_SIZE + size
        yield _read_entry(data, position, following)
        position = following


def _read_entry(data: bytes, position: int, end: int) -> LegacyEntry:
    offset, size, crc, magic, attributes = _ENTRY.unpack_from(data, position)
    if magic not in (0, 1) or size < _MIN_SIZE[magic]:
        raise CorruptRecord(f"a message of magic {magic} with {size} bytes")
    if zlib.crc32(data[position + _CRC_END : end]) != crc:
        raise CorruptRecord(f"the CRC of the message at offset {offset} does not match")
    position += _ENTRY.size
    timestamp_ms = NO_TIMESTAMP
    if magic:
        (timestamp_ms,) = _TIMESTAMP.unpack_from(data, position)
        position += _TIMESTAMP.size
    key, position = _read_bytes(data, position, end)
    value, position = _read_bytes(data, position, end)
    if position != end:
        raise CorruptRecord(f"the message at offset {offset} has {end - position} bytes too many")
    return LegacyEntry(offset, magic, attributes, timestamp_ms, key, value)


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    try:
        (length,) = _LENGTH.unpack_from(data, position)
    except StructError:
        raise CorruptRecord("a message ends in the middle of a length") from None
    position += _LENGTH.size
    if length < 0:
        return None, position
    if position + length > end:
        raise CorruptRecord(f"a field of {length} bytes with {end - position} left")
    return data[position : position + length], position + length


def read_message_set(buffer: Buffer, *, partial_tail: bool = False) -> Iterator[LegacyMessage]:
    """Yield all messages, including those in wrappers, with absolute offsets.

    Raises: CorruptRecord, InvalidRecord (nested wrappers, mixed magics), UnsupportedCompression.
    """
    for entry in iter_entries(buffer, partial_tail=partial_tail):
        if entry.codec:
            yield from _opened(entry)
        else:
            yield LegacyMessage(
                entry.offset, entry.magic, entry.timestamp_ms, entry.log_append_time, entry.key, entry.value
            )


def _opened(wrapper: LegacyEntry) -> Iterator[LegacyMessage]:
    inner = list(open_wrapper(wrapper))
    shift = wrapper.offset - inner[-1].offset if wrapper.magic else 0
    for entry in inner:
        timestamp_ms = wrapper.timestamp_ms if wrapper.log_append_time else entry.timestamp_ms
        yield LegacyMessage(
            entry.offset + shift, entry.magic, timestamp_ms, wrapper.log_append_time, entry.key, entry.value
        )


def open_wrapper(wrapper: LegacyEntry, max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES) -> Iterator[LegacyEntry]:
    """Yield the entries in a wrapper unchanged, with one chunk or one entry in memory.

    Raises: CorruptRecord, InvalidRecord (empty, nested, or another magic), UnsupportedCompression.
    """
    if wrapper.value is None:
        raise InvalidRecord("a compressed message without a value")
    if wrapper.codec not in (Compression.gzip, Compression.snappy, Compression.lz4):
        raise UnsupportedCompression(f"codec {wrapper.codec} with magic {wrapper.magic}")
    value = wrapper.value
    if wrapper.codec == Compression.lz4 and not wrapper.magic:
        value = with_checksum(value, broken=False)
    is_empty = True
    for entry in _stream_entries(decompress_chunks(wrapper.codec, value, max_uncompressed_bytes)):
        if entry.codec or entry.magic != wrapper.magic:
            raise InvalidRecord("a compressed message set holds compressed messages or another magic")
        is_empty = False
        yield entry
    if is_empty:
        raise InvalidRecord("a compressed message set without messages")


def _stream_entries(chunks: Iterator[bytes]) -> Iterator[LegacyEntry]:
    pending = bytearray()
    for chunk in chunks:
        pending += chunk
        end = whole_size_bytes(pending)
        if end:
            whole = bytes(pending[:end])
            del pending[:end]
            yield from iter_entries(whole)
    yield from iter_entries(pending)  # raises for an incomplete entry


def whole_size_bytes(message_set: Buffer) -> int:
    """Size of the complete messages at the start; checks nothing else."""
    position = 0
    size_bytes = len(message_set)
    while position + _FRONT.size <= size_bytes:
        following = position + _FRONT.size + max(0, _FRONT.unpack_from(message_set, position)[1])
        if following > size_bytes:
            break
        position = following
    return position


def encode_message(
    offset: int,
    magic: int,
    attributes: int,
    timestamp_ms: int,
    key: bytes | bytearray | None,
    value: bytes | bytearray | None,
) -> bytes:
    out = bytearray(_ENTRY.size)
    if magic:
        out += _TIMESTAMP.pack(timestamp_ms)
    for field in (key, value):
        out += _LENGTH.pack(-1 if field is None else len(field))
        out += field or b""
    _ENTRY.pack_into(out, 0, offset, len(out) - _ENTRY_FRONT_SIZE, 0, magic, attributes)
    _CRC.pack_into(out, _ENTRY_FRONT_SIZE, zlib.crc32(memoryview(out)[_CRC_END:]))
    return bytes(out)


def write_message_set(messages: Sequence[LegacyMessage], magic: int, codec: Compression = Compression.none) -> bytes:
    """Encode a set; with a codec, as one wrapper.

    Raises: UnsupportedCompression for zstd, which the format lacks.
    """
    if not messages:
        return b""
    if codec not in (Compression.none, Compression.gzip, Compression.snappy, Compression.lz4):
        raise UnsupportedCompression(f"{codec.name} needs magic 2, but the reader only knows magic {magic}")
    append_time = messages[-1].log_append_time and magic > 0
    time_flag = TIMESTAMP_TYPE_FLAG if append_time else 0
    shift = messages[0].offset if magic and codec else 0
    inner = b"".join(
        encode_message(message.offset - shift, magic, time_flag, message.timestamp_ms, message.key, message.value)
        for message in messages
    )
    if not codec:
        return inner
    newest_ms = max(message.timestamp_ms for message in messages)
    return wrap(compress(codec, inner), codec, magic, messages[-1].offset, time_flag, newest_ms)


def wrap(
    value: bytes | bytearray, codec: Compression, magic: int, last_offset: int, flags: int, newest_ms: int
) -> bytes:
    """Encode the wrapper of a compressed set. ``newest_ms``: its largest timestamp."""
    if codec == Compression.lz4 and not magic:
        value = with_checksum(bytes(value), broken=True)
    return encode_message(last_offset, magic, codec | flags, newest_ms, None, value)
