"""The lease: how long a process may act as the owner of its ephemerals.

After a pause, a process does not know whether its session has ended. It therefore acts only within 2/3 of the session
timeout after it sent the last request that ZooKeeper's leader answered. The leader, which expires sessions, cannot have
expired it by then. Responses of other servers to reads prove nothing, because they may have lost the leader. Pure: all
times are ms of one monotonic clock.
"""


class Lease:
    """Remembers the latest send time of an answered request."""

    __slots__ = ("_last_sent_ms", "duration_ms")

    def __init__(self, session_timeout_ms: int) -> None:
        self.duration_ms = session_timeout_ms * 2 / 3
        self._last_sent_ms: float | None = None

    def answered(self, sent_ms: float) -> None:
        """Record the response to a request sent at ``sent_ms``. Responses may come in any order."""
        if self._last_sent_ms is None or sent_ms > self._last_sent_ms:
            self._last_sent_ms = sent_ms

    def revoke(self) -> None:
        """End the lease, because the session ended. Only a response in the next session renews it."""
        self._last_sent_ms = None

    def held(self, now_ms: float) -> bool:
        return self.remaining_ms(now_ms) > 0

    def remaining_ms(self, now_ms: float) -> float:
        """Remaining duration without further responses; 0 after the end of the lease. Any thread may call this."""
        last_sent_ms = self._last_sent_ms  # read once: another thread may revoke the lease
        return 0.0 if last_sent_ms is None else max(0.0, last_sent_ms + self.duration_ms - now_ms)
