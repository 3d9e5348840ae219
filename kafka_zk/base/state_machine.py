"""How a table of transitions is read: event -> state -> the next state, or the error that refuses the event.

The tables stand beside their states (``states.py`` of the group, the controller and ``rebalance``). Each lists every
legal combination; any other is a bug in the caller.
"""

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

EventT = TypeVar("EventT", bound=Enum)
StateT = TypeVar("StateT", bound=Enum)
OutcomeT = TypeVar("OutcomeT")


class IllegalTransition(AssertionError):
    """An event that the table does not list for the state; nothing was changed."""


def outcome(transitions: Mapping[EventT, Mapping[StateT, OutcomeT]], event: EventT, state: StateT) -> OutcomeT:
    """What the event makes of the state. Raises: IllegalTransition."""
    try:
        return transitions[event][state]
    except KeyError:
        raise IllegalTransition(f"{event.value} in {state.value}") from None
