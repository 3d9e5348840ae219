"""Limits how long followers' fetches wait at a leader that has just begun to lead more partitions.

A follower has one fetch in progress per leader. If that fetch waits for records when the follower learns of a new
partition of the leader, the partition is not fetched until the fetch ends, and acks=all appends to it wait. (Kafka
accepts this for ``replica.fetch.wait.max.ms``.) Tests: tests/kafka_zk/broker/handlers/data/test_replica_fetch.py.
"""

from collections.abc import Callable
from typing import NamedTuple

FIRST_WAIT_MS = 20


class FollowerFetches(NamedTuple):
    """Purgatory key of followers' fetches that wait for any change, see ``partition_changes``."""

    kind: str = "follower fetches"


FOLLOWER_FETCHES = FollowerFetches()


class NewlyLed(NamedTuple):
    """Purgatory key of followers' fetches, checked when this broker leads more partitions."""

    kind: str = "newly led"


class FollowerWaits:
    """``check``: the purgatory's method. ``now_ms``: a monotonic clock."""

    def __init__(self, now_ms: Callable[[], int], check: Callable[[NewlyLed], None]) -> None:
        self._now_ms = now_ms
        self._check = check
        self._newly_led_ms: int | None = None

    def newly_led(self) -> None:
        """Complete the waiting fetches, so that the next ones can include the new partitions."""
        self._newly_led_ms = self._now_ms()
        self._check(NewlyLed())

    def limit_ms(self, max_wait_ms: int) -> int:
        """The maximum wait of a fetch that requests ``max_wait_ms``.

        The follower may learn of the partitions later, so the limit is FIRST_WAIT_MS at first, then the time passed
        since.
        """
        if self._newly_led_ms is None:
            return max_wait_ms
        return min(max_wait_ms, max(FIRST_WAIT_MS, self._now_ms() - self._newly_led_ms))
