"""The time index: lookups against a linear search, Kafka's bytes, zero padding."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_zk.storage.segments.time_index import TimeIndex, iter_time_index, valid_time_index

STEPS = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), max_size=40)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS, st.integers(0, 2000), st.booleans())
def test_lookup_agrees_with_a_linear_search(
    tmp_path: Path, steps: list[tuple[int, int]], wanted: int, written: bool
) -> None:
    """The entries may be in memory or in the file."""
    path = tmp_path / "t"
    path.unlink(missing_ok=True)
    index = TimeIndex(str(path), 100, is_new=True)
    timestamp_ms, offset = 0, 100
    entries = []
    for time_step, offset_step in steps:
        timestamp_ms, offset = timestamp_ms + time_step, offset + offset_step
        index.maybe_append(timestamp_ms, offset)
        entries.append((timestamp_ms, offset))
        if written and len(entries) % 3 == 0:
            index.write_out()
    if written:
        index.write_out()
        index = TimeIndex(str(path), 100)
    assert index.lookup(wanted) == max([entry for entry in entries if entry[0] <= wanted], default=(-1, 100))
    assert index.last_entry == (entries[-1] if entries else (-1, 100))
    assert index.count == len(entries)


def test_only_larger_timestamps_are_added(tmp_path: Path) -> None:
    """An equal or smaller timestamp adds no information."""
    index = TimeIndex(str(tmp_path / "t"), 0, is_new=True)
    index.maybe_append(10, 1)
    index.maybe_append(10, 2)
    index.maybe_append(9, 3)
    index.write_out()
    assert (tmp_path / "t").read_bytes() == bytes([0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 1])


def test_padding_and_a_torn_entry_are_ignored(tmp_path: Path) -> None:
    """A killed Kafka broker leaves both behind."""
    path = tmp_path / "t"
    index = TimeIndex(str(path), 5, is_new=True)
    index.maybe_append(10, 6)
    index.write_out()
    path.write_bytes(path.read_bytes() + bytes(120) + b"\1\2\3")
    assert valid_time_index(path.read_bytes()[:-3]) == path.read_bytes()[:12]
    again = TimeIndex(str(path), 5)
    again.maybe_append(20, 9)
    again.write_out()
    assert list(iter_time_index(path.read_bytes(), 5)) == [(10, 6), (20, 9)]


def test_truncation_keeps_entries_before_the_offset(tmp_path: Path) -> None:
    """Entries are dropped in memory and on disk."""
    index = TimeIndex(str(tmp_path / "t"), 0, is_new=True)
    for number in range(1, 5):
        index.maybe_append(number * 10, number)
    index.truncate_to_offset(3)
    assert index.last_entry == (20, 2)
    assert index.lookup(35) == (20, 2)
