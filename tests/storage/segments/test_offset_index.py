"""The offset index: lookups against a linear search, Kafka's bytes, zero padding."""

from array import array
from collections.abc import Iterator
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.storage.segments.offset_index import OffsetIndex, parse_offset_index, serialize_offset_index

STEPS = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=60)


def entries_of(steps: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    offset = position = 0
    for offset_step, position_step in steps:
        offset += offset_step
        position += position_step
        yield offset, position


@given(STEPS, st.integers(0, 3500))
def test_lookups_agree_with_a_linear_search(steps: list[tuple[int, int]], wanted: int) -> None:
    """Lookups by offset go downwards; lookups by position go in both directions."""
    index = OffsetIndex("/nowhere", 100, is_new=True)
    entries = list(entries_of(steps))
    for offset, position in entries:
        index.append(100 + offset, position)
    slot = index.slot_of(100 + wanted)
    assert slot == sum(offset <= wanted for offset, _ in entries)
    assert not slot or index.entry(slot - 1) == (100 + entries[slot - 1][0], entries[slot - 1][1])
    assert index.floor_position(wanted) == max([p for _, p in entries if p <= wanted], default=0)
    assert index.ceiling_position(wanted) == min([p for _, p in entries if p > wanted], default=None)
    assert index.slot_of(5) == 0


@given(STEPS, st.integers(0, 100))
def test_a_file_comes_back_without_its_padding(steps: list[tuple[int, int]], padding: int) -> None:
    """A killed Kafka broker leaves zeros behind the entries, perhaps not a multiple of 8."""
    words = array("Q", [offset << 32 | position for offset, position in entries_of(steps)])
    data = serialize_offset_index(words)
    assert len(data) == 8 * len(words)
    assert parse_offset_index(data + bytes(padding)) == words


def test_the_bytes_are_kafkas(tmp_path: Path) -> None:
    """An entry is the relative offset and the position, four bytes each, big-endian."""
    index = OffsetIndex(str(tmp_path / "i"), 1000, is_new=True)
    index.append(1005, 4100)
    assert index.write_out()
    assert (tmp_path / "i").read_bytes() == bytes([0, 0, 0, 5, 0, 0, 16, 4])


def test_entries_are_written_once_and_after_a_reload_behind_the_old_ones(tmp_path: Path) -> None:
    """write_out appends new entries; it also removes the padding of a killed broker."""
    path = tmp_path / "i"
    index = OffsetIndex(str(path), 0, is_new=True)
    index.append(1, 10)
    assert index.write_out()
    assert not index.write_out()
    index.append(2, 20)
    assert index.write_out()
    path.write_bytes(path.read_bytes() + bytes(80))
    again = OffsetIndex(str(path), 0)
    assert again.count == 2
    again.append(3, 30)
    again.unload()
    assert again.entry(again.slot_of(3) - 1) == (3, 30)
    assert len(path.read_bytes()) == 24


def test_truncation_drops_entries_at_and_behind_the_position(tmp_path: Path) -> None:
    """Entries are dropped in memory and on disk."""
    path = tmp_path / "i"
    index = OffsetIndex(str(path), 0, is_new=True)
    for number in range(1, 6):
        index.append(number * 10, number * 100)
    index.truncate_to_position(300)
    assert index.last_entry == (20, 200)
    assert OffsetIndex(str(path), 0).last_entry == (20, 200)
