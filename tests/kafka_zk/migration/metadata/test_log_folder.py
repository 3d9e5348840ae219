"""A node's folder: what a torn end loses, and where damage is reported."""

import shutil
from pathlib import Path

import pytest

from kafka_zk.migration.facts import MigrationState
from kafka_zk.migration.metadata.log_folder import METADATA_LOG, read_folder
from kafka_zk.migration.metadata.replay import UnreadableMetadata
from kafka_zk.storage.records.record_batch import iter_batches
from tests.kafka_zk.migration.metadata.both_sides import LAST_OFFSET, RECORDED, SNAPSHOT_END

SEGMENT = "00000000000000000000.log"
CHECKPOINT = "00000000000000000058-0000000001.checkpoint"
WHOLE = read_folder(RECORDED)
LOG = (RECORDED / METADATA_LOG / SEGMENT).read_bytes()
BATCHES = [(position, header) for position, header in iter_batches(LOG)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(RECORDED / METADATA_LOG, tmp_path / METADATA_LOG)


def test_the_whole_log(folder: Path) -> None:
    assert (WHOLE.state, WHOLE.end_offset) == (MigrationState.MIGRATION, LAST_OFFSET + 1)
    assert read_folder(folder).image == WHOLE.image, "its own folder will do"


def test_the_log_alone_says_the_same_as_the_snapshot_with_the_rest(folder: Path) -> None:
    (folder / CHECKPOINT).unlink()
    assert read_folder(folder).image == WHOLE.image


def test_a_torn_end_loses_only_the_last_batch(folder: Path) -> None:
    last, header = BATCHES[-1]
    for size_bytes in (last + 1, last + 30, last + 61, len(LOG) - 1):
        (folder / SEGMENT).write_bytes(LOG[:size_bytes])
        assert read_folder(folder).end_offset == header.base_offset
    (folder / SEGMENT).write_bytes(LOG[:last] + bytes(len(LOG) - last))
    assert read_folder(folder).end_offset == header.base_offset, "a tail of zeros"


def test_damage_in_the_middle_is_reported_with_its_place(folder: Path) -> None:
    position, header = BATCHES[-3]
    for damaged in (position + 8, position + 16, position + 20, position + 70):
        data = bytearray(LOG)
        data[damaged] ^= 0x55
        (folder / SEGMENT).write_bytes(data)
        with pytest.raises(UnreadableMetadata, match=f"{SEGMENT}: damaged at position {position}, after offset "
                           f"{header.base_offset - 1}"):  # fmt: skip
            read_folder(folder)


@pytest.mark.parametrize("lost_bytes", [1, 100])
def test_an_incomplete_snapshot(folder: Path, lost_bytes: int) -> None:
    data = (folder / CHECKPOINT).read_bytes()
    (folder / CHECKPOINT).write_bytes(data[:-lost_bytes])
    with pytest.raises(UnreadableMetadata, match=CHECKPOINT):
        read_folder(folder)


def test_a_snapshot_without_its_last_batch(folder: Path) -> None:
    data = (folder / CHECKPOINT).read_bytes()
    (folder / CHECKPOINT).write_bytes(data[: [position for position, _ in iter_batches(data)][-1]])
    with pytest.raises(UnreadableMetadata, match="the snapshot is incomplete"):
        read_folder(folder)


def test_records_between_the_snapshot_and_the_log_are_missing(folder: Path) -> None:
    start = next(position for position, header in BATCHES if header.base_offset > SNAPSHOT_END)
    (folder / SEGMENT).unlink()
    (folder / f"{BATCHES[-1][1].base_offset:020}.log").write_bytes(LOG[start:])
    with pytest.raises(UnreadableMetadata, match=f"the records from offset {SNAPSHOT_END} to"):
        read_folder(folder)


def test_a_folder_without_a_log(tmp_path: Path) -> None:
    with pytest.raises(UnreadableMetadata, match="it contains no metadata log"):
        read_folder(tmp_path)
    with pytest.raises(UnreadableMetadata, match="No such file or directory"):
        read_folder(tmp_path / "nowhere")
