"""How long followers' fetches wait at a leader that has just begun to lead more partitions.

A follower has one fetch under way for all partitions of a leader. If that waits for records while the follower hears of
a partition that this broker leads now, nothing of it is fetched before the wait is over, and nothing is acknowledged
that waits for this follower. (Kafka leaves it at ``replica.fetch.wait.max.ms``.) Tests:
tests/kafka_zk/broker/handlers/data/test_replica_fetch.py.
"""

from collections.abc import Callable
from typing import NamedTuple

FIRST_WAIT_MS = 20


class FollowerFetches(NamedTuple):
    """The key by which followers' fetches wait for whatever changes, see ``partition_changes``."""

    kind: str = "follower fetches"


FOLLOWER_FETCHES = FollowerFetches()


class NewlyLed(NamedTuple):
    """The key by which followers' fetches wait for partitions that they do not ask for yet."""

    kind: str = "newly led"


class FollowerWaits:
    """``check``: the purgatory's. ``now_ms`` is a clock that is never set."""

    def __init__(self, now_ms: Callable[[], int], check: Callable[[NewlyLed], None]) -> None:
        self._now_ms = now_ms
        self._check = check
        self._newly_led_ms: int | None = None

    def newly_led(self) -> None:
        """This broker leads more partitions: fetches that wait are answered, and the next ones may ask for these."""
        self._newly_led_ms = self._now_ms()
        self._check(NewlyLed())

    def limit_ms(self, max_wait_ms: int) -> int:
        """How long a fetch may wait that asks for ``max_wait_ms``. The follower may hear later than the leader, so it
        is FIRST_WAIT_MS first, and then as long as has passed since."""
        if self._newly_led_ms is None:
            return max_wait_ms
        return min(max_wait_ms, max(FIRST_WAIT_MS, self._now_ms() - self._newly_led_ms))
