"""What happened between this process and ZooKeeper, for observers (flight recorder, web page, tests).

Every event has the wall-clock time in ms since the epoch, the actor (who observed it, such as ``broker-0``), the cause
in a few words, and the zxid of the change that it shows (0 where there is none).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from kafka_zk.registry.client import EventType, RegistryClient, SessionState


@dataclass(frozen=True, slots=True)
class Event:
    """What all events have, those of groups and controllers too."""

    time_ms: int
    actor: str
    cause: str
    zxid: int


@dataclass(frozen=True, slots=True)
class RegistryEvent(Event):
    """Base of all here."""


@dataclass(frozen=True, slots=True)
class WatchArmed(RegistryEvent):
    """A read left a watch at ``path``."""

    path: str


@dataclass(frozen=True, slots=True)
class WatchFired(RegistryEvent):
    """The watch at ``path`` fired (``type`` NONE: it was dropped, because the connection or the session ended)."""

    path: str
    type: EventType


@dataclass(frozen=True, slots=True)
class Reread(RegistryEvent):
    """``path`` was read again; ``changed`` says whether it differs from what was last seen."""

    path: str
    changed: bool


@dataclass(frozen=True, slots=True)
class SessionChanged(RegistryEvent):
    """The client's connection or session changed; ``session_id`` is None while there is no session."""

    state: SessionState
    session_id: int | None


Observe = Callable[[RegistryEvent], None]


def ignore(event: RegistryEvent) -> None:
    """The observer that does not look."""


def wall_clock_ms() -> int:
    return int(time.time() * 1000)


def observe_session(
    client: RegistryClient, observe: Observe, actor: str, now_ms: Callable[[], int] = wall_clock_ms
) -> Callable[[], None]:
    """Report every change of the client's session; returns a function that stops it."""

    def changed(state: SessionState) -> None:
        observe(SessionChanged(now_ms(), actor, f"session {state.value}", 0, state, client.session_id))

    return client.add_session_listener(changed)
