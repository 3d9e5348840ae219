"""The small text files of a partition's directory, and file and directory names."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files import filenames
from kafka_zk.storage.files.checkpoints import format_checkpoint, parse_checkpoint, read_offsets, write_offsets
from kafka_zk.storage.files.errors import CorruptCheckpoint
from kafka_zk.storage.log.partition_metadata import read_topic_id, write_topic_id

TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True)


@given(TOPICS, st.integers(0, 10**6))
def test_partition_directories_are_found_again_and_deleted_ones_are_not(topic: str, partition: int) -> None:
    """Topic names may contain dashes and dots. Directory names have at most 255 bytes."""
    tp = TopicPartition(topic, partition)
    assert filenames.parse_partition_dir(filenames.partition_dir(tp)) == tp
    deleted = filenames.deleted_dir(tp)
    assert len(deleted) <= 255
    assert filenames.is_deleted_dir(deleted) and filenames.parse_partition_dir(deleted) is None


@given(st.integers(0, 2**63 - 1), st.sampled_from([".log", ".index", ".timeindex", ".snapshot"]))
def test_offset_files_are_found_again(offset: int, suffix: str) -> None:
    """The names have twenty digits."""
    name = filenames.offset_file(offset, suffix)
    assert len(name) == 20 + len(suffix)
    assert filenames.parse_offset_file(name) == (offset, suffix)


def test_other_names_are_nobodys() -> None:
    """Other names are neither partitions nor segments."""
    too_high = "9" * 20 + ".log"
    for name in ("meta.properties", "topic", "-1", "a-0.deadbeef-stray", "a-x", "a-00", "a-2147483648", too_high):
        assert filenames.parse_partition_dir(name) is None
        assert filenames.parse_offset_file(name) is None


@given(st.dictionaries(st.builds(TopicPartition, TOPICS, st.integers(0, 99)), st.integers(0, 2**63 - 1), max_size=8))
def test_checkpoints_round_trip(offsets: dict[TopicPartition, int]) -> None:
    """Rows have fields separated by spaces."""
    data = format_checkpoint((tp.topic, tp.partition, offset) for tp, offset in offsets.items())
    rows = parse_checkpoint(data, 3, "x")
    assert {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in rows} == offsets


@pytest.mark.parametrize(
    "content",
    [
        "", "0\n", "1\n0\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na b c\n", "0\nx\n", "0\n²\na 0 1\na 1 1\n",
        "0\n1\na 0 1", "0\n1\na 0 -1\n", "0\n1\na 0 9223372036854775807\n", "0\n1\na -1 0\n", "0\n1\na 0 1_0\n",
        "0\n1\na 0 ٣\n", "0\n2\na 0 1\na 0 2\n", "0\n1\na/b 0 1\n", "0\n1\na 2147483648 1\n",
    ],
)  # fmt: skip
def test_damaged_checkpoints_are_named(tmp_path: Path, content: str) -> None:
    """The error contains the path."""
    path = tmp_path / "recovery-point-offset-checkpoint"
    path.write_text(content)
    with pytest.raises(CorruptCheckpoint, match="recovery-point"):
        read_offsets(str(path))


def test_a_missing_checkpoint_is_empty_and_a_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    """The file is replaced atomically."""
    path = tmp_path / "c"
    assert read_offsets(str(path)) == {}
    for offset in (1, 2):
        write_offsets(str(path), {TopicPartition("a", 0): offset})
    assert read_offsets(str(path)) == {TopicPartition("a", 0): 2}
    assert [entry.name for entry in tmp_path.iterdir()] == ["c"]


def test_partition_metadata_is_kafkas(tmp_path: Path) -> None:
    """The file has two lines. A missing file means no topic id; any other content is an error."""
    assert read_topic_id(str(tmp_path)) is None
    write_topic_id(str(tmp_path), "AAAAAAAAAAAAAAAAAAAAAQ")
    file = tmp_path / "partition.metadata"
    assert file.read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
    assert read_topic_id(str(tmp_path)) == "AAAAAAAAAAAAAAAAAAAAAQ"
    for damaged in ("", "version: 7\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
                    "version: 0\ntopic_id: short", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAR"):  # fmt: skip
        file.write_text(damaged)
        with pytest.raises(CorruptCheckpoint):
            read_topic_id(str(tmp_path))
