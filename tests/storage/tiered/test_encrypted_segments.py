"""Encrypted segments in the layout of Aiven's plugin."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.storage.records.compression import Compression, decompress
from kafka_zk.storage.tiered import aiven_segment_storage
from kafka_zk.storage.tiered.aiven_layout import AivenLayout
from kafka_zk.storage.tiered.aiven_segment_storage import AivenSegmentStorage, ChunkSettings
from kafka_zk.storage.tiered.chunk_index import FixedChunkIndex, VariableChunkIndex, chunks_of, parse_chunk_index
from kafka_zk.storage.tiered.object_store import ObjectStoreError, ObjectTooLarge
from kafka_zk.storage.tiered.segment_encryption import (
    OVERHEAD_BYTES,
    KeyRing,
    SegmentCipher,
    SegmentEncryption,
    read_key_ring,
)
from kafka_zk.storage.tiered.segment_manifest import parse_manifest
from kafka_zk.storage.tiered.segment_storage import SegmentPart
from tests.storage.tiered.encryption_keys import other_pair, write_pair
from tests.storage.tiered.test_aiven_segment_storage import (
    CHUNK,
    CONTENT,
    PARTS,
    PLAIN,
    SEGMENT,
    ZSTD,
    NotingStore,
    changed,
    data,
    path_of,
)

BOTH = pytest.mark.parametrize("settings", [PLAIN, ZSTD])


@pytest.fixture
def store(tmp_path: Path) -> NotingStore:
    return NotingStore(str(tmp_path / "tier"))


@pytest.fixture
def ring(tmp_path: Path) -> KeyRing:
    return read_key_ring({"k1": write_pair(tmp_path, "k1")}, "k1")


def storage_with(store: NotingStore, keys: KeyRing | None, settings: ChunkSettings = PLAIN) -> AivenSegmentStorage:
    return AivenSegmentStorage(store, AivenLayout("p/"), settings, 2, keys)


def manifest_of(tmp_path: Path) -> Any:
    return json.loads(path_of(tmp_path, ".rsm-manifest").read_bytes())


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("chunk_bytes", [1, 100, 1023, 1024, 1025])
def test_an_encrypted_segment_is_read_back(
    tmp_path: Path, store: NotingStore, ring: KeyRing, chunk_bytes: int, is_compressed: bool
) -> None:
    storage_with(store, ring, ChunkSettings(chunk_bytes, is_compressed)).copy(SEGMENT, data(tmp_path))
    storage = storage_with(store, ring)
    for position in (0, 1, 99, 100, 101, 1023):
        for size in (1, 101, 5000):
            assert storage.read(SEGMENT, position, size) == CONTENT[position : position + size]
    assert storage.read(SEGMENT, 1024, 1) == b""
    assert {part: storage.read_part(SEGMENT, part, 100) for part in SegmentPart} == PARTS


@BOTH
def test_objects_are_encrypted_as_by_the_plugin(
    tmp_path: Path, store: NotingStore, ring: KeyRing, settings: ChunkSettings
) -> None:
    """Each chunk is compressed, then encrypted; each index is encrypted as one chunk. Without compression, all stored
    chunks but the last have one size, which a fixed index states. No object contains the content.
    """
    storage_with(store, ring, settings).copy(SEGMENT, data(tmp_path))
    manifest = manifest_of(tmp_path)
    assert list(manifest["encryption"]) == ["dataKey", "aad"]
    data_key, aad = manifest["encryption"]["dataKey"], base64.b64decode(manifest["encryption"]["aad"])
    assert len(aad) == 32
    cipher = ring.cipher(SegmentEncryption(data_key, aad))
    index = parse_chunk_index(manifest["chunkIndex"])
    stored = path_of(tmp_path, ".log").read_bytes()
    assert index.stored_bytes == len(stored)
    if not settings.is_compressed:
        assert index == FixedChunkIndex(CHUNK, len(CONTENT), CHUNK + 28, 24 + 28)
    for chunk in chunks_of(index, 0, len(CONTENT)):
        content = cipher.decrypt(stored[chunk.stored_position : chunk.stored_position + chunk.stored_bytes])
        if settings.is_compressed:
            assert isinstance(index, VariableChunkIndex)
            content = decompress(Compression.zstd, content)
        assert content == CONTENT[chunk.original_position : chunk.original_position + chunk.original_bytes]
    indexes = path_of(tmp_path, ".indexes").read_bytes()
    place = manifest["segmentIndexes"]["leaderEpoch"]
    assert place["size"] == len(b"LEADER_EPOCHS") + OVERHEAD_BYTES
    assert cipher.decrypt(indexes[place["position"] :][: place["size"]]) == b"LEADER_EPOCHS"
    for suffix in (".log", ".indexes", ".rsm-manifest"):
        found = path_of(tmp_path, suffix).read_bytes()
        assert b"LEADER_EPOCHS" not in found and CONTENT[:32] not in found


@BOTH
def test_sizes_can_be_checked_without_a_key(
    tmp_path: Path, store: NotingStore, ring: KeyRing, settings: ChunkSettings
) -> None:
    """``tier check`` compares them with the listing."""
    storage_with(store, ring, settings).copy(SEGMENT, data(tmp_path))
    layout = AivenLayout("p/")
    sizes = parse_manifest(store.get(layout.manifest_key(SEGMENT), 3000)).sizes
    listed = {each.key: each.size_bytes for each in store.list("p/")}
    assert {each.key: each.size_bytes or listed[each.key] for each in layout.objects(SEGMENT, sizes)} == listed


@BOTH
def test_an_empty_segment_and_empty_indexes_are_copied(
    tmp_path: Path, store: NotingStore, ring: KeyRing, settings: ChunkSettings
) -> None:
    """The plugin does not encrypt an empty index."""
    empty = replace(SEGMENT, size_bytes=0)
    storage_with(store, ring, settings).copy(empty, data(tmp_path, b"", {**PARTS, SegmentPart.TIME_INDEX: b""}))
    assert manifest_of(tmp_path)["segmentIndexes"]["timestamp"]["size"] == 0
    storage = storage_with(store, ring)
    assert storage.read(empty, 0, 10) == b""
    assert storage.read_part(empty, SegmentPart.TIME_INDEX, 100) == b""


def test_segments_of_an_older_pair_and_plain_ones_are_read(tmp_path: Path, store: NotingStore, ring: KeyRing) -> None:
    pairs = {"k1": write_pair(tmp_path, "k1"), "k2": write_pair(tmp_path, "k2", *other_pair())}
    rotated = read_key_ring(pairs, "k2")
    for keys in (ring, None, rotated):
        storage_with(store, keys).copy(SEGMENT, data(tmp_path))
        assert storage_with(store, rotated).read(SEGMENT, 0, 2000) == CONTENT
    assert manifest_of(tmp_path)["encryption"]["dataKey"].startswith("k2:")


def test_a_segment_without_its_key_is_one_clear_error(tmp_path: Path, store: NotingStore, ring: KeyRing) -> None:
    storage_with(store, ring).copy(SEGMENT, data(tmp_path))
    other = read_key_ring({"k2": write_pair(tmp_path, "k2", *other_pair())}, "k2")
    for keys, problem in ((None, "has no encryption.key.pairs"), (other, "the key pair 'k1', which is not among")):
        storage = storage_with(store, keys)
        with pytest.raises(ObjectStoreError, match=rf"rsm-manifest: .*{problem}"):
            storage.read(SEGMENT, 0, 1)
        with pytest.raises(ObjectStoreError, match=rf"rsm-manifest: .*{problem}"):
            storage.read_part(SEGMENT, SegmentPart.TIME_INDEX, 100)
    assert not store.ranges


@BOTH
@pytest.mark.parametrize("at", [0, 11, 12, 50, -1])
def test_a_changed_byte_is_never_wrong_content(
    tmp_path: Path, store: NotingStore, ring: KeyRing, settings: ChunkSettings, at: int
) -> None:
    """Neither in a chunk nor in an index."""
    storage_with(store, ring, settings).copy(SEGMENT, data(tmp_path))
    for suffix in (".log", ".indexes"):
        path = path_of(tmp_path, suffix)
        damaged = bytearray(path.read_bytes())
        damaged[at] ^= 1
        path.write_bytes(damaged)
    storage = storage_with(store, ring)
    with pytest.raises(ObjectStoreError, match=r"\.log at \d+: the tag of encrypted data is wrong"):
        storage.read(SEGMENT, 0, len(CONTENT))
    part = SegmentPart.TRANSACTION_INDEX if at < 0 else SegmentPart.TIME_INDEX if at == 50 else SegmentPart.OFFSET_INDEX
    with pytest.raises(ObjectStoreError, match=r"index in .*\.indexes: the tag of encrypted data is wrong"):
        storage.read_part(SEGMENT, part, 100)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (changed(encryption={"dataKey": "k1:AAAA", "aad": "AAAA"}), "its data key cannot be decrypted"),
        (lambda before: before.replace(b'ChunkSize":52', b'ChunkSize":24'), "1024 bytes are stored as 1304"),
        (
            changed(chunkIndex=FixedChunkIndex(512, 1024, 700, 1024 + 56 - 700).document()),
            "a chunk of 700 bytes, more than 512 bytes can become",
        ),
    ],
)
def test_a_wrong_manifest_of_an_encrypted_segment_is_one_clear_error(
    tmp_path: Path, store: NotingStore, ring: KeyRing, damage: Callable[[bytes], bytes], problem: str
) -> None:
    storage_with(store, ring).copy(SEGMENT, data(tmp_path))
    path = path_of(tmp_path, ".rsm-manifest")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ObjectStoreError, match=rf"\.rsm-manifest: .*{problem}"):
        storage_with(store, ring).read(SEGMENT, 0, 1)
    assert not store.ranges


def test_encrypted_chunks_that_are_too_large_for_memory_are_refused(
    tmp_path: Path, store: NotingStore, ring: KeyRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aiven_segment_storage, "_MOST_CHUNK_BYTES", 99)
    storage_with(store, ring).copy(SEGMENT, data(tmp_path))
    with pytest.raises(ObjectStoreError, match="chunks of 100 bytes, but this broker reads at most 99"):
        storage_with(store, ring).read(SEGMENT, 0, 1)


def test_many_tiny_chunks_are_refused(tmp_path: Path, store: NotingStore, ring: KeyRing) -> None:
    """A manifest of a few hundred bytes would make a broker keep and decrypt one chunk for each byte of a fetch."""
    size = 1 << 20
    large = replace(SEGMENT, size_bytes=size)
    storage_with(store, ring, ChunkSettings(size)).copy(large, data(tmp_path, bytes(size)))
    path = path_of(tmp_path, ".rsm-manifest")
    index = FixedChunkIndex(1, size, 1 + OVERHEAD_BYTES, 1 + OVERHEAD_BYTES)
    path.write_bytes(changed(chunkIndex=index.document())(path.read_bytes()))
    with pytest.raises(ObjectStoreError, match=r"\.rsm-manifest: 1048576 chunks of 1 bytes, too small for that number"):
        storage_with(store, ring).read(large, 0, size)
    assert not store.ranges


def test_the_limit_of_a_part_is_that_of_its_content(tmp_path: Path, store: NotingStore, ring: KeyRing) -> None:
    storage_with(store, ring).copy(SEGMENT, data(tmp_path))
    storage, size = storage_with(store, ring), len(PARTS[SegmentPart.TIME_INDEX])
    assert storage.read_part(SEGMENT, SegmentPart.TIME_INDEX, size) == b"TIME_INDEX"
    with pytest.raises(ObjectTooLarge):
        storage.read_part(SEGMENT, SegmentPart.TIME_INDEX, size - 1)


def test_a_data_key_is_decrypted_once(
    tmp_path: Path, store: NotingStore, ring: KeyRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes milliseconds; the manifest stays in memory with its key."""
    storage_with(store, ring).copy(SEGMENT, data(tmp_path))
    asked: list[SegmentEncryption] = []
    cipher = KeyRing.cipher

    def counted(self: KeyRing, encryption: SegmentEncryption) -> SegmentCipher:
        asked.append(encryption)
        return cipher(self, encryption)

    monkeypatch.setattr(KeyRing, "cipher", counted)
    storage = storage_with(store, ring)
    for position in (0, 500, 900):
        storage.read(SEGMENT, position, 10)
    assert len(asked) == 1
