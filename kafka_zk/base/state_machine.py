"""Reads tables of transitions: event -> state -> next state, or the error that rejects the event.

Each table lists every legal combination; any other is a bug in the caller.
"""

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

EventT = TypeVar("EventT", bound=Enum)
StateT = TypeVar("StateT", bound=Enum)
OutcomeT = TypeVar("OutcomeT")


class IllegalTransition(AssertionError):
    """The table does not list the event for the state. Nothing was changed."""


def outcome(transitions: Mapping[EventT, Mapping[StateT, OutcomeT]], event: EventT, state: StateT) -> OutcomeT:
    """Raises IllegalTransition."""
    try:
        return transitions[event][state]
    except KeyError:
        raise IllegalTransition(f"{event.value} in {state.value}") from None
