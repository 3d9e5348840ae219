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
    """The watch at ``path`` fired. ``type`` NONE: the end of the connection or session dropped it."""

    path: str
    type: EventType


@dataclass(frozen=True, slots=True)
class Reread(RegistryEvent):
    """``path`` was read again. ``changed``: it differs from the last read."""

    path: str
    changed: bool


@dataclass(frozen=True, slots=True)
class SessionChanged(RegistryEvent):
    """The client's connection or session changed. ``session_id`` is None if there is no session."""

    state: SessionState
    session_id: int | None


def observe_session(client: RegistryClient, events: EventSource) -> Callable[[], None]:
    """Report every change of the client's session. Returns a function that stops the reports."""

    def changed(state: SessionState) -> None:
        events.emit(SessionChanged, state, client.session_id, cause=f"session {state.value}")

    return client.add_session_listener(changed)
