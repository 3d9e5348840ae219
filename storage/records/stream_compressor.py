"""Compresses data incrementally, with a limit on the result.

The result is that of ``compression.compress``, but a zstd frame of more than ``WHOLE_BYTES`` does not state its size.
Tests: tests/storage/records/test_compression.py.
"""

import zlib
from collections.abc import Callable

from kafka_zk.storage.files.errors import RecordTooLarge
from kafka_zk.storage.records.compression import Compression, Data, compress, library, zstd_library

WHOLE_BYTES = 256 * 1024
_STEP_BYTES = 32 * 1024  # the size of snappy's blocks
_SNAPPY_HEADER_SIZE = 16
_ZSTD_FIRST_BIG_LEVEL, _ZSTD_WINDOW_LOG = 17, 22
"""From this level on, the window is limited to 4 MB. Otherwise, the writer and every reader need hundreds of MB."""

_Engine = tuple[Callable[[bytes], bytes], Callable[[], bytes]]  # compress, flush


class StreamCompressor:
    """``write`` data, then ``finish``. ``level``: as in ``compress``.

    Both raise UnsupportedCompression, and RecordTooLarge above ``max_size_bytes``.
    """

    def __init__(self, codec: Compression, level: int | None = None, max_size_bytes: int | None = None) -> None:
        self._codec = codec
        self._level = level
        self._max_size_bytes = max_size_bytes
        self._pending = bytearray()
        self._out = bytearray()
        self._engine: _Engine | None = None

    def write(self, data: Data) -> None:
        self._pending += data
        if len(self._pending) > WHOLE_BYTES:
            usable_bytes = len(self._pending) // _STEP_BYTES * _STEP_BYTES
            with memoryview(self._pending) as view:
                usable = bytes(view[:usable_bytes])
            del self._pending[:usable_bytes]
            if self._engine is None:
                self._engine = _begin(self._codec, self._level, self._out)
            self._add(self._engine[0](usable))

    def finish(self) -> bytearray:
        if self._engine is None:
            self._add(compress(self._codec, self._pending, self._level))
        else:
            run, flush = self._engine
            self._add(run(bytes(self._pending)))
            self._add(flush())
        return self._out

    def _add(self, data: bytes) -> None:
        self._out += data
        if self._max_size_bytes is not None and len(self._out) > self._max_size_bytes:
            raise RecordTooLarge(f"records take more than {self._max_size_bytes} bytes")


def _begin(codec: Compression, level: int | None, out: bytearray) -> _Engine:
    """An engine that compresses in steps of one size; only the last may be smaller. ``out`` receives the header."""
    match codec:
        case Compression.gzip:
            deflate = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
            return deflate.compress, deflate.flush
        case Compression.snappy:
            out += compress(codec, b"")
            return lambda data: compress(codec, data)[_SNAPPY_HEADER_SIZE:], lambda: b""
        case Compression.lz4:
            frame = library("lz4.frame")
            lz4 = frame.LZ4FrameCompressor(
                compression_level=level or 0, block_size=frame.BLOCKSIZE_MAX64KB, block_linked=False
            )
            out += lz4.begin()
            return lz4.compress, lz4.flush
        case Compression.zstd:
            module = zstd_library()
            keys, chosen = module.CompressionParameter, 3 if level is None else level
            options = {keys.compression_level: chosen}
            if chosen >= _ZSTD_FIRST_BIG_LEVEL:
                options[keys.window_log] = _ZSTD_WINDOW_LOG
            zstd = module.ZstdCompressor(options=options)
            return zstd.compress, zstd.flush
    return bytes, bytes
