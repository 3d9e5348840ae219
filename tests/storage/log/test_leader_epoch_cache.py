"""Leader epochs: a model of (epoch, start) pairs, and the checkpoint file."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_zk.storage.files.errors import CorruptCheckpoint
from kafka_zk.storage.log.leader_epoch_cache import LeaderEpochCache
from tests.storage.helpers import append, batch, new_log


def cache_of(tmp_path: Path, *entries: tuple[int, int]) -> LeaderEpochCache:
    cache = LeaderEpochCache(str(tmp_path / "leader-epoch-checkpoint"))
    for epoch, start in entries:
        cache.assign(epoch, start)
    return cache


def test_end_offsets_for_known_older_newer_and_missing_epochs(tmp_path: Path) -> None:
    """The cases are those of OffsetForLeaderEpoch."""
    cache = cache_of(tmp_path, (2, 10), (4, 20), (7, 30))
    assert cache.end_offset_for(7, 99) == (7, 99)
    assert cache.end_offset_for(4, 99) == (4, 30)
    assert cache.end_offset_for(5, 99) == (4, 30)
    assert cache.end_offset_for(1, 99) == (1, 10)
    assert cache.end_offset_for(8, 99) == (-1, -1)
    assert cache.end_offset_for(-1, 99) == (-1, -1)
    assert LeaderEpochCache(str(tmp_path / "none")).end_offset_for(0, 5) == (-1, -1)


def test_epochs_that_wrote_nothing_vanish_and_old_ones_are_ignored(tmp_path: Path) -> None:
    """Start offsets stay strictly ascending."""
    cache = cache_of(tmp_path, (1, 0), (2, 5), (3, 5), (2, 9), (3, 7))
    assert cache.entries == [(1, 0), (3, 5)]
    assert [cache.epoch_for_offset(offset) for offset in (0, 4, 5, 100)] == [1, 1, 3, 3]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50)), max_size=12), st.integers(0, 50), st.integers(0, 50))
def test_truncations_and_the_file(
    tmp_path_factory: pytest.TempPathFactory, assigned: list[tuple[int, int]], end: int, start: int
) -> None:
    """The remaining epochs are right at every offset, and the next load finds the same ones."""
    path = tmp_path_factory.mktemp("epochs")
    cache = cache_of(path, *assigned)
    before = {offset: cache.epoch_for_offset(offset) for offset in range(60)}
    cache.truncate_from_end(end)
    assert all(entry_start < end for _, entry_start in cache.entries)
    cache.truncate_from_start(start)
    for offset in range(start, end):
        assert cache.epoch_for_offset(offset) == before[offset]
    again = LeaderEpochCache(str(path / "leader-epoch-checkpoint"))
    again.load()
    again.truncate_from_end(end)  # the log's loader does the same
    assert again.entries == [(epoch, first) for epoch, first in cache.entries if first < end]


def test_the_file_is_written_with_the_first_record_of_an_epoch(tmp_path: Path) -> None:
    """Thousands of idle partitions can get leaders without writing a file."""
    file = tmp_path / "leader-epoch-checkpoint"
    cache = cache_of(tmp_path)
    cache.begin(0, 0)
    cache.begin(1, 0)
    assert (cache.entries, cache.written_epoch, file.exists()) == ([(1, 0)], -2, False)
    cache.assign(1, 0)
    assert (cache.written_epoch, file.read_text()) == (1, "0\n1\n1 0\n")
    written = file.stat().st_ino
    cache.begin(2, 8)
    cache.truncate_from_end(8)
    assert file.stat().st_ino == written
    cache.assign(1, 8)  # a record of the older epoch: the file is correct again
    assert (cache.written_epoch, file.read_text()) == (1, "0\n1\n1 0\n")


def test_a_load_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    """A load drops epochs without records only in memory, because the previous leader is usually elected again."""
    file = tmp_path / "leader-epoch-checkpoint"
    cache_of(tmp_path, (3, 12))
    written = file.stat().st_ino
    cache = LeaderEpochCache(str(file))
    cache.load()
    assert cache.written_epoch == 3
    cache.truncate_from_end(12)
    cache.begin(3, 12)
    assert (cache.entries, file.stat().st_ino) == ([(3, 12)], written)


def test_the_file_is_kafkas(tmp_path: Path) -> None:
    """The file has a version, a count, and one line per epoch."""
    cache_of(tmp_path, (0, 0), (3, 12))
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n3 12\n"


@pytest.mark.parametrize(
    "content",
    ["", "0\n5\n0 0\n", "0\n1\n0 -1\n", "0\n1\n2147483648 0\n", "0\n2\n1 0\n1 5\n", "0\n2\n1 5\n2 5\n", "\xff"],
)
def test_a_damaged_file_is_refused_as_a_whole(tmp_path: Path, content: str) -> None:
    """Both columns must ascend; otherwise, no row is used."""
    file = tmp_path / "leader-epoch-checkpoint"
    file.write_text(content, "latin-1")
    cache = LeaderEpochCache(str(file))
    with pytest.raises(CorruptCheckpoint, match="leader-epoch-checkpoint"):
        cache.load()
    assert (cache.entries, cache.written_epoch) == ([], -1)


def test_an_epoch_whose_records_were_cut_begins_anew(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(), leader_epoch=3)
    append(log, batch(), leader_epoch=5)
    log.truncate_to(1)
    assert log.leader_epochs.entries == [(3, 0)]
    append(log, batch(), leader_epoch=5)
    assert log.leader_epochs.entries == [(3, 0), (5, 1)]


@pytest.mark.parametrize("start_offset", [10, 12, 15, 40])
def test_what_lies_before_the_log_start_is_forgotten_on_disk_too(tmp_path: Path, start_offset: int) -> None:
    cache = cache_of(tmp_path, (2, 10), (4, 20))
    cache.truncate_from_start(start_offset)
    expected = [(4, 40)] if start_offset == 40 else [(2, start_offset), (4, 20)]
    again = LeaderEpochCache(str(tmp_path / "leader-epoch-checkpoint"))
    again.load()
    assert cache.entries == again.entries == expected


def test_a_checkpoint_is_synced_once_for_each_change(tmp_path: Path) -> None:
    """A change during a sync is synced the next time."""
    cache = cache_of(tmp_path, (2, 10))
    path, done = cache.prepare_sync()
    assert path is not None
    done()
    assert cache.prepare_sync()[0] is None
    cache.assign(3, 20)
    path, done = cache.prepare_sync()
    cache.assign(4, 30)
    done()
    assert path == cache.prepare_sync()[0] is not None
    cache.syncs_each_write = True  # as for a tiered log
    cache.assign(5, 40)
    assert cache.prepare_sync()[0] is None
