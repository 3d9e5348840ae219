"""How a start handles each state that an interrupted swap can leave, ours or Kafka's."""

import shutil
from pathlib import Path

import pytest

from kafka_zk.storage.cleaner.log_to_clean import Cleaning, examine
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.segments.index_check import index_problem
from tests.storage.compacted import SMALL
from tests.storage.helpers import T0, append, batch, new_log, read_offsets, reopen

FILES = ("log", "index", "timeindex")
OLD = [0, 1, 2, 3, 4, 5, 6]


def base(number: int, suffix: str) -> str:
    return f"{number:020d}.{suffix}"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Segments at 0, 2 and 4, with the same key twice in each except the last, and the cleaned segment."""
    log = new_log(tmp_path, cleanup_policy=("compact",), index_interval_bytes=0)
    for key in (b"a", b"a", b"b"):
        for _ in range(2):
            append(log, batch(1, key=key))
        log.roll(T0)
    append(log, batch(1, key=b"c"))
    log.flush()
    log.segments.close(lambda path: None)
    cleaning = Cleaning(examine(log, T0), SMALL, T0)
    cleaning.work.run(lambda cleaned: None)
    return log


def rename(log: Log, number: int, old: str, new: str, *suffixes: str) -> None:
    for suffix in suffixes or FILES:
        path = log.directory / (base(number, suffix) + old)
        path.rename(log.directory / (base(number, suffix) + new))


def start(log: Log) -> list[int]:
    """The offsets after the next start. Checks that the start after it finds the same, and that no files are left
    over."""
    found = []
    for recovery_point in (0, 7):
        again, dropped = reopen(log, recovery_point=recovery_point, is_contiguous=recovery_point > 0)
        assert dropped is None and again.log_end_offset == 7
        left = (".log", ".index", ".timeindex", ".snapshot", ".damaged")
        assert all(path.suffix in left for path in log.directory.glob("0*"))
        found.append(read_offsets(again))
        for segment in again.segments:
            assert index_problem(segment, not segment.is_active) is None
        again.segments.close_files()
    assert found[0] == found[1]
    return found[0]


def test_a_cleaned_segment_alone_counts_for_nothing(log: Log) -> None:
    assert start(log) == OLD


@pytest.mark.parametrize("renamed", [("log",), ("index", "timeindex"), ("log", "index"), ("timeindex",)])
def test_one_that_is_half_a_swap_segment_counts_for_nothing(log: Log, renamed: tuple[str, ...]) -> None:
    """Kafka renames the log first; we rename it last."""
    rename(log, 0, ".cleaned", ".swap", *renamed)
    assert start(log) == OLD


@pytest.mark.parametrize("deleted", range(10))
def test_a_swap_segment_counts_however_much_of_the_old_ones_is_gone(log: Log, deleted: int) -> None:
    rename(log, 0, ".cleaned", ".swap")
    names = [(number, suffix) for number in (0, 2, 4) for suffix in FILES]
    for number, suffix in names[:deleted]:
        rename(log, number, "", ".deleted", suffix)
    assert start(log) == [3, 5, 6]


@pytest.mark.parametrize("renamed", [(), ("log",), ("log", "index"), ("log", "index", "timeindex")])
def test_a_swap_that_gets_its_name_goes_on(log: Log, renamed: tuple[str, ...]) -> None:
    """The order of the renames may be Kafka's or ours."""
    rename(log, 0, ".cleaned", ".swap")
    for number in (0, 2, 4):
        rename(log, number, "", ".deleted")
    if renamed:
        rename(log, 0, ".swap", "", *renamed)
    assert start(log) == [3, 5, 6]


@pytest.mark.parametrize("deleted", [0, 1, 3])
@pytest.mark.parametrize("damage", [b"", b"\0" * 30, b"?"])
def test_a_damaged_swap_segment_replaces_nothing(log: Log, deleted: int, damage: bytes) -> None:
    """The segments from which it was built were renamed for deletion, and are restored."""
    rename(log, 0, ".cleaned", ".swap")
    for number in (0, 2, 4)[:deleted]:
        rename(log, number, "", ".deleted")
    path = log.directory / (base(0, "log") + ".swap")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + damage if damage else whole[:-1])
    assert start(log) == OLD
    assert Path(f"{path}.damaged").exists()


def test_an_index_whose_log_did_not_become_a_swap_segment_goes(log: Log) -> None:
    """A power loss may undo only one of two renames. The index of the old log must not be replaced."""
    rename(log, 0, ".cleaned", ".swap", "index", "timeindex")
    (log.directory / (base(0, "log") + ".cleaned")).unlink()
    assert start(log) == OLD


def test_an_empty_swap_segment_takes_the_place_of_its_own(tmp_path: Path) -> None:
    """Other segments that it replaced still exist; their records are all valid."""
    log = new_log(tmp_path, cleanup_policy=("compact",))
    for _ in range(2):
        append(log, batch(1, key=b"a"))
        log.roll(T0)
    append(log, batch(5, key=b"a"))
    log.flush()
    log.segments.close(lambda path: None)
    for suffix in FILES:
        (log.directory / (base(0, suffix) + ".swap")).write_bytes(b"")
    assert start(log) == [1, 2, 3, 4, 5, 6]


def test_a_segment_between_two_that_are_swapped_in_stays(log: Log) -> None:
    """Here, the original segments at 0 and 4 stand for the results of two cleanings."""
    for suffix in FILES:
        for number in (0, 4):
            path = log.directory / base(number, suffix)
            shutil.copy(path, f"{path}.swap")
        (log.directory / (base(0, suffix) + ".cleaned")).unlink()
    assert start(log) == OLD


def test_a_split_of_kafkas_that_is_complete_goes_on(log: Log) -> None:
    """Several segments together replace one. Here, the original segments stand for one that was split into three."""
    for number in (0, 2, 4):
        for suffix in FILES:
            path = log.directory / base(number, suffix)
            shutil.copy(path, f"{path}.swap")
    for suffix in FILES:
        (log.directory / (base(0, suffix) + ".cleaned")).unlink()
    assert start(log) == OLD


def test_a_split_of_kafkas_that_is_not_complete_goes(log: Log) -> None:
    """Kafka renames the segments from the last to the first, so those at or after a segment that was not renamed are
    ignored."""
    for number in (2, 4):
        for suffix in FILES:
            path = log.directory / base(number, suffix)
            shutil.copy(path, f"{path}.swap")
    assert start(log) == OLD
