"""Events between this process and ZooKeeper: watches, reads after watches, and session changes."""

from collections.abc import Callable
from dataclasses import dataclass

from kafka_zk.base.events import Event, EventSource
from kafka_zk.registry.client.client import EventType, RegistryClient, SessionState


@dataclass(frozen=True, slots=True)
class RegistryEvent(Event):
    """Base of all events in this module."""


@dataclass(frozen=True, slots=True)
class WatchArmed(RegistryEvent):
    """A read set a watch at ``path``."""

    path: str


@dataclass(frozen=True, slots=True)
class WatchFired(RegistryEvent):
    """``type`` NONE: the connection or session ended."""

    path: str
    type: EventType


@dataclass(frozen=True, slots=True)
class Reread(RegistryEvent):
    """``changed``: True if the znode differs from the last read."""

    path: str
    changed: bool


@dataclass(frozen=True, slots=True)
class SessionChanged(RegistryEvent):
    """``session_id``: None if there is no session."""

    state: SessionState
    session_id: int | None


def observe_session(client: RegistryClient, events: EventSource) -> Callable[[], None]:
    """Report every session change. Returns a function that stops the reports."""

    def changed(state: SessionState) -> None:
        events.emit(SessionChanged, state, client.session_id, cause=f"session {state.value}")

    return client.add_session_listener(changed)
