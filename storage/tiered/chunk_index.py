"""The chunks of a segment in the layout of Aiven's plugin. Pure.

The plugin cuts a segment into chunks of one size, compresses or encrypts each, and stores them one after the other in
the ``.log`` object. The index in the manifest has the sizes of the stored chunks: one number if all but the last are
equal (``fixed``), or a list (``variable``): base64 of zstd of count (int32), base (int32), bytes per value (uint8),
count - 1 values without the base, and the last value (int32). A list of one has only the count and the value.
Source: FixedSizeChunkIndex.java, VariableSizeChunkIndex.java and ChunkSizesBinaryCodec.java of
Aiven-Open/tiered-storage-for-apache-kafka.
"""

import base64
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from kafka_zk.storage.files.errors import StorageError
from kafka_zk.storage.records.compression import Compression, compress, decompress

_MAX_CHUNKS = 1_000_000
_MAX_INT = (1 << 31) - 1
_START_BYTES = 8


class InvalidManifest(StorageError):
    """A manifest is not JSON of version 1, or its numbers contradict each other."""


class Chunk(NamedTuple):
    """A chunk's position and size in the segment (``original_…``), and in the object (``stored_…``)."""

    original_position: int
    original_bytes: int
    stored_position: int
    stored_bytes: int


class FixedChunkIndex(NamedTuple):
    """``original_bytes``: the size of the segment. ``original_chunk_bytes``, ``stored_chunk_bytes``: the size of each
    chunk but the last, in the segment and in the object."""

    original_chunk_bytes: int
    original_bytes: int
    stored_chunk_bytes: int
    last_stored_bytes: int

    @property
    def stored_bytes(self) -> int:
        return self.stored_start(_count(self) - 1) + self.last_stored_bytes

    @property
    def largest_stored_bytes(self) -> int:
        """The size of the largest chunk in the object."""
        return max(self.stored_chunk_bytes, self.last_stored_bytes) if _count(self) > 1 else self.last_stored_bytes

    @property
    def memory_bytes(self) -> int:
        """The memory that the list of sizes takes."""
        return 0

    def stored_start(self, number: int) -> int:
        return number * self.stored_chunk_bytes

    def document(self) -> dict[str, Any]:
        return {
            "type": "fixed",
            "originalChunkSize": self.original_chunk_bytes,
            "originalFileSize": self.original_bytes,
            "transformedChunkSize": self.stored_chunk_bytes,
            "finalTransformedChunkSize": self.last_stored_bytes,
        }


class VariableChunkIndex(NamedTuple):
    """``stored_starts``: the position of each chunk in the object, and at the end the size of the object."""

    original_chunk_bytes: int
    original_bytes: int
    stored_starts: Sequence[int]

    @classmethod
    def of_sizes(cls, original_chunk_bytes: int, original_bytes: int, sizes: Sequence[int]) -> "VariableChunkIndex":
        return cls(original_chunk_bytes, original_bytes, array("q", accumulate(sizes, initial=0)))

    @property
    def stored_bytes(self) -> int:
        return self.stored_starts[-1]

    @property
    def largest_stored_bytes(self) -> int:
        return max(end - start for start, end in pairwise(self.stored_starts))

    @property
    def memory_bytes(self) -> int:
        return len(self.stored_starts) * _START_BYTES

    def stored_start(self, number: int) -> int:
        return self.stored_starts[number]

    def document(self) -> dict[str, Any]:
        starts = self.stored_starts
        sizes = [end - start for start, end in pairwise(starts)]
        return {
            "type": "variable",
            "originalChunkSize": self.original_chunk_bytes,
            "originalFileSize": self.original_bytes,
            "transformedChunks": base64.b64encode(encode_chunk_sizes(sizes)).decode(),
        }


ChunkIndex = FixedChunkIndex | VariableChunkIndex


def _count(index: ChunkIndex) -> int:
    return chunk_count(index.original_bytes, index.original_chunk_bytes)


def chunk_count(original_bytes: int, chunk_bytes: int) -> int:
    """An empty segment has one empty chunk."""
    return max(1, -(-original_bytes // chunk_bytes))


def chunks_of(index: ChunkIndex, position: int, size_bytes: int) -> Iterator[Chunk]:
    """The chunks that contain the range ``[position, position + size_bytes)`` of the segment; the range may end after
    the segment."""
    end = min(position + size_bytes, index.original_bytes)
    if position >= end:
        return
    chunk_bytes, last = index.original_chunk_bytes, _count(index) - 1
    for number in range(position // chunk_bytes, -(-end // chunk_bytes)):
        start, stored = number * chunk_bytes, index.stored_start(number)
        stored_end = index.stored_bytes if number == last else index.stored_start(number + 1)
        yield Chunk(start, min(chunk_bytes, index.original_bytes - start), stored, stored_end - stored)


def parse_chunk_index(document: Mapping[str, Any]) -> ChunkIndex:
    """Raises InvalidManifest, CorruptRecord, UnsupportedCompression; if the document is not an index, also ValueError,
    KeyError, TypeError and struct.error."""
    original_bytes, chunk_bytes = size_of(document, "originalFileSize"), size_of(document, "originalChunkSize")
    if not chunk_bytes:
        raise InvalidManifest("originalChunkSize is 0")
    kind = document["type"]
    if kind == "fixed":
        stored, last = size_of(document, "transformedChunkSize"), size_of(document, "finalTransformedChunkSize")
        return FixedChunkIndex(chunk_bytes, original_bytes, stored, last)
    if kind != "variable":
        raise InvalidManifest(f"a chunk index of type {kind!r:.20}")
    sizes = decode_chunk_sizes(base64.b64decode(document["transformedChunks"], validate=True))
    count = chunk_count(original_bytes, chunk_bytes)
    if len(sizes) != count:
        raise InvalidManifest(f"{len(sizes)} sizes of {count} chunks")
    return VariableChunkIndex.of_sizes(chunk_bytes, original_bytes, sizes)


def size_of(row: Mapping[str, Any], name: str) -> int:
    """A size or position of a manifest. Raises InvalidManifest, KeyError, TypeError."""
    value = row[name]
    if type(value) is not int or not 0 <= value <= _MAX_INT:
        raise InvalidManifest(f"{name} is {value!r:.20}")
    return value


def decode_chunk_sizes(encoded: bytes) -> list[int]:
    """Raises InvalidManifest, CorruptRecord, UnsupportedCompression, struct.error."""
    data = decompress(Compression.zstd, encoded, 9 + 4 * _MAX_CHUNKS)
    (count,) = struct.unpack_from(">i", data)
    if count == 1:
        sizes = list(struct.unpack(">i", data[4:]))
    else:
        base, width = struct.unpack_from(">iB", data, 4)
        end = 9 + (count - 1) * width
        if not 1 <= width <= 4 or count < 1 or len(data) != end + 4:
            raise InvalidManifest(f"{len(data)} bytes for {count} chunk sizes of {width} bytes")
        sizes = [base + int.from_bytes(data[at : at + width], "big") for at in range(9, end, width)]
        sizes += struct.unpack_from(">i", data, end)
    if min(sizes) < 0:
        raise InvalidManifest("a chunk with a negative size")
    return sizes


def encode_chunk_sizes(sizes: Sequence[int]) -> bytes:
    """``sizes``: at least one, none negative."""
    head, last = sizes[:-1], struct.pack(">i", sizes[-1])
    if not head:
        return compress(Compression.zstd, struct.pack(">i", 1) + last)
    base = min(head)
    width = max(1, -(-(max(head) - base).bit_length() // 8))
    values = b"".join((size - base).to_bytes(width, "big") for size in head)
    return compress(Compression.zstd, struct.pack(">iiB", len(sizes), base, width) + values + last)
