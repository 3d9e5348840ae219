"""The transition table of a partition's states alone decides which transitions are legal."""

import itertools

import pytest

from kafka_zk.base.state_machine import IllegalTransition
from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.states import TRANSITIONS, Event, HoldingState, PartitionTable

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PATHS = {
    HoldingState.FREE: [],
    HoldingState.CLAIMING: [Event.CLAIM],
    HoldingState.WAITING: [Event.CLAIM, Event.TAKEN],
    HoldingState.OWNED: [Event.CLAIM, Event.CLAIMED],
    HoldingState.STOPPING: [Event.CLAIM, Event.CLAIMED, Event.STOP],
    HoldingState.RELEASING: [Event.CLAIM, Event.RELEASE],
}


def change(table: PartitionTable, event: Event) -> None:
    if event is Event.CLAIM:
        table.claim(T0, 0, 0.0)
    else:
        table.change(T0, event)


@pytest.mark.parametrize(("state", "event"), list(itertools.product(HoldingState, Event)))
def test_an_unlisted_transition_changes_nothing(state: HoldingState, event: Event) -> None:
    table = PartitionTable()
    for step in PATHS[state]:
        change(table, step)
    assert table.state(T0) is state
    if state in TRANSITIONS[event]:
        change(table, event)
        assert table.state(T0) is TRANSITIONS[event][state]
    else:
        with pytest.raises(IllegalTransition, match=f"{event.value} in {state.value}"):
            change(table, event)
        assert table.state(T0) is state


def test_every_event_is_listed_and_every_state_can_be_reached_and_left() -> None:
    assert set(TRANSITIONS) == set(Event)
    changes = [change for row in TRANSITIONS.values() for change in row.items()]
    assert {before for before, _ in changes} == {after for _, after in changes} == set(HoldingState)
    assert all(before is not after for before, after in changes)


def test_the_end_of_the_session_frees_everything() -> None:
    assert TRANSITIONS[Event.SESSION_ENDED] == dict.fromkeys(set(HoldingState) - {HoldingState.FREE}, HoldingState.FREE)


def test_partitions_that_are_free_are_not_listed() -> None:
    table = PartitionTable()
    table.claim(T1, 2, 5.0)
    table.claim(T0, 1, 5.0)
    assert list(table) == table.among(HoldingState.CLAIMING) == [T0, T1]
    assert table.change(T1, Event.GIVE_UP).thread == 2
    assert list(table) == [T0] and len(table) == 1
