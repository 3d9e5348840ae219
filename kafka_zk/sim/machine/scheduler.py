"""Virtual time: a Twisted ``Clock`` that jumps from one due call to the next; and one seeded random source.

The same seed gives the same order of all calls, because no threads, sockets or real time are involved.
"""

import random
from collections.abc import Callable, Coroutine
from functools import partial
from heapq import heappop, heappush
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.error import AlreadyCalled, AlreadyCancelled
from twisted.internet.task import Clock

T = TypeVar("T")


class Stuck(AssertionError):
    """The condition did not hold within the given virtual time."""


class PlannedCall:
    """Like Twisted's DelayedCall, but smaller, because a run schedules hundreds of thousands of calls."""

    __slots__ = ("_clock", "_is_cancelled", "args", "called", "func", "is_active", "time_s")

    def __init__(
        self, clock: "VirtualClock", time_s: float, func: Callable[..., object], args: tuple[object, ...]
    ) -> None:
        self._clock = clock
        self._is_cancelled = False
        self.called = False
        self.is_active = True
        self.time_s = time_s
        self.func = func
        self.args = args

    def active(self) -> bool:
        return self.is_active

    def getTime(self) -> float:
        return self.time_s

    def cancel(self) -> None:
        self._check()
        self._is_cancelled = True
        self.is_active = False

    def reset(self, seconds: float) -> None:
        self._check()
        self._clock.move(self, self._clock.rightNow + seconds)

    def delay(self, seconds: float) -> None:
        self._check()
        self._clock.move(self, self.time_s + seconds)

    def _check(self) -> None:
        if self._is_cancelled:
            raise AlreadyCancelled
        if self.called:
            raise AlreadyCalled


_Certain = tuple[Callable[..., object], tuple[object, ...]]
"""A call that cannot be cancelled or moved: callable and arguments."""


class VirtualClock(Clock):
    """The wall clock begins at ``epoch_ms``. A heap orders calls by time, then in the order in which they were
    scheduled.
    """

    run_call: Callable[[Callable[..., object], tuple[object, ...]], None] | None = None
    """Set by a test that measures reactor turns."""

    def __init__(self, epoch_ms: int = 0) -> None:
        super().__init__()
        self._epoch_ms = epoch_ms
        self._heap: list[tuple[float, int, PlannedCall | _Certain]] = []
        self._numbers = 0

    def callLater(self, when: float, what: Callable[..., object], *args: object, **kwargs: object) -> PlannedCall:  # type: ignore[override]
        time_s = self.rightNow + when
        call = PlannedCall(self, time_s, partial(what, **kwargs) if kwargs else what, args)
        self._numbers += 1
        heappush(self._heap, (time_s, self._numbers, call))
        return call

    def plan(self, delay_s: float, what: Callable[..., object], *args: object) -> None:
        """Plan a call that cannot be cancelled."""
        self._numbers += 1
        heappush(self._heap, (self.rightNow + delay_s, self._numbers, (what, args)))

    def move(self, call: PlannedCall, time_s: float) -> None:
        """Plan the call for another time; its old heap entry is skipped."""
        call.time_s = time_s
        self._numbers += 1
        heappush(self._heap, (time_s, self._numbers, call))

    def next_due(self) -> float | None:
        heap = self._heap
        while heap:
            planned_s, _, call = heap[0]
            if isinstance(call, tuple) or (call.is_active and call.time_s == planned_s):
                return planned_s
            heappop(heap)
        return None

    def getDelayedCalls(self) -> list[PlannedCall]:  # type: ignore[override]
        """The planned calls that can be cancelled."""
        planned = [call for _, _, call in self._heap if isinstance(call, PlannedCall)]
        return list({id(call): call for call in planned if call.is_active}.values())

    def advance(self, amount: float) -> None:
        self.advance_to(self.rightNow + amount)

    def advance_to(self, time_s: float) -> None:
        """Set the time and run due calls. (A sum of floats may be slightly less than ``time_s``.)"""
        self.rightNow = max(self.rightNow, time_s)
        heap = self._heap
        while heap and heap[0][0] <= self.rightNow:
            self._run_next()

    def run_until(self, time_s: float) -> None:
        heap = self._heap
        while heap and (due_s := heap[0][0]) <= time_s:
            if due_s > self.rightNow:
                self.rightNow = due_s
            self._run_next()
        self.rightNow = max(self.rightNow, time_s)

    def _run_next(self) -> None:
        planned_s, _, call = heappop(self._heap)
        if isinstance(call, tuple):
            func, args = call
        elif call.is_active and call.time_s == planned_s:
            func, args = call.func, call.args
            call.called = True
            call.is_active = False
        else:
            return
        if self.run_call is None:
            func(*args)
        else:
            self.run_call(func, args)

    def wall_ms(self) -> int:
        return self._epoch_ms + int(self.seconds() * 1000)

    def wall_ns(self) -> int:
        return self.wall_ms() * 1_000_000


class Scheduler:
    """``clock`` replaces a reactor's time."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.clock = VirtualClock()

    @property
    def now_ms(self) -> float:
        return self.clock.rightNow * 1000

    def step(self) -> bool:
        """Run the next due calls. False if no call is scheduled."""
        due = self.clock.next_due()
        if due is None:
            return False
        self.clock.advance_to(due)
        return True

    def run_for(self, duration_ms: float, is_over: Callable[[], bool] = lambda: False) -> None:
        """Run due calls for this time. ``is_over``: called every virtual second; True ends the run early."""
        end_s = self.clock.rightNow + duration_ms / 1000
        while self.clock.rightNow < end_s and not is_over():
            self.clock.run_until(min(self.clock.rightNow + 1, end_s))

    def run_until(self, condition: Callable[[], object], limit_ms: float = 60_000) -> None:
        """Run due calls until the condition is true. Raises Stuck after ``limit_ms`` of virtual time."""
        end = self.clock.seconds() + limit_ms / 1000
        while not condition():
            if self.clock.seconds() > end or not self.step():
                raise Stuck(f"the condition did not hold within {limit_ms} ms of virtual time (seed {self.seed})")

    def start(self, work: "Coroutine[Any, Any, T]") -> "Deferred[T]":
        """Start work, which continues during the next ``run…``."""
        return ensureDeferred(work)

    def run(self, work: "Coroutine[Any, Any, T] | Deferred[T]", limit_ms: float = 60_000) -> T:
        """Returns the work's result or raises its exception."""
        outcome: list[Any] = []
        failures: list[Any] = []
        ensureDeferred(work).addCallbacks(outcome.append, failures.append)
        self.run_until(lambda: outcome or failures, limit_ms)
        if failures:
            failures[0].raiseException()
        result: T = outcome[0]
        return result
