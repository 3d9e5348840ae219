"""Only this module reads the machine's clocks; the simulator passes its own.

The wall clock gives the date of events and can jump in both directions. The monotonic clock of the timers measures
durations and deadlines. Source: org.apache.kafka.common.utils.Time@3.9.
"""

import functools
import time
from collections.abc import Callable
from typing import Any, Protocol


class Timers(Protocol):
    """The timers of a Twisted reactor (or ``task.Clock``)."""

    def seconds(self) -> float:
        """Current time on the clock of ``callLater``; only differences are meaningful."""

    def callLater(self, delay: float, call: Callable[..., object], /, *args: object) -> Any:
        """The returned timer has ``active``, ``cancel`` and ``getTime``."""


class Clock(Timers, Protocol):
    def wall_ms(self) -> int:
        """The wall clock, in ms since the epoch."""

    def wall_ns(self) -> int:
        """The wall clock, in ns. Every request reads this clock, so it is the system's function without a wrapper."""


AtEndOfTurn = Callable[[Callable[[], object]], object]
"""Runs a callable before the reactor waits for events again."""


def end_of_turn(reactor: object) -> AtEndOfTurn:
    """``at_end_of_turn`` of a broker's reactor; other reactors run the callable immediately."""
    at_end_of_turn: AtEndOfTurn = getattr(reactor, "at_end_of_turn", at_once)
    return at_end_of_turn


def at_once(call: Callable[[], object]) -> None:
    call()


def wall_ms() -> int:
    """The machine's wall clock, in ms since the epoch."""
    return time.time_ns() // 1_000_000


def wall_us() -> int:
    """The machine's wall clock, in microseconds since the epoch."""
    return time.time_ns() // 1_000


monotonic_s: Callable[[], float] = functools.partial(time.clock_gettime, time.CLOCK_MONOTONIC)
"""Seconds on a clock that never jumps. Not ``time.monotonic``: freezegun replaces it in users' tests, and a reactor
with a frozen clock runs no timer.
"""


sleep: Callable[[float], None] = time.sleep
"""Block this thread for that many seconds. For tools and Spark executors; never for a reactor thread."""


def boottime_ms() -> float:
    """Like ``monotonic_s``, in ms, but includes the time in system sleep where CLOCK_BOOTTIME exists."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock) * 1000


class SystemClock:
    """The functions are attributes, which saves a method call per request."""

    __slots__ = ("callLater", "seconds", "wall_ms", "wall_ns")

    def __init__(self, reactor: Timers) -> None:
        self.seconds = reactor.seconds
        self.callLater = reactor.callLater
        self.wall_ms = wall_ms
        self.wall_ns = time.time_ns
