"""Concurrent commits of a partition: their order in the log decides, not the order of the callbacks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.offsets import OFFSET_BYTES, GroupOffsets, Offsets
from kafka_zk.broker.group.records import OffsetAndMetadata
from tests.kafka_zk.broker.group.coordinated import T0, T1, committed

EARLIER, MIDDLE, LATEST = ({T0: committed(offset)} for offset in (1, 2, 3))


def offset_of(offsets: GroupOffsets) -> int | None:
    found = offsets.get(T0)
    return None if found is None else found.offset


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_the_later_of_two_counts(order: tuple[int, int]) -> None:
    offsets = GroupOffsets()
    offsets.load({T1: committed(7)})
    by_record: dict[int, Offsets] = {1: EARLIER, 2: LATEST}
    for each in by_record.values():
        offsets.begin(each)
    for record_offset in order:
        offsets.written(by_record[record_offset], record_offset)
    assert offset_of(offsets) == 3
    assert not offsets.is_pending(T0)
    assert set(offsets) == {T0, T1}


def test_one_that_is_told_late_does_not_replace_a_later_one_while_another_is_written() -> None:
    offsets = GroupOffsets()
    for each in (EARLIER, MIDDLE, LATEST):
        offsets.begin(each)
    offsets.written(MIDDLE, 20)
    offsets.written(EARLIER, 10)
    assert offset_of(offsets) == 2
    assert offsets.is_pending(T0)
    offsets.failed(LATEST)
    assert offset_of(offsets) == 2
    assert not offsets.is_pending(T0)


def test_one_that_is_told_late_does_not_replace_one_that_nobody_waited_for() -> None:
    """The replicas in sync have changed in between."""
    offsets = GroupOffsets()
    offsets.begin(EARLIER)
    offsets.stored(MIDDLE, 20, 0)
    offsets.begin(LATEST)
    offsets.written(EARLIER, 10)
    assert offset_of(offsets) == 2
    offsets.written(LATEST, 30)
    assert offset_of(offsets) == 3
    offsets.begin(EARLIER)  # all earlier commits are complete
    offsets.written(EARLIER, 40)
    assert offset_of(offsets) == 1


def test_what_is_removed_while_it_is_written_stays_away() -> None:
    offsets = GroupOffsets()
    offsets.begin(EARLIER)
    assert offsets.remove([T0, T1]) == [T0]
    offsets.written(EARLIER, 10)
    assert offset_of(offsets) is None
    assert not offsets


_tps = st.builds(TopicPartition, st.just("t"), st.integers(0, 5))
_values = st.builds(OffsetAndMetadata, st.just(1), st.just(-1), st.sampled_from(["", "", "ab", "é" * 9]), st.just(0))


@given(st.lists(st.tuples(st.booleans(), st.dictionaries(_tps, _values, max_size=4)), max_size=8))
def test_the_memory_is_that_of_the_offsets_in_effect(steps: list[tuple[bool, Offsets]]) -> None:
    offsets = GroupOffsets()
    for is_stored, part in steps:
        if is_stored:
            offsets.stored(part, 0, sum(len(each.metadata) for each in part.values()))
        else:
            offsets.remove(part)
    held = [found for tp in offsets if (found := offsets.get(tp)) is not None]
    assert offsets.size_bytes == sum(OFFSET_BYTES + len(each.metadata) for each in held)
