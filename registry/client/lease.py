"""Limits how long a process may act as the owner of its ephemerals.

After a pause, it does not know whether its session has ended. So it acts only within 2/3 of the session timeout after
sending the last request that ZooKeeper's leader answered. The leader, which expires sessions, cannot have expired this
one by then. Other servers' responses to reads prove nothing, because those servers may have lost the leader. Pure.
Times: ms on one monotonic clock.
"""


class Lease:
    """Remembers when the last answered request was sent."""

    __slots__ = ("_last_sent_ms", "duration_ms")

    def __init__(self, session_timeout_ms: int) -> None:
        self.duration_ms = session_timeout_ms * 2 / 3
        self._last_sent_ms: float | None = None

    def answered(self, sent_ms: float) -> None:
        """Record a response; responses may come in any order."""
        if self._last_sent_ms is None or sent_ms > self._last_sent_ms:
            self._last_sent_ms = sent_ms

    def revoke(self) -> None:
        """End the lease with its session; only a response in the next session renews it."""
        self._last_sent_ms = None

    def held(self, now_ms: float) -> bool:
        return self.remaining_ms(now_ms) > 0

    def remaining_ms(self, now_ms: float) -> float:
        """Remaining duration without further responses; 0 after the end of the lease. Any thread may call this."""
        last_sent_ms = self._last_sent_ms  # read once: another thread may revoke the lease
        return 0.0 if last_sent_ms is None else max(0.0, last_sent_ms + self.duration_ms - now_ms)
