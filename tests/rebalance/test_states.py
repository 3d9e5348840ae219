"""The table of a partition's states is all that decides what is legal."""

import itertools

import pytest

from rebalance.states import TRANSITIONS, IllegalStateChange, PartitionState, PartitionTable
from storage.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PATHS = {
    PartitionState.FREE: [],
    PartitionState.CLAIMING: [PartitionState.CLAIMING],
    PartitionState.WAITING: [PartitionState.CLAIMING, PartitionState.WAITING],
    PartitionState.OWNED: [PartitionState.CLAIMING, PartitionState.OWNED],
    PartitionState.STOPPING: [PartitionState.CLAIMING, PartitionState.OWNED, PartitionState.STOPPING],
    PartitionState.RELEASING: [PartitionState.CLAIMING, PartitionState.RELEASING],
}


def change(table: PartitionTable, state: PartitionState) -> None:
    if state is PartitionState.CLAIMING:
        table.claim(T0, 0, 0.0)
    else:
        table.change(T0, state)


@pytest.mark.parametrize(("before", "after"), list(itertools.product(PartitionState, PartitionState)))
def test_what_the_table_does_not_allow_changes_nothing(before: PartitionState, after: PartitionState) -> None:
    table = PartitionTable()
    for state in PATHS[before]:
        change(table, state)
    assert table.state(T0) is before
    if before in TRANSITIONS[after]:
        change(table, after)
        assert table.state(T0) is after
    else:
        with pytest.raises(IllegalStateChange, match=f"t-0: from {before.value} to {after.value}"):
            change(table, after)
        assert table.state(T0) is before


def test_every_state_can_be_reached_and_left() -> None:
    assert set(TRANSITIONS) == set(PartitionState)
    assert all(TRANSITIONS.values())
    assert frozenset().union(*TRANSITIONS.values()) == frozenset(PartitionState)


def test_partitions_that_are_free_are_not_listed() -> None:
    table = PartitionTable()
    table.claim(T1, 2, 5.0)
    table.claim(T0, 1, 5.0)
    assert list(table) == table.among(PartitionState.CLAIMING) == [T0, T1]
    assert table.change(T1, PartitionState.FREE).thread == 2
    assert list(table) == [T0] and len(table) == 1
