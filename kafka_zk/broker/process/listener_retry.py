"""Decides when a broker tries again to give its listeners what they lack: an address, users or keys. Pure.

The wait doubles with each attempt, up to ``MAX_WAIT_MS``, and becomes short again when another listener lacks
something. A change of the configuration is also an attempt.
"""

from dataclasses import dataclass

MIN_WAIT_MS = 1_000
MAX_WAIT_MS = 60_000


@dataclass(frozen=True, slots=True)
class Followed:
    """The listeners were changed as far as possible. ``lacking``: names of those that do not serve as configured."""

    lacking: frozenset[str]


@dataclass(frozen=True, slots=True)
class Interrupted:
    """An error of ZooKeeper ended a change, which must be completed."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The broker stops."""


@dataclass(frozen=True, slots=True)
class FollowIn:
    """Follow the configuration again after ``wait_ms``. This replaces any earlier wait."""

    wait_ms: int


@dataclass(frozen=True, slots=True)
class StopWaiting:
    """No attempt is due."""


Event = Followed | Interrupted | Stopped
Effect = FollowIn | StopWaiting


class ListenerRetry:
    """Decides after each attempt whether another one follows."""

    def __init__(self) -> None:
        self._lacking: frozenset[str] | None = frozenset()  # None after an interrupted attempt
        self._wait_ms = 0

    def step(self, event: Event) -> Effect:
        if isinstance(event, Stopped):
            return StopWaiting()
        lacking = event.lacking if isinstance(event, Followed) else None
        is_worse = lacking != self._lacking and not (lacking and self._lacking and lacking < self._lacking)
        self._lacking = lacking
        if lacking is not None and not lacking:
            return StopWaiting()
        self._wait_ms = MIN_WAIT_MS if is_worse else min(self._wait_ms * 2, MAX_WAIT_MS)
        return FollowIn(self._wait_ms)
