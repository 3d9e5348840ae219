"""Segments in the folders of LocalTieredStorage."""

from dataclasses import replace
from pathlib import Path

import pytest

from kafka_zk.storage.files import files
from kafka_zk.storage.files.files import FileSystem
from kafka_zk.storage.tiered.object_store import NoSuchObject, ObjectStoreError, ObjectTooLarge
from kafka_zk.storage.tiered.segment_storage import LocalSegmentStorage, SegmentData, SegmentPart, trimmed_time_index
from kafka_zk.storage.tiered.uuid_text import id_text
from tests.storage.faults import NO_SPACE, FaultyFiles
from tests.storage.tiered.segments import T, segment

PARTS = {part: part.name.encode() for part in SegmentPart}
SEGMENT = replace(segment(1, 42, 51), size_bytes=5)


def data(tmp_path: Path, content: bytes = b"12345") -> SegmentData:
    path = tmp_path / "local.log"
    path.write_bytes(content)
    return SegmentData(str(path), PARTS)


def test_a_copied_segment_is_read_back(tmp_path: Path) -> None:
    """The files have the names that Kafka's plugin gives them. The range to read may end after the log."""
    storage = LocalSegmentStorage(str(tmp_path))
    storage.copy(SEGMENT, data(tmp_path, b"12345, and what was not there when the copy began"))
    stem = f"{42:020d}-{id_text(SEGMENT.segment_id.id)}"
    folder = tmp_path / "kafka-tiered-storage" / f"t-0-{id_text(T.topic_id)}"
    suffixes = ["index", "leader_epoch_checkpoint", "log", "snapshot", "timeindex", "txnindex"]
    assert sorted(each.name for each in folder.iterdir()) == [f"{stem}.{suffix}" for suffix in suffixes]
    assert storage.read(SEGMENT, 1, 3) == b"234"
    assert storage.read(SEGMENT, 3, 100) == b"45"
    assert {part: storage.read_part(SEGMENT, part, 100) for part in SegmentPart} == PARTS


def test_a_part_above_the_limit_is_not_read(tmp_path: Path) -> None:
    storage = LocalSegmentStorage(str(tmp_path))
    storage.copy(SEGMENT, data(tmp_path))
    with pytest.raises(ObjectTooLarge):
        storage.read_part(SEGMENT, SegmentPart.PRODUCER_SNAPSHOT, 3)


def test_a_deleted_segment_is_missing_and_can_be_deleted_again(tmp_path: Path) -> None:
    storage = LocalSegmentStorage(str(tmp_path))
    storage.copy(SEGMENT, data(tmp_path))
    for _ in range(2):
        storage.delete(SEGMENT)
        with pytest.raises(NoSuchObject):
            storage.read(SEGMENT, 0, 1)
        with pytest.raises(NoSuchObject):
            storage.read_part(SEGMENT, SegmentPart.TIME_INDEX, 100)


def test_a_part_that_is_deleted_while_it_is_read_is_missing(tmp_path: Path) -> None:
    """The read reports the part as missing, not as empty."""

    class Deleting(FileSystem):
        def open(self, path: str, flags: int) -> int:
            raise FileNotFoundError(2, "No such file", path)

    storage = LocalSegmentStorage(str(tmp_path))
    storage.copy(SEGMENT, data(tmp_path))
    with files.use(Deleting()), pytest.raises(NoSuchObject):
        storage.read_part(SEGMENT, SegmentPart.TRANSACTION_INDEX, 100)


def test_a_source_that_is_too_short_is_not_copied(tmp_path: Path) -> None:
    """The local segment was deleted or cut while the copy ran."""
    with pytest.raises(ObjectStoreError, match="ends at 2 of 5 bytes"):
        LocalSegmentStorage(str(tmp_path)).copy(SEGMENT, data(tmp_path, b"12"))


def test_a_full_disk_is_an_error_of_the_store(tmp_path: Path) -> None:
    """The error says nothing about the log directory."""
    source = data(tmp_path)
    system = FaultyFiles()
    system.fail("open", tmp_path / "kafka-tiered-storage", NO_SPACE)
    with files.use(system), pytest.raises(ObjectStoreError, match="segment 42 of t-0"):
        LocalSegmentStorage(str(tmp_path)).copy(SEGMENT, source)


def test_zeros_at_the_end_of_an_index_are_not_copied() -> None:
    entry = bytes(range(12))
    assert trimmed_time_index(entry + bytes(24)) == entry
