"""The four codecs of record batches, each bounded in what it may grow to.

- gzip: RFC 1952, several members accepted.
- snappy: written in the framing of Java's ``SnappyOutputStream`` ("xerial": 16 bytes of header, then blocks of at most
  32 KB, each with its length in front); read with that framing or as one plain block, as some clients send it.
- lz4: frame format with independent blocks; Java's reader refuses linked ones, so they are refused here too.
- zstd: frames, several accepted.

The libraries are imported on first use, so that a process that never meets a codec does not need it.
Tests: tests/storage/test_compression.py.
"""

import zlib
from enum import IntEnum
from importlib import import_module
from struct import Struct
from struct import error as StructError
from typing import Any

from storage.errors import CorruptRecord, UnsupportedCompression


class Compression(IntEnum):
    """Codec numbers of the attributes' lowest three bits; the names are the values of ``compression.type``."""

    none = 0
    gzip = 1
    snappy = 2
    lz4 = 3
    zstd = 4


DEFAULT_MAX_SIZE_BYTES = 128 * 1024 * 1024
Data = bytes | bytearray | memoryview

_XERIAL_HEADER = b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2  # magic, version, lowest compatible version
_XERIAL_MAGIC = _XERIAL_HEADER[:8]
_XERIAL_BLOCK_BYTES = 32 * 1024
_INT = Struct(">i")
_LZ4_FIRST_STEP_BYTES = 64 * 1024
"""The library reserves the whole bound at once; in steps a batch of 16 KB costs a tenth (measured)."""
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_INDEPENDENT_FLAG = 0x20
_LZ4_CONTENT_SIZE_FLAG = 0x08


def compress(codec: Compression | int, data: Data, level: int | None = None) -> bytes:
    """Compress in the form that Kafka's Java clients read; ``level`` is the codec's own scale (None: its default)."""
    match codec:
        case Compression.none:
            return bytes(data)
        case Compression.gzip:
            compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
            return compressor.compress(data) + compressor.flush()
        case Compression.snappy:
            return _compress_snappy(data)
        case Compression.lz4:
            return _compress_lz4(data, level)
        case Compression.zstd:
            return _compress_zstd(data, level)
    raise UnsupportedCompression(f"unknown compression codec {codec}")


def decompress(codec: Compression | int, data: Data, max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES) -> bytes:
    """Decompress; the result is never bigger than ``max_size_bytes``, not even for a moment.

    Raises: CorruptRecord if the data are damaged, cut off or grow beyond the bound; UnsupportedCompression for a codec
    that nobody knows or whose library is not installed.
    """
    match codec:
        case Compression.none:
            result = bytes(data)
        case Compression.gzip:
            result = _decompress_gzip(data, max_size_bytes)
        case Compression.snappy:
            result = _decompress_snappy(bytes(data), max_size_bytes)
        case Compression.lz4:
            result = _decompress_lz4(bytes(data), max_size_bytes)
        case Compression.zstd:
            result = _decompress_zstd(data, max_size_bytes)
        case _:
            raise UnsupportedCompression(f"unknown compression codec {codec}")
    if len(result) > max_size_bytes:
        raise _too_big(max_size_bytes)
    return result


def _too_big(max_size_bytes: int) -> CorruptRecord:
    return CorruptRecord(f"compressed data grow beyond {max_size_bytes} bytes")


def _decompress_gzip(data: Data, max_size_bytes: int) -> bytes:
    parts = []
    room = max_size_bytes + 1
    rest: Data = data
    while rest:
        member = zlib.decompressobj(31)
        try:
            part = member.decompress(rest, room)
        except zlib.error as error:
            raise CorruptRecord(f"gzip: {error}") from error
        parts.append(part)
        room -= len(part)
        if room <= 0:
            raise _too_big(max_size_bytes)
        if not member.eof:
            raise CorruptRecord("gzip: the data end in the middle")
        rest = member.unused_data
    return b"".join(parts)


def _compress_snappy(data: Data) -> bytes:
    snappy = _library("snappy")
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = snappy.compress(bytes(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_INT.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: bytes, max_size_bytes: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _decompress_snappy_block(data, max_size_bytes)
    parts = []
    room = max_size_bytes
    position = len(_XERIAL_HEADER)
    while position < len(data):
        try:
            (length,) = _INT.unpack_from(data, position)
        except StructError:
            raise CorruptRecord("snappy: the data end in a block's length") from None
        position += _INT.size
        if not 0 < length <= len(data) - position:
            raise CorruptRecord(f"snappy: a block of {length} bytes with {len(data) - position} left")
        part = _decompress_snappy_block(data[position : position + length], room)
        parts.append(part)
        room -= len(part)
        position += length
    return b"".join(parts)


def _decompress_snappy_block(block: bytes, max_size_bytes: int) -> bytes:
    """One raw block; it starts with its uncompressed size as an unsigned varint, so the bound is checked first."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise CorruptRecord("snappy: no valid size at the start of a block")
    if size > max_size_bytes:
        raise _too_big(max_size_bytes)
    snappy = _library("snappy")
    try:
        return bytes(snappy.uncompress(block))
    except Exception as error:  # the library's error class depends on its version
        raise CorruptRecord(f"snappy: {error}") from error


def _compress_lz4(data: Data, level: int | None) -> bytes:
    frame = _library("lz4.frame")
    compressed: bytes = frame.compress(
        data,
        compression_level=0 if level is None else level,
        block_size=frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return compressed


def _decompress_lz4(data: bytes, max_size_bytes: int) -> bytes:
    frame = _library("lz4.frame")
    parts = []
    room = max_size_bytes + 1
    while data:
        if len(data) < 7 or data[:4] != _LZ4_MAGIC:
            raise CorruptRecord("lz4: no frame at the start")
        if not data[4] & _LZ4_INDEPENDENT_FLAG:
            raise CorruptRecord("lz4: linked blocks, which Kafka does not read")
        decompressor = frame.LZ4FrameDecompressor()
        rest: Data = data
        step = max(_LZ4_FIRST_STEP_BYTES, 4 * len(data))
        while room > 0 and not decompressor.eof:
            try:
                part = decompressor.decompress(rest, max_length=min(room, step))
            except (RuntimeError, EOFError, ValueError) as error:
                raise CorruptRecord(f"lz4: {error}") from error
            parts.append(part)
            room -= len(part)
            rest = b""
            step *= 4
            if not part and decompressor.needs_input:
                break
        if room <= 0:
            raise _too_big(max_size_bytes)
        if not decompressor.eof:
            raise CorruptRecord("lz4: the data end in the middle")
        data = decompressor.unused_data or b""
    return b"".join(parts)


def _compress_zstd(data: Data, level: int | None) -> bytes:
    zstandard = _library("zstandard")
    compressed: bytes = zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)
    return compressed


def _decompress_zstd(data: Data, max_size_bytes: int) -> bytes:
    zstandard = _library("zstandard")
    parts = []
    room = max_size_bytes + 1
    try:
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
            while room > 0 and (part := reader.read(room)):
                parts.append(part)
                room -= len(part)
    except zstandard.ZstdError as error:
        raise CorruptRecord(f"zstd: {error}") from error
    return b"".join(parts)


def _library(name: str) -> Any:
    """Import a codec's library; typed Any because two of the three ship no types."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UnsupportedCompression(f"the library {name.partition('.')[0]} is not installed") from error
