"""The table of a partition's states is all that decides what is legal."""

import itertools

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.states import TRANSITIONS, HoldingState, IllegalStateChange, PartitionTable

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PATHS = {
    HoldingState.FREE: [],
    HoldingState.CLAIMING: [HoldingState.CLAIMING],
    HoldingState.WAITING: [HoldingState.CLAIMING, HoldingState.WAITING],
    HoldingState.OWNED: [HoldingState.CLAIMING, HoldingState.OWNED],
    HoldingState.STOPPING: [HoldingState.CLAIMING, HoldingState.OWNED, HoldingState.STOPPING],
    HoldingState.RELEASING: [HoldingState.CLAIMING, HoldingState.RELEASING],
}


def change(table: PartitionTable, state: HoldingState) -> None:
    if state is HoldingState.CLAIMING:
        table.claim(T0, 0, 0.0)
    else:
        table.change(T0, state)


@pytest.mark.parametrize(("before", "after"), list(itertools.product(HoldingState, HoldingState)))
def test_what_the_table_does_not_allow_changes_nothing(before: HoldingState, after: HoldingState) -> None:
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
    assert set(TRANSITIONS) == set(HoldingState)
    assert all(TRANSITIONS.values())
    assert frozenset().union(*TRANSITIONS.values()) == frozenset(HoldingState)


def test_partitions_that_are_free_are_not_listed() -> None:
    table = PartitionTable()
    table.claim(T1, 2, 5.0)
    table.claim(T0, 1, 5.0)
    assert list(table) == table.among(HoldingState.CLAIMING) == [T0, T1]
    assert table.change(T1, HoldingState.FREE).thread == 2
    assert list(table) == [T0] and len(table) == 1
