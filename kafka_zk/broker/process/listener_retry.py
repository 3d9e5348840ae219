"""Decides when to retry listeners that lack an address, users or keys. Pure.

Each attempt, including one that a configuration change caused, doubles the wait, up to ``MAX_WAIT_MS``; the wait is
short again when another listener lacks something.
"""

from dataclasses import dataclass

MIN_WAIT_MS = 1_000
MAX_WAIT_MS = 60_000


@dataclass(frozen=True, slots=True)
class Followed:
    """The listeners were changed as far as possible. ``lacking``: those that do not serve as configured."""

    lacking: frozenset[str]


@dataclass(frozen=True, slots=True)
class Interrupted:
    """ZooKeeper failed; the change must be completed."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The broker stops."""


@dataclass(frozen=True, slots=True)
class FollowIn:
    """Follow the configuration after ``wait_ms``, which replaces any earlier wait."""

    wait_ms: int


@dataclass(frozen=True, slots=True)
class StopWaiting:
    """No attempt is due."""


Event = Followed | Interrupted | Stopped
Effect = FollowIn | StopWaiting


class ListenerRetry:
    """Decides after each attempt whether another one follows."""

    def __init__(self) -> None:
        self._lacking: frozenset[str] | None = frozenset()  # None: interrupted
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
