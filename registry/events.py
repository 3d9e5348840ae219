"""What happened between this process and ZooKeeper, for observers (flight recorder, web page, tests).

Every event has the wall-clock time in ms since the epoch, the actor (who observed it, such as ``broker-0``), the cause
in a few words, and the zxid of the change that it shows (0 where there is none).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twisted.logger import Logger

from kafka_zk.base.clock import wall_ms
from kafka_zk.registry.client.client import EventType, RegistryClient, SessionState

_log = Logger()


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


Observe = Callable[[Event], None]
"""Called with every event of this process's parts, in order, on the thread where they happen."""


def ignore(event: Event) -> None:
    """The observer that does not look."""


def harmless(observe: Observe) -> Observe:
    """An observer whose exceptions are logged: a full disk below a trace must not cost a member its partitions."""
    if observe is ignore:
        return ignore

    def observed(event: Event) -> None:
        try:
            observe(event)
        except Exception:
            _log.failure("an observer failed at {event}", event=event)

    return observed


class EventSource:
    """Where the events of one actor come from: stamps them with the time and its name, and tells the observer."""

    __slots__ = ("_clock_ms", "_observe", "actor")

    def __init__(self, actor: str = "", observe: Observe = ignore, clock_ms: Callable[[], int] = wall_ms) -> None:
        self.actor = actor
        self._observe = observe
        self._clock_ms = clock_ms

    @property
    def observed(self) -> bool:
        """Whether anybody looks: what only observers need is not even computed otherwise."""
        return self._observe is not ignore

    def emit(self, kind: type[Event], *fields: Any, cause: str, zxid: int = 0) -> None:
        """``fields`` are those that ``kind`` has after the four that all events have."""
        if self.observed:
            self.tell(kind(self._clock_ms(), self.actor, cause, zxid, *fields))

    def tell(self, event: Event) -> None:
        """Tell the observer of an event that has its time already."""
        self._observe(event)


SILENT = EventSource()
"""The source of what nobody observes."""


def observe_session(client: RegistryClient, events: EventSource) -> Callable[[], None]:
    """Report every change of the client's session; returns a function that stops it."""

    def changed(state: SessionState) -> None:
        events.emit(SessionChanged, state, client.session_id, cause=f"session {state.value}")

    return client.add_session_listener(changed)
