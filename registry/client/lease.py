"""The lease: how long a process may act as the owner of its ephemerals.

After a pause, a process does not know whether its session has ended. It therefore acts only while less than 2/3 of the
session timeout has passed since it sent the last request that the leader answered; the leader, which expires sessions,
cannot have expired it by then. (Other servers answer reads alone, even when cut off from the leader.) Pure: all times
are ms of one monotonic clock.
"""


class Lease:
    """Remembers the latest send time of an answered request."""

    __slots__ = ("_last_sent_ms", "duration_ms")

    def __init__(self, session_timeout_ms: int) -> None:
        self.duration_ms = session_timeout_ms * 2 / 3
        self._last_sent_ms: float | None = None

    def answered(self, sent_ms: float) -> None:
        """Note the response to a request sent at ``sent_ms``, in any order."""
        if self._last_sent_ms is None or sent_ms > self._last_sent_ms:
            self._last_sent_ms = sent_ms

    def revoke(self) -> None:
        """The session ended; only a response in the next one renews the lease."""
        self._last_sent_ms = None

    def held(self, now_ms: float) -> bool:
        return self.remaining_ms(now_ms) > 0

    def remaining_ms(self, now_ms: float) -> float:
        """How long the lease lasts without further responses; 0 after its end. Any thread may call it."""
        last_sent_ms = self._last_sent_ms  # read once: another thread may revoke the lease
        return 0.0 if last_sent_ms is None else max(0.0, last_sent_ms + self.duration_ms - now_ms)
