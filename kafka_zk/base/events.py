"""Events that a process reports to its observers.

Each part of the system defines its own events as subclasses of `Event`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twisted.logger import Logger

from kafka_zk.base.clock import wall_ms

_log = Logger()


@dataclass(frozen=True, slots=True)
class Event:
    """``time_ms``: wall-clock time in ms since the epoch. ``actor``: the reporting process, such as ``broker-0``.
    ``cause``: the reason in a few words. ``zxid``: the ZooKeeper transaction that the event shows, or 0.
    """

    time_ms: int
    actor: str
    cause: str
    zxid: int


Observe = Callable[[Event], None]
"""Called with every event of this process, in order, on the thread where it occurs."""


def ignore(event: Event) -> None:
    """The observer that ignores every event."""


def harmless(observe: Observe) -> Observe:
    """An observer that logs the exceptions of ``observe``: a full disk must not cost a member its partitions."""
    if observe is ignore:
        return ignore

    def observed(event: Event) -> None:
        try:
            observe(event)
        except Exception:
            _log.failure("an observer failed at {event}", event=event)

    return observed


class EventSource:
    """Reports one actor's events; adds the time and the actor's name."""

    __slots__ = ("_clock_ms", "_observe", "actor")

    def __init__(self, actor: str = "", observe: Observe = ignore, clock_ms: Callable[[], int] = wall_ms) -> None:
        self.actor = actor
        self._observe = observe
        self._clock_ms = clock_ms

    @property
    def observed(self) -> bool:
        """True if there is an observer. Check this before computing values that only observers need."""
        return self._observe is not ignore

    def emit(self, kind: type[Event], *fields: Any, cause: str, zxid: int = 0) -> None:
        """``fields``: the fields of ``kind`` after the four that all events have."""
        if self.observed:
            self.emit_event(kind(self._clock_ms(), self.actor, cause, zxid, *fields))

    def emit_event(self, event: Event) -> None:
        """Report an event that already has its time."""
        self._observe(event)


SILENT = EventSource()
"""The source without an observer."""
