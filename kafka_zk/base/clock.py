"""Time: the only module that asks the machine for it. A simulated world gives a clock of its own.

Every process has two clocks. The wall clock says when something happened; it may be set, also backwards. The timers'
clock measures how long something took, and deadlines use it. Source: org.apache.kafka.common.utils.Time@3.9.
"""

import functools
import time
from collections.abc import Callable
from typing import Any, Protocol


class Timers(Protocol):
    """Time as a Twisted reactor (or ``task.Clock``) has it."""

    def seconds(self) -> float:
        """Now, on the clock of ``callLater``; only differences mean something."""

    def callLater(self, delay: float, call: Callable[..., object], /, *args: object) -> Any:
        """Call it in ``delay`` seconds; the answer has ``active``, ``cancel`` and ``getTime``."""


class Clock(Timers, Protocol):
    """Timers, and the time of day."""

    def wall_ms(self) -> int:
        """The wall clock, in ms since the epoch."""

    def wall_ns(self) -> int:
        """The same in ns, for what every request asks: the machine's own function, without a call of ours around it."""


AtEndOfTurn = Callable[[Callable[[], object]], object]
"""Calls what it is given before the reactor waits again."""


def end_of_turn(reactor: object) -> AtEndOfTurn:
    """``at_end_of_turn`` of a broker's reactor; with any other one everything is done at once."""
    at_end_of_turn: AtEndOfTurn = getattr(reactor, "at_end_of_turn", at_once)
    return at_end_of_turn


def at_once(call: Callable[[], object]) -> None:
    """An ``AtEndOfTurn`` that does not wait."""
    call()


def wall_ms() -> int:
    """The machine's wall clock, in ms since the epoch."""
    return time.time_ns() // 1_000_000


monotonic_s: Callable[[], float] = functools.partial(time.clock_gettime, time.CLOCK_MONOTONIC)
"""Seconds on a clock that is never set. Not ``time.monotonic``: in a user's tests freezegun replaces that everywhere,
and a reactor whose clock stands still calls no timer."""


sleep: Callable[[float], None] = time.sleep
"""Block this thread for so many seconds: for tools and for Spark's executors, never on a reactor's thread."""


def boottime_ms() -> float:
    """As ``monotonic_s``, in ms; it goes on while the machine sleeps, where the system has such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock) * 1000


class SystemClock:
    """The timers of a reactor and the machine's wall clock. Attributes, not methods: no call is added to a request."""

    __slots__ = ("callLater", "seconds", "wall_ms", "wall_ns")

    def __init__(self, reactor: Timers) -> None:
        self.seconds = reactor.seconds
        self.callLater = reactor.callLater
        self.wall_ms = wall_ms
        self.wall_ns = time.time_ns
