"""What one owner of a quota has used of it: rates of bytes and of time, and a bucket of tokens.

A bound of 0 is no division by zero: each request is answered, and then its client is held back for one sample's time.
(Kafka's brokers answer at once, as if there were no quota.)

Pure: times are ms on a clock that is never set. Source: Sensor.java, TokenBucket.java, QuotaUtils.scala,
ClientRequestQuotaManager.scala@3.9. Tests: tests/kafka_zk/broker/quota/test_buckets.py.
"""

from math import floor

from kafka_zk.base.rate import MOST_THROTTLE_MS, QuotaWindow, Rate

PACE = 1.1
"""Who was throttled sends at most so much of the bound within one sample, until a whole window passed without a
throttle. Else a burst comes back whenever the window forgets it, and the throughput of a minute is off by a tenth."""

_AVERAGED_MS = 30_000
_NEVER_MS = -(2**62)


class ThrottleTimes:
    """The average of the throttle times of the last 30 to 60 s, as Kafka's metric has it."""

    __slots__ = ("_before", "_count", "_start_ms", "_sum_ms")

    def __init__(self) -> None:
        self._start_ms: float = _NEVER_MS
        self._sum_ms = self._count = 0
        self._before = (0, 0)

    def add(self, throttle_ms: int, now_ms: float) -> None:
        """A client is throttled now."""
        self._turn(now_ms)
        self._sum_ms += throttle_ms
        self._count += 1

    def average_ms(self, now_ms: float) -> float:
        """0 if no client was throttled."""
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
    """A rate, its bound, and how long a client that exceeds it is held back.

    Args:
        most_throttle_ms: the longest throttle.

    Attributes:
        most_in_window: what an idle client may use at once without a throttle.
    """

    __slots__ = ("_bound", "_exceeded_ms", "_free", "_most_throttle_ms", "most_in_window", "throttles")

    def __init__(self, window: QuotaWindow, bound: float, most_throttle_ms: int = MOST_THROTTLE_MS) -> None:
        super().__init__(window)
        self.throttles = ThrottleTimes()
        self._most_throttle_ms = most_throttle_ms
        self._exceeded_ms: float = _NEVER_MS  # when the rate was above the bound last
        self._free: float = -1  # up to this sum no client is held back, and nothing need be computed
        self.set_bound(bound)

    @property
    def bound(self) -> float:
        return self._bound

    def set_bound(self, bound: float) -> None:
        """From now on; what was recorded counts."""
        self._bound = bound
        self.most_in_window = bound * (self.window.sample_count - 1) * self.window.sample_ms / 1000
        self._free = self.most_in_window if bound else -1

    def add(self, value: float, now_ms: float) -> int:
        """Count ``value``; returns how long its client is held back, 0 for not at all."""
        if now_ms >= self._ends_ms:
            self._begin(now_ms)
        self.total += value
        self._last_ms = now_ms
        if self.total <= self._free:
            return 0
        return self.hold_back_ms(now_ms)

    def admit(self, value: float, now_ms: float) -> int:
        """Count ``value`` if it fits in, and return 0; else how long to wait before it is tried again.

        What would not fit into an idle client's window either is let in as soon as the rate is not above its bound.
        Then the negative of how long its client is held back for it is returned. Either counts among ``throttles``.
        """
        if now_ms >= self._ends_ms:
            self._begin(now_ms)
        total = self.total + value
        if total <= self._free:
            self.total = total
            self._last_ms = now_ms
            return 0
        is_hopeless = value > self.most_in_window
        wait_ms = self._excess_ms(now_ms, 0 if is_hopeless else value) if self._bound else 0
        wait_ms = wait_ms or -self.add(value, now_ms)
        if wait_ms:
            self.throttles.add(abs(wait_ms), now_ms)
        return wait_ms

    def _excess_ms(self, now_ms: float, added: float = 0) -> int:
        """How long the rate is above its bound if nothing more comes, with ``added`` now; 0 if it is not."""
        throttle_ms = min(self.throttle_ms(self._bound, now_ms, added), self._most_throttle_ms)
        if throttle_ms <= 0:
            return 0
        self._exceeded_ms = now_ms
        self._free = -1
        return throttle_ms

    def hold_back_ms(self, now_ms: float) -> int:
        """How long the client that has used what was recorded is throttled; 0 for not at all."""
        if self.total <= self._free:
            return 0
        if not self._bound:
            return self.window.sample_ms
        throttle_ms = self._excess_ms(now_ms)
        if throttle_ms:
            return throttle_ms
        if now_ms - self._exceeded_ms >= self.window.sample_count * self.window.sample_ms:
            self._free = self.most_in_window
            return 0
        present = self.total - self._older_total
        paced_ms = floor(present * 1000 / (self._bound * PACE) - (now_ms - self._start_ms))
        return min(max(0, paced_ms), self._most_throttle_ms)


class TokenBucket:
    """Tokens that grow at ``bound`` a second, up to what a whole window brings; it is full at first.

    A client that takes more than there are makes a debt. Until it is paid, there are no tokens.
    """

    __slots__ = ("_tokens", "_updated_ms", "bound", "rate", "throttles", "window")

    bound: float

    def __init__(self, window: QuotaWindow, bound: float, now_ms: float) -> None:
        self.window = window
        self.bound = bound
        self.rate = Rate(window)  # shown only
        self.throttles = ThrottleTimes()
        self._tokens = self._burst
        self._updated_ms = now_ms

    @property
    def _burst(self) -> float:
        return self.bound * self.window.sample_count * self.window.sample_ms / 1000

    def set_bound(self, bound: float) -> None:
        """From now on; tokens and debts stay."""
        self.bound = bound

    def tokens(self, now_ms: float) -> float:
        """How many there are; negative: the debt."""
        grown = self._tokens + self.bound * (now_ms - self._updated_ms) / 1000
        self._tokens = min(self._burst, grown)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, count: float, now_ms: float) -> None:
        """Take this number of tokens, whether they are there or not."""
        self._tokens = self.tokens(now_ms) - count
        self.rate.record(count, now_ms)

    def debt_ms(self, now_ms: float) -> int:
        """How long it takes until the debt is paid; 0 if there is none, or nothing would ever pay it."""
        if not self.bound:
            return 0
        debt_ms = max(0.0, -self.tokens(now_ms)) * 1000 / self.bound
        return floor(debt_ms + 0.5) if debt_ms < MOST_THROTTLE_MS else MOST_THROTTLE_MS
