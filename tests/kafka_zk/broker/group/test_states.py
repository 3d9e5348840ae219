"""The table of states, compared with the validPreviousStates of Kafka's GroupMetadata.scala."""

import itertools

import pytest

from kafka_zk.base.state_machine import IllegalTransition, outcome
from kafka_zk.broker.group.states import TRANSITIONS, Event, GroupState
from kafka_zk.protocol.errors import ErrorCode

PREVIOUS = {
    "Empty": {"PreparingRebalance"},
    "PreparingRebalance": {"Empty", "Stable", "CompletingRebalance"},
    "CompletingRebalance": {"PreparingRebalance"},
    "Stable": {"CompletingRebalance"},
    "Dead": {"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"},
}
REQUESTS = (
    Event.JOIN,
    Event.SYNC,
    Event.HEARTBEAT,
    Event.LEAVE,
    Event.COMMIT,
    Event.TXN_COMMIT,
    Event.COMMIT_WITHOUT_MEMBER,
)


def test_the_changes_are_kafkas() -> None:
    found: dict[str, set[str]] = {"Dead": {"Dead"}}
    for changes in TRANSITIONS.values():
        for before, after in changes.items():
            if isinstance(after, GroupState) and after is not before:
                found.setdefault(after.value, set()).add(before.value)
    assert found == PREVIOUS


def test_every_event_is_listed_and_requests_have_an_answer_in_every_state() -> None:
    assert set(TRANSITIONS) == set(Event)
    for event in REQUESTS:
        assert set(TRANSITIONS[event]) == set(GroupState)
        assert TRANSITIONS[event][GroupState.DEAD] is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(("event", "state"), list(itertools.product(Event, GroupState)))
def test_what_is_not_listed_is_refused(event: Event, state: GroupState) -> None:
    if state in TRANSITIONS[event]:
        assert outcome(TRANSITIONS, event, state) is TRANSITIONS[event][state]
    else:
        with pytest.raises(IllegalTransition, match=f"{event.value} in {state.value}"):
            outcome(TRANSITIONS, event, state)
