"""The properties of the table of a member's states."""

from __future__ import annotations

import pytest

from kafka_zk.clients.consumer.classic_states import HEARTBEATS, REBALANCING, TRANSITIONS, Event, MemberState

LIVING = [state for state in MemberState if state is not MemberState.LEFT]


def test_every_event_is_listed_and_nothing_revives_a_member_that_has_left() -> None:
    assert TRANSITIONS.keys() == set(Event)
    assert {after for states in TRANSITIONS.values() for before, after in states.items()
            if before is MemberState.LEFT} == {MemberState.LEFT}  # fmt: skip


@pytest.mark.parametrize("state", LIVING, ids=lambda state: state.name)
def test_a_member_can_be_closed_and_expelled_at_any_time(state: MemberState) -> None:
    assert TRANSITIONS[Event.ENDED][state] is MemberState.LEFT
    assert TRANSITIONS[Event.EXPELLED][state] is MemberState.UNJOINED


def test_only_an_assignment_makes_a_member_stable() -> None:
    to_stable = {(event, before) for event, states in TRANSITIONS.items() for before, after in states.items()
                 if after is MemberState.STABLE}  # fmt: skip
    assert to_stable == {(Event.ASSIGNED, MemberState.SYNCING)}


def test_a_state_whose_answer_is_withheld_has_no_heartbeats() -> None:
    """A member that counts partitions has received the response to JoinGroup."""
    assert HEARTBEATS.intersection(REBALANCING) == {MemberState.COUNTING}
