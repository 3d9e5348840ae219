"""Virtual time: a Twisted ``Clock`` that jumps from one due call to the next, and one seeded random source.

The same seed gives the same order of everything, because nothing else decides: no thread, no socket, no real time.
"""

import heapq
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from twisted.internet.base import DelayedCall
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

T = TypeVar("T")


class Stuck(AssertionError):
    """What the test waits for did not happen within the given virtual time."""


class VirtualClock(Clock):
    """A Twisted clock that shows the time of day, too; it begins at ``epoch_ms``. Its calls lie in a heap: a run plans
    hundreds of thousands."""

    def __init__(self, epoch_ms: int = 0) -> None:
        super().__init__()
        self._epoch_ms = epoch_ms
        self._heap: list[tuple[float, int, DelayedCall]] = []
        self._numbers = 0

    def callLater(self, when: float, what: Callable[..., object], *args: object, **kwargs: object) -> DelayedCall:  # type: ignore[override]
        call = DelayedCall(
            self.seconds() + when, what, args, kwargs, lambda cancelled: None, self._plan, self.seconds
        )
        self._plan(call)
        return call

    def _plan(self, call: DelayedCall) -> None:
        """It was made, or moved: an entry with an old time is passed over."""
        self._numbers += 1
        heapq.heappush(self._heap, (call.getTime(), self._numbers, call))

    def next_due(self) -> float | None:
        """When the next call comes."""
        heap = self._heap
        while heap and not (heap[0][2].active() and heap[0][2].getTime() == heap[0][0]):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def getDelayedCalls(self) -> list[DelayedCall]:  # type: ignore[override]
        """Those that are still to come."""
        return list({id(call): call for _, _, call in self._heap if call.active()}.values())

    def advance(self, amount: float) -> None:
        self.advance_to(self.rightNow + amount)

    def advance_to(self, time_s: float) -> None:
        """Show that time and run what is due. (A sum of floats may fall short of it.)"""
        self.rightNow = max(self.rightNow, time_s)
        heap = self._heap
        while heap and heap[0][0] <= self.rightNow:
            planned_s, _, call = heapq.heappop(heap)
            if call.active() and call.getTime() == planned_s:
                call.called = 1
                self.run_call(call)

    def run_call(self, call: DelayedCall) -> None:
        """One turn of the reactor; a test may measure it."""
        call.func(*call.args, **call.kw)

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
        due = self.clock.next_due()
        if due is None:
            return False
        self.clock.advance_to(due)
        return True

    def run_for(self, duration_ms: float) -> None:
        """Let that much virtual time pass."""
        end = self.clock.seconds() + duration_ms / 1000
        while (due := self.clock.next_due()) is not None and due <= end:
            self.clock.advance_to(due)
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
