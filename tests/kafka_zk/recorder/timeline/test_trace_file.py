"""A follower reads trace files while they are written."""

from pathlib import Path

import pytest

from kafka_zk.base.clock import wall_ms
from kafka_zk.rebalance.events import MemberLeft, MemberRegistered
from kafka_zk.recorder.timeline.trace_file import TraceFollower, TraceWriter

EVENTS = [MemberRegistered(1, "g_a", "started", 5, 77), MemberLeft(2, "g_a", "this member leaves", 0)]


def test_events_come_once_from_all_files_of_a_directory(tmp_path: Path) -> None:
    """One of the files did not exist at the first read."""
    follower = TraceFollower(tmp_path)
    assert follower.read() == []
    first = TraceWriter(tmp_path, "g_a", lambda: 3)
    first(EVENTS[0])
    assert [each[:2] for each in follower.read()] == [(EVENTS[0], 3)]
    second = TraceWriter(tmp_path, "g_b", lambda: 0)
    second(EVENTS[0])
    first(EVENTS[1])
    assert [each[:2] for each in follower.read()] == [(EVENTS[1], 3), (EVENTS[0], 0)]
    for writer in (first, second):
        writer.close()
        writer(EVENTS[0])
    assert follower.read() == []


def test_each_event_has_its_microsecond_and_its_number(tmp_path: Path) -> None:
    """An event that is written later than it happened has no microsecond."""
    writer = TraceWriter(tmp_path, "g_a")
    for time_ms in (wall_ms(), 1_000):
        writer(MemberLeft(time_ms, "g_a", "this member leaves", 0))
    writer.close()
    first, second = TraceFollower(tmp_path).read()
    assert first.microsecond is not None and 0 <= first.microsecond < 1_000
    assert (first.number, second.number, second.microsecond) == (1, 2, None)


def test_a_line_that_is_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    """The file may end in the middle of a line."""
    path = tmp_path / "trace.jsonl"
    follower = TraceFollower(path)
    writer = TraceWriter(path, "g_a", lambda: 0)
    writer(EVENTS[0])
    writer(EVENTS[1])
    writer.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    assert [each.event for each in follower.read()] == EVENTS[:1]
    path.write_bytes(whole)
    assert [each.event for each in follower.read()] == EVENTS[1:]


def test_other_lines_are_counted_and_passed_over(tmp_path: Path) -> None:
    """The directory contains a file of another program."""
    (tmp_path / "x.jsonl").write_text('nonsense\n[1]\n{"event":"Claimed"}\n')
    follower = TraceFollower(tmp_path)
    assert follower.read() == [] and follower.bad_line_count == 3


@pytest.mark.parametrize(
    "line",
    [
        '{"event":[]}',
        '{"event":{}}',
        "[" * 50_000,
        '{"event":"MemberLeft","time_ms":"1","actor":"a","cause":"b","zxid":0}',
        '{"event":"MemberLeft","time_ms":1e999,"actor":"a","cause":"b","zxid":0}',
        '{"event":"MemberLeft","time_ms":99999999999999999999,"actor":"a","cause":"b","zxid":0}',
        '{"event":"MemberLeft","time_ms":1,"actor":2,"cause":"b","zxid":0}',
        '{"event":"MemberLeft","time_ms":1,"actor":"a","cause":"b","zxid":null}',
    ],
)
def test_a_damaged_line_takes_no_others_with_it(tmp_path: Path, line: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(f"{line}\n")
    writer = TraceWriter(path, "g_a", lambda: 0)
    writer(EVENTS[0])
    writer.close()
    follower = TraceFollower(path)
    assert [each.event for each in follower.read()] == EVENTS[:1]
    assert follower.bad_line_count == 1


def test_a_long_trace_is_read_in_pieces(tmp_path: Path) -> None:
    """A line that is longer than a piece is skipped."""
    path = tmp_path / "x.jsonl"
    path.write_text("x" * 1_000 + "\n")
    writer = TraceWriter(path, "g_a", lambda: 0)
    for _ in range(50):
        writer(EVENTS[0])
    writer.close()
    follower = TraceFollower(path)
    pieces = [len(follower.read(most_bytes=300)) for _ in range(60)]
    assert sum(pieces) == 50 and max(pieces) <= 3
    assert follower.bad_line_count >= 1


def test_only_what_is_new(tmp_path: Path) -> None:
    """The follower skips the events from before its start."""
    writer = TraceWriter(tmp_path, "g_a", lambda: 0)
    writer(EVENTS[0])
    follower = TraceFollower(tmp_path, from_start=False)
    writer(EVENTS[1])
    assert [each.event for each in follower.read()] == EVENTS[1:]
    writer.close()
