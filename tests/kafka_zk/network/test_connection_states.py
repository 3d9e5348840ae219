"""The effect of each event on a connection's states; ``test_accounts`` and ``test_pipelines`` drive them at random."""

from collections.abc import Mapping
from enum import Enum

import pytest

from kafka_zk.network.connection_states import (
    ASK,
    AUTHENTICATED,
    BEGIN,
    CLOSE,
    DRAIN,
    END,
    FILL,
    GRANT,
    LIMIT,
    LOSE,
    MUTE,
    PAUSE,
    READ,
    RESUME,
    SEND,
    SHAKE_AGAIN,
    UNMUTE,
    UNPAUSE,
    WAIT,
    Input,
    Output,
    Phase,
    Slot,
)

Table = Mapping[Enum, Enum]
EVENTS: dict[type[Enum], tuple[Table, ...]] = {
    Phase: (AUTHENTICATED, LIMIT, SHAKE_AGAIN, CLOSE, LOSE),  # type: ignore[dict-item]
    Slot: (BEGIN, WAIT, RESUME, END, READ, SEND),  # type: ignore[dict-item]
    Input: (PAUSE, ASK, GRANT, UNPAUSE),  # type: ignore[dict-item]
    Output: (FILL, DRAIN, MUTE, UNMUTE),  # type: ignore[dict-item]
}
FIRST = {Phase: (Phase.HANDSHAKING, Phase.OPEN), Slot: (Slot.IDLE,), Input: (Input.READING,), Output: (Output.READY,)}


@pytest.mark.parametrize("states", EVENTS)
def test_every_state_is_reached_and_only_the_last_phase_is_not_left(states: type[Enum]) -> None:
    seen: set[Enum] = set(FIRST[states])  # type: ignore[index]
    for _ in states:
        seen |= {event[state] for event in EVENTS[states] for state in seen if state in event}
    assert seen == set(states)
    left = {state for event in EVENTS[states] for state, following in event.items() if following is not state}
    assert set(states) - left == ({Phase.LOST} if states is Phase else set())


def test_a_connection_that_closes_never_opens_again() -> None:
    for event in (AUTHENTICATED, LIMIT, SHAKE_AGAIN, CLOSE, LOSE):
        for phase in (Phase.CLOSING, Phase.LOST):
            assert event[phase] in (Phase.CLOSING, Phase.LOST)


@pytest.mark.parametrize("slot", [Slot.HANDLING, Slot.WAITING, Slot.READING])
def test_no_request_begins_while_another_is_answered(slot: Slot) -> None:
    with pytest.raises(KeyError):
        BEGIN[slot]


def test_a_full_queue_and_a_throttle_end_independently() -> None:
    both = MUTE[FILL[Output.READY]]
    assert both is FILL[MUTE[Output.READY]]
    assert (DRAIN[both], UNMUTE[both]) == (Output.MUTED, Output.FULL)
    assert UNMUTE[DRAIN[both]] is DRAIN[UNMUTE[both]] is Output.READY
