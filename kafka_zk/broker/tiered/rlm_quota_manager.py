"""Limits the bytes per second that are copied to remote storage or read from it (KIP-956).

Bytes above the limit are a debt. The next copy or read waits until the debt is paid. After a pause, one window's
worth of bytes passes without a wait. Kafka forgets bytes when they leave the window. Here they stay a debt, so the
average rate keeps the limit even if one segment is larger than a window allows.
Source: RLMQuotaManager.java@3.9.
"""

from collections.abc import Callable

from kafka_zk.base.clock import Timers
from kafka_zk.base.rate import QuotaWindow
from kafka_zk.base.turns import after
from kafka_zk.broker.quota.buckets import TokenBucket
from kafka_zk.storage.files.config_table import LONG_MAX

_MOST_WAIT_MS = 1000  # interval at which a wait checks whether the limit has changed, or the wait is over


class RLMQuotaManager:
    """``bytes_per_second``: returns the current limit, at least 1."""

    def __init__(self, clock: Timers, bytes_per_second: Callable[[], int], window: QuotaWindow) -> None:
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._bucket = TokenBucket(window, LONG_MAX, self._now_ms())

    @property
    def throttle_ms(self) -> int:
        """How long to wait before the next copy or read; 0 if one may begin."""
        self._bucket.set_bound(self._bytes_per_second())
        return self._bucket.debt_ms(self._now_ms())

    def record(self, size_bytes: int) -> None:
        self._bucket.take(size_bytes, self._now_ms())

    def note_throttle(self) -> int:
        """Return ``throttle_ms``, and count it in ``average_throttle_ms`` if it is not 0."""
        throttle_ms = self.throttle_ms
        if throttle_ms:
            self._bucket.throttles.add(throttle_ms, self._now_ms())
        return throttle_ms

    async def wait(self, is_over: Callable[[], bool]) -> None:
        """Wait until a copy may begin. Ends at most a second after ``is_over`` becomes True."""
        while not is_over() and (throttle_ms := self.note_throttle()):
            await after(self._clock, min(throttle_ms, _MOST_WAIT_MS) / 1000)

    @property
    def byte_rate(self) -> float:
        """Bytes per second over the window."""
        return self._bucket.rate.per_second(self._now_ms())

    @property
    def average_throttle_ms(self) -> float:
        """Average throttle of the last minute, in ms; 0 if no copy or read waited."""
        return self._bucket.throttles.average_ms(self._now_ms())

    def _now_ms(self) -> float:
        return self._clock.seconds() * 1000
