"""Rates over a sliding window, as Kafka's quotas measure them.

A window has ``sample_count`` samples of ``sample_ms`` each. A new sample begins with the first value that arrives at
least ``sample_ms`` after the last sample began. One additional sample may overlap the start of the window. A sample is
dropped when its last value is older than the window.

Pure: times are ms on a monotonic clock. Source: SampledStat.java, Rate.java, SimpleRate.java, QuotaUtils.scala@3.9.
"""

from math import floor
from typing import NamedTuple

_NEVER_MS = -(2**62)
MOST_THROTTLE_MS = 2**31 - 1
"""The largest int32, which is the type of ``throttle_time_ms``."""


class QuotaWindow(NamedTuple):
    sample_count: int = 11
    sample_ms: int = 1000


class WindowedSum:
    """The sum of the values in the window.

    Attributes:
        total: up to date after ``record`` and ``forget_old``.
        ends_ms: when the current sample ends.
        last_ms: time of the last value.
    """

    __slots__ = (
        "_forget_ms", "_older", "_older_total", "_oldest_ms", "_start_ms", "ends_ms", "last_ms", "total", "window",
    )  # fmt: skip

    def __init__(self, window: QuotaWindow) -> None:
        self.window = window
        self.total: float = 0
        self._older: list[tuple[float, float, float]] = []  # (start, last value, sum) of each sample, oldest first
        self._start_ms: float = _NEVER_MS  # start of the current sample; before the first, the fields below are empty
        self.ends_ms: float = _NEVER_MS
        self.last_ms: float = _NEVER_MS
        self._older_total: float = 0
        self._oldest_ms: float = 0
        self._forget_ms: float = -_NEVER_MS  # no sample expires before this time

    def record(self, value: float, now_ms: float) -> None:
        if now_ms >= self.ends_ms:
            self._begin(now_ms)
        self.total += value
        self.last_ms = now_ms

    def _begin(self, now_ms: float) -> None:
        if self.ends_ms != _NEVER_MS:
            self._older.append((self._start_ms, self.last_ms, self.total - self._older_total))
            if len(self._older) > self.window.sample_count:
                del self._older[0]
        self._start_ms = now_ms
        self.ends_ms = now_ms + self.window.sample_ms
        self.last_ms = now_ms
        self._sum_up(0)

    def _sum_up(self, present: float) -> None:
        self._older_total = sum(value for _, _, value in self._older)
        self.total = self._older_total + present
        self._oldest_ms = self._older[0][0] if self._older else self._start_ms
        last_ms = self._older[0][1] if self._older else self.last_ms
        self._forget_ms = last_ms + self.window.sample_count * self.window.sample_ms

    def forget_old(self, now_ms: float) -> None:
        """Drop samples that have no value in the window."""
        if now_ms < self._forget_ms:
            return
        horizon_ms = now_ms - self.window.sample_count * self.window.sample_ms
        present = self.total - self._older_total
        while self._older and self._older[0][1] <= horizon_ms:
            del self._older[0]
        if not self._older and self.last_ms <= horizon_ms:
            self.ends_ms = _NEVER_MS
            self._older_total = self.total = 0
            self._forget_ms = -_NEVER_MS
        else:
            self._sum_up(present)

    @property
    def is_empty(self) -> bool:
        return self.ends_ms == _NEVER_MS

    def elapsed_ms(self, now_ms: float) -> float:
        """Time since the oldest sample began; 0 without samples."""
        return 0 if self.ends_ms == _NEVER_MS else now_ms - self._oldest_ms


class SimpleRate(WindowedSum):
    """Values per second from the start of the oldest sample until now, over at least ``sample_ms``."""

    __slots__ = ()

    def per_second(self, now_ms: float) -> float:
        self.forget_old(now_ms)
        return self.total * 1000 / max(self.elapsed_ms(now_ms), self.window.sample_ms)


class Rate(WindowedSum):
    """Values per second, as if all samples before the current one were complete, so that a client's first value does
    not count as a burst.
    """

    __slots__ = ()

    def window_ms(self, now_ms: float) -> float:
        """The duration over which the sum is spread."""
        elapsed_ms = 0 if self.ends_ms == _NEVER_MS else now_ms - self._oldest_ms
        sample_count, sample_ms = self.window
        least_ms = (sample_count - 1) * sample_ms
        if elapsed_ms < least_ms:
            return least_ms + elapsed_ms % sample_ms
        return elapsed_ms or 1

    def per_second(self, now_ms: float) -> float:
        self.forget_old(now_ms)
        return self.total * 1000 / self.window_ms(now_ms)

    def throttle_ms(self, bound: float, now_ms: float, added: float = 0) -> int:
        """How long to pause until the rate, with ``added`` recorded now, falls to ``bound`` (> 0) per second. At most 0
        if the rate does not exceed the bound.
        """
        if now_ms >= self._forget_ms:
            self.forget_old(now_ms)
        throttle_ms = (self.total + added) * 1000 / bound - self.window_ms(now_ms)
        return floor(throttle_ms + 0.5) if throttle_ms < MOST_THROTTLE_MS else MOST_THROTTLE_MS
