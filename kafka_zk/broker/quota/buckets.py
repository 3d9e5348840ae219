"""Measures a quota's usage: rates of bytes and time, and a bucket of tokens.

Unlike in Kafka, a request is answered even if the bound is 0, and its client is then throttled for one sample.

Pure. Times: ms on a monotonic clock. Source: Sensor.java, TokenBucket.java, QuotaUtils.scala,
ClientRequestQuotaManager.scala@3.9.
"""

from math import floor

from kafka_zk.base.rate import MOST_THROTTLE_MS, QuotaWindow, Rate

PACE = 1.1
"""A client that was throttled may use at most PACE times the bound in each sample, until a window passes without a
throttle. Otherwise bursts would repeat after each window, and a minute's throughput would be off by a tenth."""

_AVERAGED_MS = 30_000
_NEVER_MS = -(2**62)


class ThrottleTimes:
    """Average of the last 30 to 60 s, as in Kafka's metric."""

    __slots__ = ("_before", "_count", "_start_ms", "_sum_ms")

    def __init__(self) -> None:
        self._start_ms: float = _NEVER_MS
        self._sum_ms = self._count = 0
        self._before = (0, 0)

    def add(self, throttle_ms: int, now_ms: float) -> None:
        self._turn(now_ms)
        self._sum_ms += throttle_ms
        self._count += 1

    def average_ms(self, now_ms: float) -> float:
        """Average in ms; 0 if no client was throttled."""
        self._turn(now_ms)
        count = self._count + self._before[1]
        return (self._sum_ms + self._before[0]) / count if count else 0.0

    def _turn(self, now_ms: float) -> None:
        age_ms = now_ms - self._start_ms
        if age_ms >= _AVERAGED_MS:
            self._before = (self._sum_ms, self._count) if age_ms < 2 * _AVERAGED_MS else (0, 0)
            self._sum_ms = self._count = 0
            self._start_ms = now_ms


class RateBucket(Rate):
    """A rate and its bound per second. Computes how long to throttle a client that exceeds the bound.

    Args:
        most_throttle_ms: the longest throttle.

    Attributes:
        free: up to this total, ``add`` returns 0 without a calculation; -1: ``add`` always calculates.
        most_in_window: what an idle client may use in one burst: ``bound`` times (the window minus one sample).
        throttles: recorded by the caller and ``admit``.
    """

    __slots__ = ("_bound", "_exceeded_ms", "_most_throttle_ms", "free", "most_in_window", "throttles")

    def __init__(self, window: QuotaWindow, bound: float, most_throttle_ms: int = MOST_THROTTLE_MS) -> None:
        super().__init__(window)
        self.throttles = ThrottleTimes()
        self._most_throttle_ms = most_throttle_ms
        self._exceeded_ms: float = _NEVER_MS  # when the rate last exceeded the bound
        self.free: float = -1
        self.set_bound(bound)

    @property
    def bound(self) -> float:
        return self._bound

    def set_bound(self, bound: float) -> None:
        """Set the bound; recorded values are kept."""
        self._bound = bound
        self.most_in_window = bound * (self.window.sample_count - 1) * self.window.sample_ms / 1000
        self.free = self.most_in_window if bound else -1

    def add(self, value: float, now_ms: float) -> int:
        """Record ``value`` and return how many ms to throttle the client."""
        if now_ms >= self.ends_ms:
            self._begin(now_ms)
        self.total += value
        self.last_ms = now_ms
        if self.total <= self.free:
            return 0
        return self.hold_back_ms(now_ms)

    def admit(self, value: float, now_ms: float) -> int:
        """If ``value`` fits, record it and return 0. Otherwise return how many ms to wait before a retry.

        A value above ``most_in_window`` never fits. It is recorded as soon as the rate is within its bound; the result
        is then the client's throttle in ms, negated. Waits and throttles are recorded in ``throttles``.
        """
        if now_ms >= self.ends_ms:
            self._begin(now_ms)
        total = self.total + value
        if total <= self.free:
            self.total = total
            self.last_ms = now_ms
            return 0
        is_hopeless = value > self.most_in_window
        wait_ms = self._excess_ms(now_ms, 0 if is_hopeless else value) if self._bound else 0
        wait_ms = wait_ms or -self.add(value, now_ms)
        if wait_ms:
            self.throttles.add(abs(wait_ms), now_ms)
        return wait_ms

    def _excess_ms(self, now_ms: float, added: float = 0) -> int:
        """For how many ms the rate exceeds its bound if ``added`` is recorded now and nothing later; 0 if it does not
        exceed the bound."""
        throttle_ms = min(self.throttle_ms(self._bound, now_ms, added), self._most_throttle_ms)
        if throttle_ms <= 0:
            return 0
        self._exceeded_ms = now_ms
        self.free = -1
        return throttle_ms

    def hold_back_ms(self, now_ms: float) -> int:
        """How many ms to throttle the client for its recorded usage."""
        if self.total <= self.free:
            return 0
        if not self._bound:
            return self.window.sample_ms
        throttle_ms = self._excess_ms(now_ms)
        if throttle_ms:
            return throttle_ms
        if now_ms - self._exceeded_ms >= self.window.sample_count * self.window.sample_ms:
            self.free = self.most_in_window
            return 0
        present = self.total - self._older_total
        paced_ms = floor(present * 1000 / (self._bound * PACE) - (now_ms - self._start_ms))
        return min(max(0, paced_ms), self._most_throttle_ms)


class TokenBucket:
    """Tokens that grow by ``bound`` per second, up to the tokens of a whole window; full at first. Negative tokens are
    a debt, which is paid first.

    Attributes:
        bound: tokens per second.
        rate: tokens per second, for metrics.
        throttles: recorded by the caller.
    """

    __slots__ = ("_tokens", "_updated_ms", "bound", "rate", "throttles", "window")

    bound: float

    def __init__(self, window: QuotaWindow, bound: float, now_ms: float) -> None:
        self.window = window
        self.bound = bound
        self.rate = Rate(window)
        self.throttles = ThrottleTimes()
        self._tokens = self._burst
        self._updated_ms = now_ms

    @property
    def _burst(self) -> float:
        return self.bound * self.window.sample_count * self.window.sample_ms / 1000

    def set_bound(self, bound: float) -> None:
        """Set the bound; tokens and debt are kept."""
        self.bound = bound

    def tokens(self, now_ms: float) -> float:
        """Number of tokens; a debt is negative."""
        grown = self._tokens + self.bound * (now_ms - self._updated_ms) / 1000
        self._tokens = min(self._burst, grown)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, count: float, now_ms: float) -> None:
        """Take ``count`` tokens, even if that causes a debt."""
        self._tokens = self.tokens(now_ms) - count
        self.rate.record(count, now_ms)

    def debt_ms(self, now_ms: float) -> int:
        """How many ms until the debt is paid; 0 if there is no debt, or the bound is 0."""
        if not self.bound:
            return 0
        debt_ms = max(0.0, -self.tokens(now_ms)) * 1000 / self.bound
        return floor(debt_ms + 0.5) if debt_ms < MOST_THROTTLE_MS else MOST_THROTTLE_MS
