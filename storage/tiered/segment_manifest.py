"""The manifest that Aiven's plugin writes beside each segment: JSON, version 1.

The plugin cuts a segment into chunks of one size, and compresses (zstd) or encrypts (AES-256-GCM) each. ``chunkIndex``
has the sizes that they have in the bucket: one number if all but the last are equal (``fixed``), or a list
(``variable``): base64 of zstd of count (int32), base (int32), bytes per value (uint8), count - 1 values without the
base, and the last value (int32). ``segmentIndexes`` has the places of the indexes in the ``.indexes`` object.
Keys of an encrypted segment are not read.
Source: SegmentManifestV1.java, FixedSizeChunkIndex.java and ChunkSizesBinaryCodec.java of
Aiven-Open/tiered-storage-for-apache-kafka.
"""

import base64
import json
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka_zk.storage.files.errors import StorageError
from kafka_zk.storage.records.compression import Compression, decompress

MAX_MANIFEST_BYTES = 4 * 1024 * 1024
"""A variable index needs at most four bytes for each chunk before compression; a segment has at most 2 GiB."""

_MAX_CHUNKS = 1_000_000
_MAX_INT = (1 << 31) - 1
_INDEXES = ("offset", "timestamp", "producerSnapshot", "leaderEpoch")


class InvalidManifest(StorageError):
    """A manifest is not JSON of version 1, or its numbers contradict each other."""


class SegmentManifest(NamedTuple):
    """Sizes of the segment as the broker had it (``original``), and of its objects in the bucket."""

    segment_id: str
    original_bytes: int
    log_bytes: int
    indexes_bytes: int


def parse_manifest(data: bytes) -> SegmentManifest:
    """Raises InvalidManifest; UnsupportedCompression without zstd."""
    try:
        document = json.loads(data)
        if document["version"] != "1":
            raise InvalidManifest(f"a manifest of version {document['version']!r:.20}, only 1 is known")
        original_bytes, sizes_total = _chunks(document["chunkIndex"])
        segment_id = document["remoteLogSegmentMetadata"]["remoteLogSegmentId"]["id"]
        return SegmentManifest(str(segment_id), original_bytes, sizes_total, _indexes_end(document["segmentIndexes"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
        raise InvalidManifest(f"not a manifest: {type(error).__name__} {str(error)[:100]}") from None


def _chunks(index: Mapping[str, Any]) -> tuple[int, int]:
    """(Size of the segment, size of all chunks in the bucket)."""
    size, chunk = _size(index, "originalFileSize"), _size(index, "originalChunkSize")
    count = -(-size // chunk)  # ZeroDivisionError is no case: a chunk has at least one byte
    if index["type"] == "fixed":
        last = _size(index, "finalTransformedChunkSize")
        return size, (count - 1) * _size(index, "transformedChunkSize") + last if count else last
    if index["type"] != "variable":
        raise InvalidManifest(f"a chunk index of type {index['type']!r:.20}")
    sizes = decode_chunk_sizes(base64.b64decode(index["transformedChunks"], validate=True))
    if len(sizes) != max(count, 1):
        raise InvalidManifest(f"{len(sizes)} sizes of {count} chunks")
    return size, sum(sizes)


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


def _indexes_end(indexes: Mapping[str, Any]) -> int:
    present = [indexes[name] for name in _INDEXES]
    if indexes.get("transaction") is not None:
        present.append(indexes["transaction"])
    return max(_size(each, "position") + _size(each, "size") for each in present)


def _size(row: Mapping[str, Any], name: str) -> int:
    value = row[name]
    if type(value) is not int or not 0 <= value <= _MAX_INT or (name == "originalChunkSize" and value == 0):
        raise InvalidManifest(f"{name} is {value!r:.20}")
    return value
