"""Segments in the layout of Aiven's plugin, in a folder or a bucket.

The objects are written in the plugin's order: ``.log``, ``.indexes`` and last the manifest, which makes the segment
complete; they are deleted in reverse order. A compressed segment is a zstd frame for each chunk; its indexes are not
compressed. With encryption, each chunk and each index is encrypted (``segment_encryption``). Recently used chunks are
kept in memory, because a consumer's fetch reads less than a chunk.
Source: KafkaRemoteStorageManager.java, CompressionChunkEnumeration.java, TransformFinisher.java and
SegmentCompressionChecker.java of Aiven-Open/tiered-storage-for-apache-kafka.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple
from uuid import UUID

from kafka_zk.storage.files import files
from kafka_zk.storage.files.errors import CorruptRecord, UnsupportedCompression
from kafka_zk.storage.records.compression import Compression, compress, decompress
from kafka_zk.storage.records.record_batch import HEADER_SIZE, read_header
from kafka_zk.storage.tiered.aiven_layout import AivenLayout
from kafka_zk.storage.tiered.chunk_index import (
    Chunk,
    ChunkIndex,
    FixedChunkIndex,
    InvalidManifest,
    VariableChunkIndex,
    chunk_count,
    chunks_of,
)
from kafka_zk.storage.tiered.object_store import NoSuchObject, ObjectStoreError, ObjectTooLarge, WritableStore
from kafka_zk.storage.tiered.recent_values import RecentValues
from kafka_zk.storage.tiered.segment_encryption import OVERHEAD_BYTES, KeyRing, SegmentCipher, UndecryptableData
from kafka_zk.storage.tiered.segment_manifest import (
    INDEX_NAMES,
    MAX_MANIFEST_BYTES,
    IndexPlace,
    SegmentManifest,
    parse_manifest,
    serialize_manifest,
)
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata
from kafka_zk.storage.tiered.segment_storage import SegmentData, SegmentPart
from kafka_zk.storage.tiered.uuid_text import id_text

_PARTS = dict(
    zip(
        INDEX_NAMES,
        (
            SegmentPart.OFFSET_INDEX,
            SegmentPart.TIME_INDEX,
            SegmentPart.PRODUCER_SNAPSHOT,
            SegmentPart.LEADER_EPOCHS,
            SegmentPart.TRANSACTION_INDEX,
        ),
        strict=True,
    )
)
_NAMES = {part: name for name, part in _PARTS.items()}
_MANIFEST_CACHE_BYTES = 4 << 20
_CHUNK_CACHE_BYTES = 32 << 20
_MOST_CHUNK_BYTES = 64 << 20
_LEAST_CHUNK_BYTES = 1024
"""Smaller chunks are refused in segments of more than ``_MOST_SMALL_CHUNKS``: each chunk that is read takes about 500
bytes of memory, whatever its size."""
_MOST_SMALL_CHUNKS = 10_000
_PIECE_BYTES = 1 << 20
_MOST_ZSTD_GROWTH = 64
"""Maximum number of bytes that compression adds to a chunk, beyond 1/256 of its size; ZSTD_COMPRESSBOUND in zstd.h."""


class ChunkSettings(NamedTuple):
    """Settings for the segments that are copied. ``is_compressed``: compress them with zstd. ``skips_batches``: do not
    compress segments whose first batch is compressed already."""

    size_bytes: int
    is_compressed: bool = False
    skips_batches: bool = False


class _Opened(NamedTuple):
    """A manifest that was checked. ``cipher``: None if the segment is not encrypted."""

    manifest: SegmentManifest
    cipher: SegmentCipher | None

    @property
    def has_chunks(self) -> bool:
        """True if the segment can only be read in whole chunks."""
        return self.manifest.is_compressed or self.cipher is not None


class AivenSegmentStorage:
    """A ``SegmentStorage``. Several threads may use it.

    Args:
        settings: for the segments that it copies; it can read segments that were copied with other settings.
        broker_id: written to their manifests.
        keys: with which segments are encrypted and decrypted; without them, encrypted segments cannot be read.
    """

    def __init__(
        self,
        store: WritableStore,
        layout: AivenLayout,
        settings: ChunkSettings,
        broker_id: int,
        keys: KeyRing | None = None,
    ) -> None:
        self._store = store
        self._layout = layout
        self._settings = settings
        self._broker_id = broker_id
        self._keys = keys
        self._chunks: RecentValues[tuple[UUID, int], bytes] = RecentValues(lambda: _CHUNK_CACHE_BYTES)
        self._manifests: RecentValues[UUID, _Opened] = RecentValues(lambda: _MANIFEST_CACHE_BYTES)

    def copy(self, segment: RemoteLogSegmentMetadata, data: SegmentData) -> None:
        created = None if self._keys is None else self._keys.new_encryption()
        encryption, cipher = created or (None, None)
        try:
            is_compressed = self._compresses(data.log_path)
            chunks = self._put_log(segment, data.log_path, is_compressed, cipher)
        except OSError as error:
            raise ObjectStoreError(f"{error.filename or data.log_path}: {error.strerror or error}") from error
        indexes = {
            name: _encrypted_index(data.parts[part], cipher) for name, part in _PARTS.items() if part in data.parts
        }
        self._store.put(self._layout.indexes_key(segment), iter(indexes.values()))
        manifest = SegmentManifest(id_text(segment.segment_id.id), chunks, _places(indexes), is_compressed, encryption)
        manifest_data = serialize_manifest(manifest, segment, self._broker_id)
        self._store.put(self._layout.manifest_key(segment), iter((manifest_data,)))

    def read(self, segment: RemoteLogSegmentMetadata, position: int, size_bytes: int) -> bytes:
        opened = self._opened(segment)
        wanted = min(size_bytes, opened.manifest.chunks.original_bytes - position)
        if not opened.has_chunks:
            return self._range(self._layout.log_key(segment), position, wanted)
        chunks = list(chunks_of(opened.manifest.chunks, position, wanted))
        if not chunks:
            return b""
        data = b"".join(self._chunks_of(segment, opened, chunks))
        start = position - chunks[0].original_position
        return data[start : start + wanted]

    def read_part(self, segment: RemoteLogSegmentMetadata, part: SegmentPart, most_bytes: int) -> bytes:
        key = self._layout.indexes_key(segment)
        try:
            manifest, cipher = self._opened(segment)
            place = manifest.indexes.get(_NAMES[part])
            if place is not None and place.size_bytes <= most_bytes + (OVERHEAD_BYTES if cipher else 0):
                stored = self._range(key, *place)
                with _damages_of(f"the {_NAMES[part]} index in {key}"):
                    return cipher.decrypt(stored) if cipher is not None and stored else stored
        except NoSuchObject as error:  # the part may exist: a caller must not conclude "no aborted transactions"
            raise ObjectStoreError(str(error)) from error
        if place is None:
            raise NoSuchObject(f"{key} has no {_NAMES[part]} index")
        raise ObjectTooLarge(f"the {_NAMES[part]} index in {key} has more than {most_bytes} bytes")

    def delete(self, segment: RemoteLogSegmentMetadata) -> None:
        for key in (
            self._layout.manifest_key(segment), self._layout.indexes_key(segment), self._layout.log_key(segment)
        ):  # fmt: skip
            self._store.delete(key)

    def _compresses(self, log_path: str) -> bool:
        """Raises: OSError."""
        if not self._settings.is_compressed or not self._settings.skips_batches:
            return self._settings.is_compressed
        with files.opened(log_path) as descriptor:
            head = files.pread(descriptor, HEADER_SIZE, 0)
        return len(head) < HEADER_SIZE or read_header(head).compression == Compression.none

    def _put_log(
        self, segment: RemoteLogSegmentMetadata, path: str, is_compressed: bool, cipher: SegmentCipher | None
    ) -> ChunkIndex:
        """Raises: ObjectStoreError, OSError."""
        key, size_bytes, chunk_bytes = self._layout.log_key(segment), segment.size_bytes, self._settings.size_bytes
        if not is_compressed and cipher is None:
            self._store.put(key, _pieces(path, size_bytes, _PIECE_BYTES))
            last = size_bytes - (chunk_count(size_bytes, chunk_bytes) - 1) * chunk_bytes
            return FixedChunkIndex(chunk_bytes, size_bytes, chunk_bytes, last)
        sizes: list[int] = []
        self._store.put(key, _transformed(_pieces(path, size_bytes, chunk_bytes), is_compressed, cipher, sizes))
        if not is_compressed:
            return FixedChunkIndex(chunk_bytes, size_bytes, chunk_bytes + OVERHEAD_BYTES, sizes[-1] if sizes else 0)
        return VariableChunkIndex.of_sizes(chunk_bytes, size_bytes, sizes or [0])

    def _chunks_of(
        self, segment: RemoteLogSegmentMetadata, opened: _Opened, chunks: Sequence[Chunk]
    ) -> Iterator[bytes]:
        """The content of adjacent chunks. Chunks that are not in memory are read with one request."""
        segment_id = segment.segment_id.id
        kept = {each: self._chunks.get((segment_id, each.original_position)) for each in chunks}
        missing = [each for each in chunks if kept[each] is None]
        stored, start = b"", 0
        if missing:
            start = missing[0].stored_position
            end = missing[-1].stored_position + missing[-1].stored_bytes
            stored = self._range(self._layout.log_key(segment), start, end - start)
        for each in chunks:
            content = kept[each]
            if content is None:
                at = each.stored_position - start
                with _damages_of(f"{self._layout.log_key(segment)} at {each.stored_position}"):
                    content = _original(opened, each, stored[at : at + each.stored_bytes])
                self._chunks.keep((segment_id, each.original_position), content, len(content))
            yield content

    def _opened(self, segment: RemoteLogSegmentMetadata) -> _Opened:
        """Raises: ObjectStoreError if the manifest is missing, damaged or of another segment, or if the segment is
        encrypted with a key that this broker does not have."""
        segment_id = segment.segment_id.id
        opened = self._manifests.get(segment_id)
        if opened is None:
            key = self._layout.manifest_key(segment)
            data = self._store.get(key, MAX_MANIFEST_BYTES)
            with _damages_of(key):
                manifest = parse_manifest(data)
                _check(manifest, segment)
                opened = _Opened(manifest, self._cipher(manifest))
            self._manifests.keep(segment_id, opened, len(data) + manifest.chunks.memory_bytes)
        return opened

    def _cipher(self, manifest: SegmentManifest) -> SegmentCipher | None:
        """Raises: UndecryptableData."""
        if manifest.encryption is None:
            return None
        if self._keys is None:
            raise UndecryptableData("the segment is encrypted, and this broker has no encryption.key.pairs")
        return self._keys.cipher(manifest.encryption)

    def _range(self, key: str, position: int, size_bytes: int) -> bytes:
        """Raises: ObjectStoreError, also if the object is shorter."""
        if size_bytes <= 0:
            return b""
        data = self._store.get_range(key, position, size_bytes)
        if len(data) != size_bytes:
            raise ObjectStoreError(f"{key} ends at {position + len(data)} of at least {position + size_bytes} bytes")
        return data


def _pieces(path: str, size_bytes: int, piece_bytes: int) -> Iterator[bytes]:
    """The first ``size_bytes`` of a file. Raises: OSError, also if it is shorter."""
    with files.opened(path) as descriptor:
        for position in range(0, size_bytes, piece_bytes):
            wanted = min(piece_bytes, size_bytes - position)
            piece = files.pread(descriptor, wanted, position)
            if len(piece) < wanted:
                raise OSError(None, f"the segment ends at {position + len(piece)} of {size_bytes} bytes", path)
            yield piece


def _transformed(
    chunks: Iterator[bytes], is_compressed: bool, cipher: SegmentCipher | None, sizes: list[int]
) -> Iterator[bytes]:
    """Each chunk as it is stored: compressed, then encrypted. A zstd frame states its content size, without which the
    plugin cannot read it. The stored sizes are appended to ``sizes``."""
    for chunk in chunks:
        stored = compress(Compression.zstd, chunk) if is_compressed else chunk
        if cipher is not None:
            stored = cipher.encrypt(stored)
        sizes.append(len(stored))
        yield stored


def _encrypted_index(content: bytes, cipher: SegmentCipher | None) -> bytes:
    """An index as it is stored. The plugin does not encrypt an empty one."""
    return cipher.encrypt(content) if cipher is not None and content else content


def _original(opened: _Opened, chunk: Chunk, stored: bytes) -> bytes:
    """Raises: InvalidManifest, UndecryptableData, CorruptRecord, UnsupportedCompression."""
    content = stored if opened.cipher is None else opened.cipher.decrypt(stored)
    if opened.manifest.is_compressed:
        content = decompress(Compression.zstd, content, chunk.original_bytes)
    if len(content) != chunk.original_bytes:
        raise InvalidManifest(f"a chunk has {len(content)} bytes, but the manifest says {chunk.original_bytes}")
    return content


def _places(indexes: dict[str, bytes]) -> dict[str, IndexPlace]:
    places, position = {}, 0
    for name, data in indexes.items():
        places[name] = IndexPlace(position, len(data))
        position += len(data)
    return places


def _check(manifest: SegmentManifest, segment: RemoteLogSegmentMetadata) -> None:
    """Raises: InvalidManifest."""
    if manifest.segment_id != id_text(segment.segment_id.id):
        raise InvalidManifest(f"it is of segment {manifest.segment_id:.30}")
    sizes = manifest.sizes
    if sizes.original_bytes != segment.size_bytes:
        raise InvalidManifest(f"its segment has {sizes.original_bytes} bytes, the metadata say {segment.size_bytes}")
    chunk_bytes = min(manifest.chunks.original_chunk_bytes, sizes.original_bytes)
    is_encrypted = manifest.encryption is not None
    if manifest.is_compressed or is_encrypted:
        _check_chunks(manifest, chunk_bytes)
    count = chunk_count(sizes.original_bytes, manifest.chunks.original_chunk_bytes) if sizes.original_bytes else 0
    added_bytes = count * OVERHEAD_BYTES if is_encrypted else 0
    if not manifest.is_compressed and sizes.log_bytes != sizes.original_bytes + added_bytes:
        raise InvalidManifest(f"{sizes.original_bytes} bytes are stored as {sizes.log_bytes}")


def _check_chunks(manifest: SegmentManifest, chunk_bytes: int) -> None:
    """Raises InvalidManifest for chunks that would take too much memory."""
    if chunk_bytes > _MOST_CHUNK_BYTES:
        raise InvalidManifest(f"chunks of {chunk_bytes} bytes, but this broker reads at most {_MOST_CHUNK_BYTES}")
    count = chunk_count(manifest.chunks.original_bytes, manifest.chunks.original_chunk_bytes)
    if chunk_bytes < _LEAST_CHUNK_BYTES and count > _MOST_SMALL_CHUNKS:
        raise InvalidManifest(f"{count} chunks of {chunk_bytes} bytes, too small for that number")
    growth = chunk_bytes // 256 + _MOST_ZSTD_GROWTH if manifest.is_compressed else 0
    growth += 0 if manifest.encryption is None else OVERHEAD_BYTES
    largest = manifest.chunks.largest_stored_bytes
    if largest > chunk_bytes + growth:
        raise InvalidManifest(f"a chunk of {largest} bytes, more than {chunk_bytes} bytes can become")


@contextmanager
def _damages_of(key: str) -> Iterator[None]:
    try:
        yield
    except (InvalidManifest, CorruptRecord, UndecryptableData, UnsupportedCompression) as error:
        raise ObjectStoreError(f"{key}: {error}") from error
