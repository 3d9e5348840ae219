"""The four codecs of record batches, with limits on decompressed sizes.

- gzip: RFC 1952, also several members.
- snappy: written in the framing of Java's ``SnappyOutputStream`` ("xerial": a header of 16 bytes, then blocks of at
  most 32 KB, each after its length); read in this framing, or as one plain block, which some clients send.
- lz4: frames of independent blocks; linked ones are rejected, as in Java's reader.
- zstd: one or more frames.

``StreamCompressor`` and ``decompress_chunks`` are incremental, for data too large for memory. Libraries are imported on
first use.
"""

import sys
import zlib
from collections.abc import Iterator
from enum import IntEnum
from importlib import import_module
from struct import Struct
from struct import error as StructError
from typing import Any

from kafka_zk.storage.files.errors import CorruptRecord, UnpacksTooBig, UnsupportedCompression


class Compression(IntEnum):
    """The lowest three bits of the attributes; names as in ``compression.type``."""

    none = 0
    gzip = 1
    snappy = 2
    lz4 = 3
    zstd = 4


DEFAULT_MAX_SIZE_BYTES = 128 * 1024 * 1024
CHUNK_BYTES = 64 * 1024
Data = bytes | bytearray | memoryview

_XERIAL_HEADER = b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2  # magic, version, lowest compatible version
_XERIAL_MAGIC = _XERIAL_HEADER[:8]
_XERIAL_BLOCK_BYTES = 32 * 1024
_INT = Struct(">i")
_FREE_PARTS = 1000
_PART_BYTES = 1024
_GZIP_INPUT_BYTES = 8 * 1024
"""The library copies its unused input, so the input is passed in small pieces."""
_SNAPPY_MOST_GROWTH = 22  # three bytes become at most 64
_LZ4_INPUT_BYTES = 64 * 1024
_LZ4_FIRST_STEP_BYTES = 64 * 1024
"""The library allocates memory for the whole limit. Smaller steps make a batch of 16 KB ten times cheaper
(measured)."""
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_INDEPENDENT_FLAG = 0x20
_LZ4_CONTENT_SIZE_FLAG = 0x08
_LZ4_MOST_GROWTH = 512
"""One byte of input produces at most 255, and the library may allocate twice that."""
_lz4_contexts: list[Any] = []
"""Contexts not in use: creating one takes as long as compressing 16 KB. A thread removes a context from the list while
it uses the context."""
_ZSTD_INPUT_BYTES = 64 * 1024
"""Input is passed in pieces of this size, because the library copies the input that follows a frame."""


def compress(codec: Compression | int, data: Data, level: int | None = None) -> bytes:
    """Compress for Kafka's Java clients. ``level``: on the codec's own scale; None: the codec's default."""
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
    """Raises: UnpacksTooBig above the limit, CorruptRecord for damaged or truncated data, UnsupportedCompression for an
    unknown codec or without its library."""
    chunks = list(decompress_chunks(codec, data, max_size_bytes, max_size_bytes + 1))
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def decompress_chunks(
    codec: Compression | int, data: Data, max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[bytes]:
    """Decompress incrementally, with at most ``chunk_bytes`` in memory (for snappy, one block).

    Chunks may be empty. Too many empty parts (gzip members, lz4 frames, snappy blocks) count as damage, because each
    costs as much as a thousand bytes. Raises like ``decompress``.
    """
    chunks: Iterator[bytes]
    match codec:
        case Compression.none:
            view = memoryview(data)
            chunks = (bytes(view[start : start + chunk_bytes]) for start in range(0, len(view), chunk_bytes))
        case Compression.gzip:
            chunks = _gzip_chunks(memoryview(data), chunk_bytes)
        case Compression.snappy:
            chunks = _snappy_chunks(memoryview(data), max_size_bytes)
        case Compression.lz4:
            chunks = _lz4_chunks(memoryview(data), chunk_bytes)
        case Compression.zstd:
            chunks = _zstd_chunks(memoryview(data), chunk_bytes)
        case _:
            raise UnsupportedCompression(f"unknown compression codec {codec}")
    size_bytes = 0
    for count, chunk in enumerate(chunks):
        size_bytes += len(chunk)
        if size_bytes > max_size_bytes:
            raise _too_big(max_size_bytes)
        if count > _FREE_PARTS + size_bytes // _PART_BYTES:
            raise CorruptRecord(f"too many parts for {size_bytes} bytes of uncompressed data: {count}")
        yield chunk


def _too_big(max_size_bytes: int) -> UnpacksTooBig:
    return UnpacksTooBig(f"compressed data grow beyond {max_size_bytes} bytes")


def _gzip_chunks(data: memoryview, chunk_bytes: int) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        member = zlib.decompressobj(31)
        rest: Data = b""
        while not member.eof:
            if not rest:
                rest = data[position : position + _GZIP_INPUT_BYTES]
                position += len(rest)
                if not rest:
                    raise CorruptRecord("gzip: the data are truncated")
            try:
                chunk = member.decompress(rest, chunk_bytes)
            except zlib.error as error:
                raise CorruptRecord(f"gzip: {error}") from error
            rest = member.unconsumed_tail
            yield chunk
        position -= len(member.unused_data)


def _compress_snappy(data: Data) -> bytes:
    snappy = library("snappy")
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = snappy.compress(bytes(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_INT.pack(len(block)), block)
    return b"".join(parts)


def _snappy_chunks(data: memoryview, max_size_bytes: int) -> Iterator[bytes]:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        yield _snappy_block(data, max_size_bytes)
        return
    position = len(_XERIAL_HEADER)
    while position < len(data):
        try:
            (length,) = _INT.unpack_from(data, position)
        except StructError:
            raise CorruptRecord("snappy: the data end in a block's length") from None
        position += _INT.size
        if not 0 < length <= len(data) - position:
            raise CorruptRecord(f"snappy: a block of {length} bytes with {len(data) - position} left")
        block = _snappy_block(data[position : position + length], max_size_bytes)
        max_size_bytes -= len(block)
        yield block
        position += length


def _snappy_block(block: memoryview, max_size_bytes: int) -> bytes:
    """Decompress one raw block, after checking its uncompressed size, an unsigned varint at the start."""
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
    if size > len(block) * _SNAPPY_MOST_GROWTH:
        raise CorruptRecord(f"snappy: a block of {len(block)} bytes cannot hold {size}")
    snappy = library("snappy")
    try:
        return bytes(snappy.uncompress(bytes(block)))
    except Exception as error:  # the class depends on the library's version
        raise CorruptRecord(f"snappy: {error}") from error


def _compress_lz4(data: Data, level: int | None) -> bytes:
    frame = library("lz4.frame")
    try:
        context = _lz4_contexts.pop()
    except IndexError:
        context = frame.create_compression_context()
    header = frame.compress_begin(
        context,
        compression_level=0 if level is None else level,
        block_size=frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        auto_flush=True,
    )
    compressed: bytes = header + frame.compress_chunk(context, data) + frame.compress_flush(context)
    _lz4_contexts.append(context)
    return compressed


def _lz4_chunks(data: memoryview, chunk_bytes: int) -> Iterator[bytes]:
    frame = library("lz4.frame")
    position = 0
    while position < len(data):
        if len(data) - position < 7 or data[position : position + 4] != _LZ4_MAGIC:
            raise CorruptRecord("lz4: no frame at the start")
        if not data[position + 4] & _LZ4_INDEPENDENT_FLAG:
            raise CorruptRecord("lz4: linked blocks, which Kafka does not read")
        if not data[position + 4] & _LZ4_CONTENT_SIZE_FLAG and (len(data) - position) * _LZ4_MOST_GROWTH <= chunk_bytes:
            chunk, size_bytes = _lz4_frame(frame, data[position:])
            position += size_bytes
            yield chunk
            continue
        decompressor = frame.LZ4FrameDecompressor()
        step = max(_LZ4_FIRST_STEP_BYTES, 4 * len(data))
        while not decompressor.eof:
            rest = bytes(data[position : position + _LZ4_INPUT_BYTES]) if decompressor.needs_input else b""
            if decompressor.needs_input and not rest:
                raise CorruptRecord("lz4: the data are truncated")
            position += len(rest)
            try:
                chunk = decompressor.decompress(rest, max_length=min(chunk_bytes, step))
            except (RuntimeError, EOFError, ValueError) as error:
                raise CorruptRecord(f"lz4: {error}") from error
            step *= 4
            yield chunk
        position -= len(decompressor.unused_data or b"")


def _lz4_frame(frame: Any, data: memoryview) -> tuple[bytes, int]:
    """(The first frame decompressed, its compressed size). One large call takes a fifth of the time of many small
    ones."""
    try:
        chunk, size_bytes = frame.decompress(data, return_bytes_read=True)
    except RuntimeError as error:
        raise CorruptRecord(f"lz4: {error}") from error
    return chunk, size_bytes


def _compress_zstd(data: Data, level: int | None) -> bytes:
    compressed: bytes = zstd_library().compress(data, 3 if level is None else level)
    return compressed


def _zstd_chunks(data: memoryview, chunk_bytes: int) -> Iterator[bytes]:
    zstd = zstd_library()
    position = 0
    while position < len(data):
        frame = zstd.ZstdDecompressor()
        while not frame.eof:
            rest = data[position : position + _ZSTD_INPUT_BYTES] if frame.needs_input else b""
            if frame.needs_input and not rest:
                raise CorruptRecord("zstd: the data are truncated")
            position += len(rest)
            try:
                chunk = frame.decompress(rest, chunk_bytes)
            except zstd.ZstdError as error:
                raise CorruptRecord(f"zstd: {error}") from error
            yield chunk
        position -= len(frame.unused_data)


def zstd_library() -> Any:
    """``compression.zstd`` of Python 3.14 or later, or the same module from the package ``backports.zstd``."""
    return library("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def library(name: str) -> Any:
    """Import a codec's library. The type is Any, because some libraries are not typed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UnsupportedCompression(f"the library {name.removesuffix('.frame')} is not installed") from error
