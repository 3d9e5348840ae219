"""One process of the simulated world: its clock, timers and threads, and its kills and pauses.

A process is killed or paused between two of its steps. Messages to a paused process wait. When it resumes, its own
timers run first, so a zombie acts before it learns that its session has expired. Its clock may run fast or slow, and
its wall clock may jump. It replaces a Twisted reactor (``seconds``, ``callLater``) and ``base.clock.Clock``.
"""

from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.error import AlreadyCalled, AlreadyCancelled
from twisted.python.failure import Failure

from kafka_zk.sim.machine.scheduler import Scheduler

T = TypeVar("T")
THREAD_S = (0.00005, 0.002)
"""Minimum and maximum duration of one piece of work in a thread."""
LATE_S = 0.000_01
"""How late timers fire: late enough that code which counts whole milliseconds finds them due."""


class Timer:
    """Like Twisted's DelayedCall. ``number``: the number of its entry among the process's timers; 0 if not planned."""

    __slots__ = ("_cancelled", "_process", "args", "call", "called", "number", "time_s")

    def __init__(self, process: "Process", call: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._process = process
        self.called = self._cancelled = False
        self.time_s = 0.0
        self.call = call
        self.args = args
        self.number = 0

    def active(self) -> bool:
        return self.number > 0

    def getTime(self) -> float:
        return self.time_s

    def cancel(self) -> None:
        self._check()
        self._cancelled = True
        self.number = 0

    def reset(self, seconds: float) -> None:
        self._check()
        self._process.plan(self, self._process.seconds() + seconds)

    def _check(self) -> None:
        if self._cancelled:
            raise AlreadyCancelled
        if self.called:
            raise AlreadyCalled


class Process:
    """``failed``: called with an exception of a timer or message; the process continues, as under Twisted.
    ``epoch_ms``: wall-clock time at the beginning.
    """

    def __init__(
        self, name: str, scheduler: Scheduler, random: Random, failed: Callable[[Failure], None], epoch_ms: int = 0
    ) -> None:
        self.name = name
        self.is_alive = True
        self.is_paused = False
        self.thread_s = THREAD_S
        """Duration of one piece of work in a thread (minimum, maximum); seconds on a busy disk."""
        self._clock = scheduler.clock
        self._random = random
        self._failed = failed
        self._wall_offset_ms = epoch_ms
        self._rate = 1.0
        self._base_s = self._world_base_s = scheduler.clock.rightNow
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = 0
        self._wake: Any = None
        self._is_at_timers = False
        self._held_back: list[Callable[[], None]] = []
        self._never: list[object] = []  # messages for the killed process; see ``kill``

    # -- time -----------------------------------------------------------------------------------------------------

    def seconds(self) -> float:
        return self._base_s + (self._clock.rightNow - self._world_base_s) * self._rate

    def wall_ms(self) -> int:
        seconds = self._base_s + (self._clock.rightNow - self._world_base_s) * self._rate
        return self._wall_offset_ms + int(seconds * 1000)

    def wall_ns(self) -> int:
        return self.wall_ms() * 1_000_000

    def callLater(self, delay: float, call: Callable[..., object], /, *args: object) -> Timer:
        timer = Timer(self, call, args)
        seconds = self._base_s + (self._clock.rightNow - self._world_base_s) * self._rate
        self.plan(timer, seconds + delay)
        return timer

    def plan(self, timer: Timer, time_s: float) -> None:
        self._numbers += 1
        timer.time_s, timer.number = time_s, self._numbers
        heappush(self._timers, (time_s, self._numbers, timer))
        if self._timers[0][2] is timer and not self._is_at_timers:
            self._plan_wake()

    def set_clock(self, rate: float = 1.0, jump_ms: int = 0) -> None:
        """Change the rate from now on, and move the wall clock by ``jump_ms``."""
        self._base_s, self._world_base_s = self.seconds(), self._clock.rightNow
        self._rate = rate
        self._wall_offset_ms += jump_ms
        self._plan_wake()

    def _plan_wake(self) -> None:
        if self._wake is not None and self._wake.active():
            self._wake.cancel()
        self._wake = None
        timers = self._timers
        while timers and timers[0][2].number != timers[0][1]:  # cancelled or moved
            heappop(timers)
        if timers and self.is_alive and not self.is_paused:
            wait_s = (timers[0][0] - self.seconds()) / self._rate
            self._wake = self._clock.callLater((wait_s if wait_s > 0 else 0.0) + LATE_S, self._run_due)

    def _run_due(self) -> None:
        last = self._numbers
        now_s = self.seconds()
        timers = self._timers
        self._is_at_timers = True  # so that the next wake-up is planned when all have run
        while timers and timers[0][0] <= now_s and timers[0][1] <= last and self.is_alive:
            if self.is_paused:
                break
            _, number, timer = heappop(timers)
            if timer.number == number:
                timer.number = 0
                timer.called = True
                self._run(timer.call, *timer.args)
        self._is_at_timers = False
        self._plan_wake()

    # -- faults and messages --------------------------------------------------------------------------------------

    def receive(self, message: Callable[..., None], *args: object) -> None:
        """Receive a message from outside. A paused process receives it when it resumes, a dead process never."""
        if not self.is_alive:
            self._never.append(partial(message, *args))
        elif self.is_paused:
            self._held_back.append(partial(message, *args))
        else:
            try:
                message(*args)
            except Exception:
                self._failed(Failure())

    def pause(self) -> None:
        """Act like SIGSTOP."""
        self.is_paused = True
        self._plan_wake()

    def resume(self) -> None:
        """Act like SIGCONT."""
        if not self.is_alive or not self.is_paused:
            return
        self.is_paused = False
        self._run_due()
        held_back, self._held_back = self._held_back, []
        for message in held_back:
            self.receive(message)

    def kill(self) -> None:
        """Act like SIGKILL. Pending messages are kept in memory, because freeing them would run ``finally`` blocks of
        the process's coroutines.
        """
        self.is_alive = False
        self._plan_wake()

    def keep(self, what: object) -> None:
        """Keep an object of the killed process in memory, because freeing it would run ``finally`` blocks."""
        self._never.append(what)

    def run_in_thread(self, work: Callable[[], T], /) -> "Deferred[T]":
        """Run ``work`` in a simulated thread. It runs after a short delay, and later its result arrives."""
        done: Deferred[T] = Deferred()

        def finish() -> None:
            if not self.is_alive:
                self._never.append(done)
                return
            try:
                result = work()
            except Exception:
                failure = Failure()
                self.receive(done.errback, failure)
            else:
                self.receive(done.callback, result)

        least_s, most_s = self.thread_s
        self._clock.plan(least_s + (most_s - least_s) * self._random.random(), finish)
        return done

    def _run(self, step: Callable[..., object], *args: object) -> None:
        try:
            step(*args)
        except Exception:
            self._failed(Failure())
