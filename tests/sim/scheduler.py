"""Virtual time: a Twisted ``Clock`` that jumps from one due call to the next, and one seeded random source.

The same seed gives the same order of everything, because nothing else decides: no thread, no socket, no real time.
"""

import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from twisted.internet.base import DelayedCall
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

T = TypeVar("T")


class Stuck(AssertionError):
    """What the test waits for did not happen within the given virtual time."""


class VirtualClock(Clock):
    """A Twisted clock that shows the time of day, too; it begins at ``epoch_ms``."""

    def __init__(self, epoch_ms: int = 0) -> None:
        super().__init__()
        self._epoch_ms = epoch_ms

    def advance_to(self, time_s: float) -> None:
        """Show that time and run what is due. (``advance`` adds, and a sum of floats may fall short.)"""
        self.rightNow = max(self.rightNow, time_s)
        self.advance(0.0)

    def wall_ms(self) -> int:
        return self._epoch_ms + int(self.seconds() * 1000)

    def wall_ns(self) -> int:
        return self.wall_ms() * 1_000_000


class Scheduler:
    """Owns ``clock`` (give it to everything that wants a reactor's time) and ``random``."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.clock = VirtualClock()

    @property
    def now_ms(self) -> float:
        return self.clock.seconds() * 1000

    def step(self) -> bool:
        """Run what is due next; False when nothing is planned any more."""
        due = self._next_due()
        if due is None:
            return False
        self.clock.advance_to(due)
        return True

    def _next_due(self) -> float | None:
        calls = cast(list[DelayedCall], self.clock.getDelayedCalls())
        return min((call.getTime() for call in calls), default=None)

    def run_for(self, duration_ms: float) -> None:
        """Let that much virtual time pass."""
        end = self.clock.seconds() + duration_ms / 1000
        while (due := self._next_due()) is not None and due <= end:
            self.step()
        self.clock.advance_to(end)

    def run_until(self, condition: Callable[[], object], limit_ms: float = 60_000) -> None:
        """Step until the condition holds. Raises Stuck after ``limit_ms`` of virtual time."""
        end = self.clock.seconds() + limit_ms / 1000
        while not condition():
            if self.clock.seconds() > end or not self.step():
                raise Stuck(f"not so within {limit_ms} ms of virtual time (seed {self.seed})")

    def start(self, work: "Coroutine[Any, Any, T]") -> "Deferred[T]":
        """Begin the work; it goes on with the next ``run…``."""
        return ensureDeferred(work)

    def run(self, work: "Coroutine[Any, Any, T] | Deferred[T]", limit_ms: float = 60_000) -> T:
        """Step until the work is done; its result, or its exception raised."""
        outcome: list[Any] = []
        failures: list[Any] = []
        ensureDeferred(work).addCallbacks(outcome.append, failures.append)
        self.run_until(lambda: outcome or failures, limit_ms)
        if failures:
            failures[0].raiseException()
        result: T = outcome[0]
        return result
