"""Segments in the layout of Aiven's plugin."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_zk.storage.files import files
from kafka_zk.storage.records.compression import Compression, decompress, zstd_library
from kafka_zk.storage.tiered import aiven_segment_storage
from kafka_zk.storage.tiered.aiven_layout import AivenLayout
from kafka_zk.storage.tiered.aiven_segment_storage import AivenSegmentStorage, ChunkSettings
from kafka_zk.storage.tiered.chunk_index import (
    ChunkIndex,
    FixedChunkIndex,
    VariableChunkIndex,
    chunks_of,
    parse_chunk_index,
)
from kafka_zk.storage.tiered.layout import KeyOwner
from kafka_zk.storage.tiered.object_store import FolderStore, NoSuchObject, ObjectStoreError, ObjectTooLarge
from kafka_zk.storage.tiered.segment_manifest import parse_manifest
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata
from kafka_zk.storage.tiered.segment_storage import SegmentData, SegmentPart
from kafka_zk.storage.tiered.uuid_text import id_text
from tests.storage.faults import NO_SPACE, FaultyFiles
from tests.storage.helpers import batch
from tests.storage.tiered.segments import T, segment

CONTENT = bytes(range(256)) * 4
CHUNK = 100
SEGMENT = replace(segment(1, 42, 51, (3, 40), (5, 45)), size_bytes=len(CONTENT))
PARTS = {part: part.name.encode() for part in SegmentPart}
STEM = f"p/t-{id_text(T.topic_id)}/0/{42:020d}-{id_text(SEGMENT.segment_id.id)}"


class NotingStore(FolderStore):
    """Notes what is read and written."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.ranges: list[tuple[str, int, int]] = []
        self.changes: list[str] = []

    def get_range(self, key: str, position: int, size_bytes: int) -> bytes:
        self.ranges.append((key.rpartition(".")[2], position, size_bytes))
        return super().get_range(key, position, size_bytes)

    def put(self, key: str, parts: Iterable[bytes]) -> None:
        self.changes.append(f"put {key.removeprefix(STEM)}")
        super().put(key, parts)

    def delete(self, key: str) -> None:
        self.changes.append(f"delete {key.removeprefix(STEM)}")
        super().delete(key)


@pytest.fixture
def store(tmp_path: Path) -> NotingStore:
    return NotingStore(str(tmp_path / "tier"))


PLAIN, ZSTD = ChunkSettings(CHUNK), ChunkSettings(CHUNK, is_compressed=True)


def storage_on(store: FolderStore, settings: ChunkSettings = PLAIN) -> AivenSegmentStorage:
    """The storage of a broker that has just started: nothing is cached in memory."""
    return AivenSegmentStorage(store, AivenLayout("p/"), settings, 2)


def data(tmp_path: Path, content: bytes = CONTENT, parts: Mapping[SegmentPart, bytes] = PARTS) -> SegmentData:
    path = tmp_path / "local.log"
    path.write_bytes(content)
    return SegmentData(str(path), parts)


def path_of(tmp_path: Path, suffix: str) -> Path:
    return tmp_path / "tier" / f"{STEM}{suffix}"


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("chunk_bytes", [1, 7, 100, 1023, 1024, 1025])
def test_a_copied_segment_is_read_back(
    tmp_path: Path, store: NotingStore, chunk_bytes: int, is_compressed: bool
) -> None:
    """A chunk may be as long as the segment, or longer. Bytes appended to the log during the copy are not copied."""
    storage_on(store, ChunkSettings(chunk_bytes, is_compressed)).copy(SEGMENT, data(tmp_path, CONTENT + b"more"))
    storage = storage_on(store)
    for position in (0, 1, 99, 100, 101, 1023):
        for size in (1, 2, 100, 101, 300, 5000):
            assert storage.read(SEGMENT, position, size) == CONTENT[position : position + size]
    assert storage.read(SEGMENT, 1024, 1) == b""
    assert {part: storage.read_part(SEGMENT, part, 100) for part in SegmentPart} == PARTS


def test_objects_are_those_of_the_plugin(tmp_path: Path, store: NotingStore) -> None:
    """The objects are written in the plugin's order; the manifest, written last, completes the segment."""
    storage_on(store).copy(SEGMENT, data(tmp_path))
    assert store.changes == ["put .log", "put .indexes", "put .rsm-manifest"]
    assert path_of(tmp_path, ".log").read_bytes() == CONTENT
    names = ("OFFSET_INDEX", "TIME_INDEX", "PRODUCER_SNAPSHOT", "LEADER_EPOCHS", "TRANSACTION_INDEX")
    assert path_of(tmp_path, ".indexes").read_bytes() == "".join(names).encode()
    manifest = json.loads(path_of(tmp_path, ".rsm-manifest").read_bytes())
    assert manifest["chunkIndex"] == {
        "type": "fixed", "originalChunkSize": 100, "originalFileSize": 1024, "transformedChunkSize": 100,
        "finalTransformedChunkSize": 24,
    }  # fmt: skip
    assert manifest["segmentIndexes"]["leaderEpoch"] == {"position": 39, "size": 13}
    assert manifest["compression"] is False and "encryption" not in manifest
    assert manifest["remoteLogSegmentMetadata"]["brokerId"] == 2
    assert manifest["remoteLogSegmentMetadata"]["segmentLeaderEpochs"] == {"3": 40, "5": 45}


@pytest.mark.parametrize("settings", [PLAIN, ZSTD])
def test_the_check_of_a_bucket_finds_nothing_wrong(tmp_path: Path, store: NotingStore, settings: ChunkSettings) -> None:
    """The manifest's sizes and the store's listing agree for every object."""
    storage_on(store, settings).copy(SEGMENT, data(tmp_path))
    layout = AivenLayout("p/")
    sizes = parse_manifest(store.get(layout.manifest_key(SEGMENT), 2000)).sizes
    listed = {each.key: each.size_bytes for each in store.list("p/")}
    assert sizes.original_bytes == SEGMENT.size_bytes
    assert {each.key: each.size_bytes or listed[each.key] for each in layout.objects(SEGMENT, sizes)} == listed
    owner = KeyOwner("t", T.topic_id, 0, SEGMENT.segment_id.id, SEGMENT.start_offset)
    assert {layout.owner(key) for key in listed} == {owner}


def test_only_the_asked_range_is_read(tmp_path: Path, store: NotingStore) -> None:
    storage_on(store).copy(SEGMENT, data(tmp_path))
    storage = storage_on(store)
    storage.read(SEGMENT, 150, 200)
    storage.read(SEGMENT, 1000, 200)
    storage.read_part(SEGMENT, SegmentPart.TIME_INDEX, 100)
    assert store.ranges == [("log", 150, 200), ("log", 1000, 24), ("indexes", 12, 10)]


def test_chunks_are_compressed_as_by_the_plugin(tmp_path: Path, store: NotingStore) -> None:
    """Each chunk is a zstd frame whose header states the size of the content. The indexes are not compressed."""
    storage_on(store, ZSTD).copy(SEGMENT, data(tmp_path))
    manifest = json.loads(path_of(tmp_path, ".rsm-manifest").read_bytes())
    assert manifest["compression"] is True
    index = parse_chunk_index(manifest["chunkIndex"])
    assert isinstance(index, VariableChunkIndex)
    stored = path_of(tmp_path, ".log").read_bytes()
    assert index.stored_bytes == len(stored) != len(CONTENT)
    for chunk in chunks_of(index, 0, len(CONTENT)):
        frame = stored[chunk.stored_position : chunk.stored_position + chunk.stored_bytes]
        assert zstd_library().get_frame_info(frame).decompressed_size == chunk.original_bytes
        content = CONTENT[chunk.original_position : chunk.original_position + chunk.original_bytes]
        assert decompress(Compression.zstd, frame) == content
    assert path_of(tmp_path, ".indexes").read_bytes().startswith(b"OFFSET_INDEX")


def test_only_the_chunks_of_a_range_are_read_and_only_once(tmp_path: Path, store: NotingStore) -> None:
    """A consumer reads less than a chunk at a time. Adjacent chunks are fetched with one request."""
    storage_on(store, ZSTD).copy(SEGMENT, data(tmp_path))
    storage = storage_on(store)
    index = parse_chunk_index(json.loads(path_of(tmp_path, ".rsm-manifest").read_bytes())["chunkIndex"])
    starts = [chunk.stored_position for chunk in chunks_of(index, 0, len(CONTENT))]
    reads = ((150, 100, 1, 3), (199, 2, 0, 0), (250, 200, 3, 5), (90, 20, 0, 1), (0, 9, 0, 0))
    for position, size, first, end in reads:
        store.ranges.clear()
        assert storage.read(SEGMENT, position, size) == CONTENT[position : position + size]
        assert store.ranges == ([("log", starts[first], starts[end] - starts[first])] if end else [])


@pytest.mark.parametrize(("codec", "is_compressed"), [("none", True), ("lz4", False)])
def test_segments_of_compressed_batches_are_not_compressed_again(
    tmp_path: Path, store: NotingStore, codec: str, is_compressed: bool
) -> None:
    """The configuration can ask for this."""
    content = bytes(batch(value=b"x" * 100, compression=codec))
    small = replace(SEGMENT, size_bytes=len(content))
    storage_on(store, ZSTD._replace(skips_batches=True)).copy(small, data(tmp_path, content))
    assert json.loads(path_of(tmp_path, ".rsm-manifest").read_bytes())["compression"] is is_compressed
    assert storage_on(store).read(small, 0, len(content)) == content


@pytest.mark.parametrize(
    ("suffix", "damage", "problem"),
    [
        (".log", lambda before: bytes(20) + before[20:], r"\.log at 0: "),
        (".log", lambda before: before[:-1], r"\.log ends at "),
        (".rsm-manifest", lambda before: before.replace(b'Size":100', b'Size":101'), "a chunk has 100 bytes"),
    ],
)
def test_a_damaged_chunk_is_one_clear_error(
    tmp_path: Path, store: NotingStore, suffix: str, damage: Callable[[bytes], bytes], problem: str
) -> None:
    storage_on(store, ZSTD).copy(SEGMENT, data(tmp_path))
    path = path_of(tmp_path, suffix)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ObjectStoreError, match=problem):
        storage_on(store).read(SEGMENT, 0, len(CONTENT))


def test_a_chunk_that_is_too_large_for_memory_is_refused(
    tmp_path: Path, store: NotingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another broker's chunk.size may be up to 1 GiB. Without compression, the chunk size does not matter."""
    monkeypatch.setattr(aiven_segment_storage, "_MOST_CHUNK_BYTES", 99)
    storage_on(store, ZSTD).copy(SEGMENT, data(tmp_path))
    with pytest.raises(ObjectStoreError, match="chunks of 100 bytes, but this broker reads at most 99"):
        storage_on(store).read(SEGMENT, 0, 1)
    storage_on(store).copy(SEGMENT, data(tmp_path))
    assert storage_on(store).read(SEGMENT, 0, 1) == CONTENT[:1]


@pytest.mark.parametrize("kind", ["fixed", "variable"])
def test_a_chunk_that_is_stored_in_more_bytes_than_zstd_needs_is_not_read(
    tmp_path: Path, store: NotingStore, kind: str
) -> None:
    """With a damaged manifest, a broker could otherwise read 2 GiB into memory."""
    storage_on(store, ZSTD).copy(SEGMENT, data(tmp_path))
    path = path_of(tmp_path, ".rsm-manifest")
    index: ChunkIndex = FixedChunkIndex(CHUNK, len(CONTENT), 1000, 10)
    if kind == "variable":
        index = VariableChunkIndex.of_sizes(CHUNK, len(CONTENT), [10, 1000] + [10] * 9)
    path.write_bytes(changed(chunkIndex=index.document())(path.read_bytes()))
    with pytest.raises(ObjectStoreError, match=r"rsm-manifest: .*a chunk of 1000 bytes"):
        storage_on(store).read(SEGMENT, 150, 1)
    assert not store.ranges


@pytest.mark.parametrize("settings", [PLAIN, ZSTD])
def test_an_empty_segment_is_copied(tmp_path: Path, store: NotingStore, settings: ChunkSettings) -> None:
    """The cleaner may leave an empty segment in a topic that was compacted before."""
    empty = replace(SEGMENT, size_bytes=0)
    storage_on(store, settings).copy(empty, data(tmp_path, b""))
    assert storage_on(store).read(empty, 0, 10) == b""


def test_manifests_count_with_the_memory_of_their_sizes(
    tmp_path: Path, store: NotingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The equal sizes of a million chunks compress to a few bytes."""
    monkeypatch.setattr(aiven_segment_storage, "_MANIFEST_CACHE_BYTES", 9000)
    storage = storage_on(store, ChunkSettings(1, is_compressed=True))
    both = [replace(segment(number, 42, 51, (3, 40)), size_bytes=1024) for number in (1, 2)]
    for each in both:
        storage.copy(each, data(tmp_path, bytes(1024)))
    reading = storage_on(store)
    for each in both:
        reading.read(each, 0, 1)
    for each, is_kept in zip(both, (False, True), strict=True):
        path = tmp_path / "tier" / AivenLayout("p/").manifest_key(each)
        assert path.stat().st_size < 1500
        path.unlink()
        assert can_read(reading, each) is is_kept


def can_read(storage: AivenSegmentStorage, segment: RemoteLogSegmentMetadata) -> bool:
    try:
        return bool(storage.read(segment, 0, 1))
    except ObjectStoreError:
        return False


def test_a_segment_without_aborted_transactions_has_no_such_index(tmp_path: Path, store: NotingStore) -> None:
    parts = {**PARTS, SegmentPart.TIME_INDEX: b""}
    del parts[SegmentPart.TRANSACTION_INDEX]
    storage_on(store).copy(SEGMENT, data(tmp_path, parts=parts))
    assert json.loads(path_of(tmp_path, ".rsm-manifest").read_bytes())["segmentIndexes"]["transaction"] is None
    storage = storage_on(store)
    with pytest.raises(NoSuchObject):
        storage.read_part(SEGMENT, SegmentPart.TRANSACTION_INDEX, 100)
    assert storage.read_part(SEGMENT, SegmentPart.TIME_INDEX, 100) == b""


def test_a_part_above_the_limit_is_not_read(tmp_path: Path, store: NotingStore) -> None:
    storage_on(store).copy(SEGMENT, data(tmp_path))
    with pytest.raises(ObjectTooLarge, match="offset index"):
        storage_on(store).read_part(SEGMENT, SegmentPart.OFFSET_INDEX, 3)


def test_a_deleted_segment_is_missing_and_can_be_deleted_again(tmp_path: Path, store: NotingStore) -> None:
    """The manifest is deleted first, so that objects that remain after a failure do not form a segment."""
    storage = storage_on(store)
    storage.copy(SEGMENT, data(tmp_path))
    store.changes.clear()
    for _ in range(2):
        storage.delete(SEGMENT)
    assert store.changes == 2 * ["delete .rsm-manifest", "delete .indexes", "delete .log"]
    assert not [each for each in (tmp_path / "tier").rglob("*") if each.is_file()]
    with pytest.raises(ObjectStoreError, match=r"rsm-manifest does not exist"):
        storage.read(SEGMENT, 0, 1)


@pytest.mark.parametrize("suffix", [".log", ".indexes", ".rsm-manifest"])
def test_a_missing_object_is_one_clear_error(tmp_path: Path, store: NotingStore, suffix: str) -> None:
    """A missing object is never taken to mean a segment without aborted transactions, and nothing is deleted."""
    storage_on(store).copy(SEGMENT, data(tmp_path))
    path_of(tmp_path, suffix).unlink()
    store.changes.clear()
    storage = storage_on(store)
    with pytest.raises(ObjectStoreError, match=rf"\{suffix} does not exist") as raised:
        if suffix == ".log":
            storage.read(SEGMENT, 0, 1)
        else:
            storage.read_part(SEGMENT, SegmentPart.TRANSACTION_INDEX, 100)
    assert suffix == ".log" or not isinstance(raised.value, NoSuchObject)
    assert not store.changes


def changed(**fields: object) -> Callable[[bytes], bytes]:
    return lambda before: json.dumps(json.loads(before) | fields).encode()


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda before: before[:-1], "not a manifest"),
        (lambda before: b"", "not a manifest"),
        (lambda before: before.replace(b'"id":"', b'"id":"x'), "it is of segment x"),
        (lambda before: before.replace(b'"originalFileSize":1024', b'"originalFileSize":1023'), "has 1023 bytes"),
        (lambda before: before.replace(b'ChunkSize":24', b'ChunkSize":25'), "1024 bytes are stored as 1025"),
        (changed(encryption={"dataKey": "k:AAAA", "aad": "AAAA"}), "1024 bytes are stored as 1024"),
        (changed(chunkIndex=None), "not a manifest"),
    ],
)
def test_a_wrong_manifest_is_one_clear_error(
    tmp_path: Path, store: NotingStore, damage: Callable[[bytes], bytes], problem: str
) -> None:
    storage_on(store).copy(SEGMENT, data(tmp_path))
    path = path_of(tmp_path, ".rsm-manifest")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ObjectStoreError, match=rf"\.rsm-manifest: .*{problem}"):
        storage_on(store).read(SEGMENT, 0, 1)


@pytest.mark.parametrize("suffix", [".log", ".indexes"])
def test_a_torn_object_is_one_clear_error(tmp_path: Path, store: NotingStore, suffix: str) -> None:
    storage_on(store).copy(SEGMENT, data(tmp_path))
    path = path_of(tmp_path, suffix)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(ObjectStoreError, match=rf"\{suffix} ends at 20 "):
        if suffix == ".log":
            storage_on(store).read(SEGMENT, 10, 20)
        else:
            storage_on(store).read_part(SEGMENT, SegmentPart.TIME_INDEX, 100)


def test_a_source_that_is_too_short_is_not_completed(tmp_path: Path, store: NotingStore) -> None:
    """The local segment was deleted or cut while the copy ran."""
    with pytest.raises(ObjectStoreError, match="ends at 2 of 1024 bytes"):
        storage_on(store).copy(SEGMENT, data(tmp_path, b"12"))
    assert not path_of(tmp_path, ".rsm-manifest").exists()


def test_a_full_disk_is_an_error_of_the_store(tmp_path: Path, store: NotingStore) -> None:
    source = data(tmp_path)
    system = FaultyFiles()
    system.fail("open", tmp_path / "tier", NO_SPACE)
    with files.use(system), pytest.raises(ObjectStoreError, match=r"\.log: No space left"):
        storage_on(store).copy(SEGMENT, source)
    assert store.changes == ["put .log"]


def test_custom_metadata_name_the_objects(tmp_path: Path, store: NotingStore) -> None:
    """A segment written under an earlier prefix is read and deleted; a key outside the folder is neither."""
    old: RemoteLogSegmentMetadata = replace(SEGMENT, custom_metadata=b"\x01\x01\x05\x05old/")
    AivenSegmentStorage(store, AivenLayout("old/"), PLAIN, 2).copy(SEGMENT, data(tmp_path))
    storage = storage_on(store)
    assert storage.read(old, 0, 5) == CONTENT[:5]
    storage.delete(old)
    assert not [each for each in (tmp_path / "tier").rglob("*") if each.is_file()]
    with pytest.raises(ObjectStoreError, match="not a path below"):
        storage.delete(replace(SEGMENT, custom_metadata=b"\x01\x02\x05\x05../x"))
