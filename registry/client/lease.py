"""The lease: until when a process may act as the owner of its ephemerals.

A process that wakes up from a pause does not know yet that its session is over. So it acts only while the send time of
the last request that the leader answered lies less than 2/3 of the session timeout in the past: the leader, which is
who expires sessions, cannot have done so by then. (Other servers answer reads by themselves, also when the leader has
lost them.) Pure: all times are given, in ms of one monotonic clock.
"""


class Lease:
    """Remembers the latest send time of an answered request (the lease may be held from then on)."""

    __slots__ = ("_last_sent_ms", "duration_ms")

    def __init__(self, session_timeout_ms: int) -> None:
        self.duration_ms = session_timeout_ms * 2 / 3
        self._last_sent_ms: float | None = None

    def answered(self, sent_ms: float) -> None:
        """A request sent then was answered now; answers may be noted in any order."""
        if self._last_sent_ms is None or sent_ms > self._last_sent_ms:
            self._last_sent_ms = sent_ms

    def revoke(self) -> None:
        """The session is over; only an answer of the next one renews the lease."""
        self._last_sent_ms = None

    def held(self, now_ms: float) -> bool:
        return self.remaining_ms(now_ms) > 0

    def remaining_ms(self, now_ms: float) -> float:
        """How long the lease lasts if nothing more is answered; 0 when it has ended. Any thread may ask."""
        last_sent_ms = self._last_sent_ms  # once: another thread may revoke the lease in between
        return 0.0 if last_sent_ms is None else max(0.0, last_sent_ms + self.duration_ms - now_ms)
