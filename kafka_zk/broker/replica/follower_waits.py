"""Limits how long followers wait at a leader that has just begun to lead more partitions.

A follower has one fetch per leader. While that fetch waits for records, a new partition is not fetched, and acks=all
appends to it wait. (Kafka accepts this for ``replica.fetch.wait.max.ms``.) Tests:
tests/kafka_zk/broker/handlers/data/test_replica_fetch.py.
"""

from collections.abc import Callable
from typing import NamedTuple

FIRST_WAIT_MS = 20


class FollowerFetches(NamedTuple):
    """Purgatory key of fetches that wait for any change, see ``partition_changes``."""

    kind: str = "follower fetches"


FOLLOWER_FETCHES = FollowerFetches()


class NewlyLed(NamedTuple):
    """Purgatory key that is checked when this broker begins to lead more partitions."""

    kind: str = "newly led"


class FollowerWaits:
    """``check``: ``Purgatory.check``. ``now_ms``: the monotonic clock."""

    def __init__(self, now_ms: Callable[[], int], check: Callable[[NewlyLed], None]) -> None:
        self._now_ms = now_ms
        self._check = check
        self._newly_led_ms: int | None = None

    def newly_led(self) -> None:
        """Complete waiting fetches, so that the followers' next fetches can include the new partitions."""
        self._newly_led_ms = self._now_ms()
        self._check(NewlyLed())

    def limit_ms(self, max_wait_ms: int) -> int:
        """The maximum wait of a fetch that requests ``max_wait_ms``.

        A follower may learn of the new partitions later than this leader, so the limit starts at FIRST_WAIT_MS and
        grows with the time since ``newly_led``.
        """
        if self._newly_led_ms is None:
            return max_wait_ms
        return min(max_wait_ms, max(FIRST_WAIT_MS, self._now_ms() - self._newly_led_ms))
