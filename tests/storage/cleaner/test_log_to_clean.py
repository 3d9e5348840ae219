"""Which part of a log may be cleaned, when cleaning is due, and what happens to a cleaning whose log changes."""

import errno
from collections.abc import Generator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.storage.cleaner.cleaner import CleanedSegment
from kafka_zk.storage.cleaner.log_to_clean import Cleaning, examine
from kafka_zk.storage.files import files
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.segments.index_check import next_offset
from tests.storage.compacted import SMALL, records
from tests.storage.done_here import clean_here, swap_here
from tests.storage.faults import FaultyFiles
from tests.storage.helpers import T0, append, batch, new_log, read_offsets, remove_due, reopen

LAG_MS = 60_000


def compacted(tmp_path: Path, segments: int = 4, **config: Any) -> Log:
    """A log with some closed segments, each with two records of the same key, and an active segment."""
    log = new_log(tmp_path, cleanup_policy=("compact",), file_delete_delay_ms=0, **config)
    for index in range(segments):
        append(log, batch(2, key=b"k", timestamp_ms=T0 + 1000 * index))
        log.roll(T0)
    append(log, batch(2, key=b"k", timestamp_ms=T0 + 1000 * segments))
    log.flush()
    return log


def test_the_dirty_part_ends_where_the_active_segment_begins(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    found = examine(log, T0)
    assert (found.first_dirty_offset, found.uncleanable_offset) == (0, 8)
    assert found.cleanable_ratio == 1.0 and found.is_due
    assert found.cleanable_bytes == log.size_bytes - log.segments.active.size_bytes


@pytest.mark.parametrize(("mark", "end"), [(8, 8), (7, 6), (6, 6), (3, 2), (0, 0)])
def test_nothing_is_cleaned_that_is_not_committed(tmp_path: Path, mark: int, end: int) -> None:
    log = compacted(tmp_path)
    log.update_high_watermark(mark)
    assert examine(log, T0).uncleanable_offset == end


@pytest.mark.parametrize(("flushed", "end"), [(8, 8), (7, 6), (3, 2), (0, 0)])
def test_nothing_is_cleaned_that_is_not_durable(tmp_path: Path, flushed: int, end: int) -> None:
    """If non-durable records could be cleaned, a recovery would treat the removed records as lost and truncate the
    log.
    """
    log = compacted(tmp_path)
    log.recovery_point = flushed
    assert examine(log, T0).uncleanable_offset == end


def test_nothing_is_cleaned_behind_the_newest_durable_snapshot_of_producers(tmp_path: Path) -> None:
    """A start replays the records after the snapshot, and needs their markers."""
    log = compacted(tmp_path)
    append(log, batch(2, key=b"k", producer_id=9, producer_epoch=0, base_sequence=0))
    log.roll(T0)
    log.recovery_point = log.log_end_offset
    assert examine(log, T0).uncleanable_offset == 0
    log.flush()
    assert examine(log, T0).uncleanable_offset == log.segments.active.base_offset == 12


@pytest.mark.parametrize(("age_ms", "end"), [(LAG_MS - 1, 0), (LAG_MS, 2), (LAG_MS + 1000, 4), (LAG_MS + 9000, 8)])
def test_what_is_too_new_waits(tmp_path: Path, age_ms: int, end: int) -> None:
    log = compacted(tmp_path, min_compaction_lag_ms=LAG_MS)
    assert examine(log, T0 + age_ms).uncleanable_offset == end


def test_what_is_dirty_for_too_long_is_due_whatever_its_share(tmp_path: Path) -> None:
    log = compacted(tmp_path, max_compaction_lag_ms=LAG_MS, min_cleanable_dirty_ratio=0.9)
    log.cleaned_offset = 4
    assert not examine(log, T0).is_due
    assert not examine(log, T0 + 2000 + LAG_MS).is_due
    late = examine(log, T0 + 2000 + LAG_MS + 7)
    assert late.is_due and late.compaction_delay_ms == 7


def test_a_log_is_due_when_it_is_dirtier_than_its_ratio(tmp_path: Path) -> None:
    log = compacted(tmp_path, min_cleanable_dirty_ratio=0.5)
    log.cleaned_offset = 4
    assert examine(log, T0).cleanable_ratio == 0.5 and not examine(log, T0).is_due
    log.cleaned_offset = 2
    assert examine(log, T0).cleanable_ratio == 0.75 and examine(log, T0).is_due


@pytest.mark.parametrize(("cleaned", "start", "first_dirty"), [(None, 0, 0), (4, 0, 4), (4, 5, 5), (11, 3, 3)])
def test_the_dirty_part_begins_where_the_last_cleaning_ended(
    tmp_path: Path, cleaned: int | None, start: int, first_dirty: int
) -> None:
    """The exceptions are a log that begins after that offset, and one that ends before it: the offset then belongs to
    another log.
    """
    log = compacted(tmp_path)
    log.increment_log_start_offset(start)
    log.cleaned_offset = cleaned
    assert examine(log, T0).first_dirty_offset == first_dirty


def test_a_clean_log_and_an_empty_one_have_nothing_to_do(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    log.cleaned_offset = 8
    assert not examine(log, T0).has_work and clean_here(log, SMALL, T0) is None
    empty = new_log(tmp_path / "empty", cleanup_policy=("compact",))
    assert not examine(empty, T0).is_due


def test_a_segment_is_closed_in_time_to_be_compacted(tmp_path: Path) -> None:
    log = new_log(tmp_path, cleanup_policy=("compact",), max_compaction_lag_ms=LAG_MS)
    append(log, batch(key=b"k", timestamp_ms=T0))
    append(log, batch(key=b"k", timestamp_ms=T0 + LAG_MS))
    assert len(log.segments) == 1
    append(log, batch(key=b"k", timestamp_ms=T0 + LAG_MS + 1))
    assert len(log.segments) == 2


# -- while it runs ----------------------------------------------------------------------------------------------------


def cleaning(log: Log) -> tuple[Cleaning, list[CleanedSegment], int]:
    """Do all work of the cleaning except the swap."""
    made: list[CleanedSegment] = []
    started = Cleaning(examine(log, T0), SMALL, T0)
    return started, made, started.work.run(made.append).end_offset


def test_a_finished_cleaning_takes_its_place(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    started, (made,), end_offset = cleaning(log)
    assert [log.is_being_cleaned] == [True]
    assert swap_here(started, made, T0) and started.finish(end_offset)
    assert log.cleaned_offset == 8 and not log.is_being_cleaned
    assert read_offsets(log) == [7, 8, 9] and len(log.segments) == 2
    assert remove_due(log.segments, T0) == 4
    names = sorted(path.name for path in log.directory.iterdir() if path.suffix in (".log", ".index"))
    assert names == [f"{base:020d}.{kind}" for base in (0, 8) for kind in ("index", "log")]


def test_readers_of_replaced_segments_read_on(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    before = log.read(2, 1 << 20)
    assert before.slice is not None
    before.slice.retain()
    data = before.slice.read()
    clean_here(log, SMALL, T0)
    remove_due(log.segments, T0)
    assert before.slice.read() == data
    before.slice.release()
    assert read_offsets(log, 2) == [7, 8, 9]


@pytest.mark.parametrize("to", [0, 3, 7, 8, 9])
def test_a_truncation_voids_it(tmp_path: Path, to: int) -> None:
    """The cleaning is void even if the log has regained its size by then."""
    log = compacted(tmp_path)
    started, (made,), end_offset = cleaning(log)
    log.truncate_to(to, T0)
    while log.log_end_offset < 10:
        append(log, batch(1, key=b"other"))
    expected = records(log)
    assert not swap_here(started, made, T0) and not started.finish(end_offset)
    assert log.cleaned_offset is None and records(log) == expected


def test_a_truncation_takes_the_clean_part_back(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    clean_here(log, SMALL, T0)
    log.truncate_to(9)
    assert (log.cleaned_offset, log.log_end_offset) == (8, 8)


def test_a_truncation_below_the_clean_part_leaves_nothing(tmp_path: Path) -> None:
    """Compaction dropped k's older records in favour of one that the truncation removes. The remaining log would lack
    k, although the leader has it.
    """
    log = compacted(tmp_path)
    clean_here(log, SMALL, T0)
    log.follow_log_end()
    truncation = log.truncate_to(7)
    assert truncation is not None and truncation.end_offset == log.log_end_offset == 0
    assert truncation.kept_as is not None, "the committed records were moved aside"
    assert log.cleaned_offset == 0 and records(log) == []


@pytest.mark.parametrize("to", [3, 7, 8, 9])
@pytest.mark.parametrize("step", range(4))
def test_a_log_that_is_cut_amid_a_swap_stays_cut(tmp_path: Path, step: int, to: int) -> None:
    """The log stays truncated during each fsync of the swap, and no start restores the truncated records."""
    log = compacted(tmp_path)
    started, (made,), _ = cleaning(log)
    steps = started.swap_steps(made, T0)
    for sync in islice(steps, step + 1):
        sync()
    assert read_offsets(log) == ([7, 8, 9] if step else list(range(10))), "readers see the old segments or the new one"
    log.truncate_to(to)
    append(log, batch(1, key=b"other"))
    assert list(steps) == [] and not [path for path in log.directory.iterdir() if path.suffix == ".swap"]
    expected = [offset for offset in (7, 8) if offset < to // 2 * 2] + [min(to, 8 if to > 7 else 6) if to > 3 else 3]
    assert read_offsets(log) == expected
    log.flush()
    again, dropped = reopen(log, recovery_point=log.recovery_point)
    assert dropped is None and read_offsets(again) == expected


@pytest.mark.parametrize("step", range(3))
def test_an_abandoned_swap_is_ended_before_the_log_is_cut(tmp_path: Path, step: int) -> None:
    """Otherwise, the next start would replace what was written after the cut by the truncated records."""
    log = compacted(tmp_path)
    started, (made,), _ = cleaning(log)
    steps = started.swap_steps(made, T0)
    for sync in islice(steps, step + 1):
        sync()
    assert isinstance(steps, Generator)
    steps.close()  # as if the cleaner got an error from an fsync, and stopped
    log.truncate_to(3)
    append(log, batch(1, key=b"other"))
    log.flush()
    assert not [path for path in log.directory.iterdir() if path.suffix == ".swap"]
    again, _ = reopen(log, recovery_point=log.recovery_point)
    assert read_offsets(again) == read_offsets(log) == [3]


@pytest.mark.parametrize("step", range(3))
def test_a_swap_that_could_not_be_ended_is_ended_before_the_log_is_cut(
    tmp_path: Path, faults: FaultyFiles, step: int
) -> None:
    """The next cleaning meets the same shortage of descriptors, which does not take the directory offline."""
    log = compacted(tmp_path)
    started, (made,), _ = cleaning(log)
    for sync in islice(started.swap_steps(made, T0), step + 1):
        sync()
    faults.fail("sync", log.directory, OSError(errno.EMFILE, "Too many open files"))
    with pytest.raises(OSError, match="Too many"):
        log.segments.settle()
    faults.heal()
    log.truncate_to(3)
    append(log, batch(1, key=b"other"))
    log.flush()
    again, _ = reopen(log, recovery_point=log.recovery_point)
    assert read_offsets(again) == read_offsets(log) == [3]


def test_an_fsync_that_is_under_way_is_not_taken_for_done(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    started, (made,), _ = cleaning(log)
    steps = started.swap_steps(made, T0)
    next(steps)  # the fsync is still running in a thread
    changes: list[str] = []
    with files.use(Noted(changes)):
        log.segments.settle()
    assert changes[0] == "sync" and changes.count("sync") == 3


class Noted(files.FileSystem):
    """Records all changes to the disk, in order."""

    def __init__(self, changes: list[str]) -> None:
        self._changes = changes

    def sync(self, descriptor: int) -> None:
        self._changes.append("sync")

    def rename(self, path: str, target: str) -> None:
        self._changes.append("rename")
        super().rename(path, target)


@pytest.mark.parametrize("what", ["deleted", "closed", "replaced again", "kept by retention"])
def test_a_swap_that_is_under_way_is_ended_by_what_needs_it(tmp_path: Path, what: str) -> None:
    log = compacted(tmp_path)
    started, (made,), _ = cleaning(log)
    steps = started.swap_steps(made, T0)
    next(steps)()
    match what:
        case "deleted":
            log.rename_to_delete(str(tmp_path / "events-0.gone-delete"))
        case "closed":
            log.close()
        case "replaced again":
            log.segments.settle()
        case "kept by retention":
            assert log.delete_old_segments(T0) == 0
    assert list(steps) == [] and read_offsets(log) == [7, 8, 9]


@pytest.mark.parametrize(("to", "end"), [(3, 0), (7, 0), (9, 8)])
def test_a_truncation_in_a_gap_ends_the_log_there(tmp_path: Path, to: int, end: int) -> None:
    """The log ends before the gap, because a new leader may have records in it. A truncation below the clean part
    leaves no records."""
    log = compacted(tmp_path)
    clean_here(log, SMALL, T0)
    log.truncate_to(to)
    assert log.log_end_offset == end


def test_segments_that_retention_took_void_it(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    started, (made,), _ = cleaning(log)
    log.increment_log_start_offset(4)
    assert log.delete_old_segments(T0) == 2
    assert not swap_here(started, made, T0) and read_offsets(log) == [4, 5, 6, 7, 8, 9]


def test_a_deleted_log_voids_it(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    started, (made,), _ = cleaning(log)
    log.rename_to_delete(str(tmp_path / "events-0.gone-delete"))
    assert not swap_here(started, made, T0)


def test_a_topic_that_is_not_compacted_any_more_voids_it(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    started, (made,), _ = cleaning(log)
    log.update_config(type(log.config)())
    assert not swap_here(started, made, T0) and len(read_offsets(log)) == 10


def test_a_log_that_grows_meanwhile_keeps_what_it_got(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    started, (made,), end_offset = cleaning(log)
    append(log, batch(1, key=b"new"))
    log.roll(T0)
    append(log, batch(1, key=b"new"))
    assert swap_here(started, made, T0) and started.finish(end_offset)
    assert read_offsets(log) == [7, 8, 9, 10, 11] and log.cleaned_offset == 8


@pytest.mark.parametrize("policy", ["compact", "delete"])
@pytest.mark.parametrize("is_checkpoint_lost", [False, True])
def test_gaps_of_compaction_survive_a_recovery_whatever_the_policy_is_now(
    tmp_path: Path, policy: str, is_checkpoint_lost: bool
) -> None:
    """The gaps are below the recovery point. Without its checkpoint they cannot be explained, and every record is
    kept."""
    log = compacted(tmp_path, segment_bytes=100)
    clean_here(log, SMALL, T0)
    expected = read_offsets(log)
    assert next_offset(log.segments[0]) < log.segments[1].base_offset, "there is a gap"
    log.update_config(LogConfig(cleanup_policy=(policy,)))
    again, dropped = reopen(
        log, recovery_point=0 if is_checkpoint_lost else log.recovery_point, is_contiguous=not is_checkpoint_lost
    )
    assert dropped is None and read_offsets(again) == expected
    assert again.recovery_point >= log.recovery_point, "the gap is explained from now on"
