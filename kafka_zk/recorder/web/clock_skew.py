"""Estimates how far the cluster's clock is ahead of this machine's, from the times of new transactions. Pure.

A transaction that was read late looks as if the cluster's clock were behind; nothing makes it look as if the clock were
ahead. So a higher value is accepted immediately, and a lower one only if several reads agree for a few seconds.

Tests: tests/kafka_zk/recorder/web/test_clock_skew.py.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kafka_zk.recorder.zookeeper_files.transaction_log import Transaction

SKEW_MS = 3_000
"""Smaller differences of clocks cannot be distinguished from the delay before a change is recorded."""
LATE_MS = 1_000
"""After a longer pause between two reads, the second one may return old transactions."""
AGREE_MS = 1_000
"""Values that differ by less are the same."""
LOWER_READS, LOWER_MS = 3, 5_000
"""A lower value counts if this number of reads in a row, over this time, found it."""


class _Lower(NamedTuple):
    ahead_ms: int
    since_ms: int
    reads: int


class ClockSkew:
    """``step`` takes each read of the cluster's transactions."""

    def __init__(self) -> None:
        self._ahead_ms = 0
        self._lower: _Lower | None = None
        self._is_current = False
        self._read_ms = 0
        self._observed_ms = 0

    @property
    def skew_ms(self) -> int:
        """0 for differences up to SKEW_MS; negative if the cluster's clock is behind."""
        return self._ahead_ms if abs(self._ahead_ms) > SKEW_MS else 0

    def missed(self) -> None:
        """A read failed, so the next one may return old transactions."""
        self._is_current = False

    def step(self, transactions: Sequence[Transaction], now_ms: int, *, is_current: bool) -> None:
        """Take one read.

        Args:
            now_ms: this machine's wall clock.
            is_current: the source was read to its end and not interrupted.
        """
        was_current, self._is_current = self._is_current, is_current
        before_ms, self._read_ms = self._read_ms, now_ms
        times = self._written(transactions)
        if not (was_current and is_current and 0 <= now_ms - before_ms <= LATE_MS):
            self._lower = None
        elif times:
            self._compare(max(times) - now_ms, now_ms)

    def _written(self, transactions: Sequence[Transaction]) -> list[int]:
        """The times that certainly come from the cluster's clock. A transaction without a zxid was observed, and has
        this machine's time or a later one. Later transactions may inherit this time, because the times of a source
        never decrease.
        """
        self._observed_ms = max([self._observed_ms, *(each.time_ms for each in transactions if not each.zxid)])
        return [each.time_ms for each in transactions if each.zxid and each.time_ms > self._observed_ms]

    def _compare(self, ahead_ms: int, now_ms: int) -> None:
        if ahead_ms >= self._ahead_ms - AGREE_MS:
            self._ahead_ms, self._lower = max(self._ahead_ms, ahead_ms), None
        elif self._lower is None or abs(ahead_ms - self._lower.ahead_ms) > AGREE_MS:
            self._lower = _Lower(ahead_ms, now_ms, 1)
        else:
            lower = self._lower = self._lower._replace(reads=self._lower.reads + 1)
            if lower.reads >= LOWER_READS and now_ms - lower.since_ms >= LOWER_MS:
                self._ahead_ms, self._lower = ahead_ms, None
