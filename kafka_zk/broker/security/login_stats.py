"""Counts of the logins at one listener, as Kafka's ``socket-server-metrics`` have them."""

from collections.abc import Callable

WINDOW_S = 30.0
"""Averages and maxima are those of the last two samples of this length, as with metrics.num.samples."""


class LoginStats:
    """Attributes: how many first logins of connections were ``successful`` and how many ``failed``; the same of later
    ones (``reauthentications``, ``failed_reauthentications``). ``without_reauthentication``: successful ones of
    clients that are too old to log in again. ``expired``: connections that were closed because their session was over.

    Source: Selector.SelectorMetrics@3.9, which calls them by the names of ``kafka_zk.broker.metrics.logins``.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self.successful = 0
        self.failed = 0
        self.without_reauthentication = 0
        self.reauthentications = 0
        self.failed_reauthentications = 0
        self.expired = 0
        self._latencies: list[tuple[float, int, float, float]] = []  # start, count, sum and maximum of each sample

    def logged_in(self, *, can_reauthenticate: bool = False) -> None:
        """A client has logged in. ``can_reauthenticate``: the response said how long its session lasts."""
        self.successful += 1
        self.without_reauthentication += not can_reauthenticate

    def login_failed(self, *, again: bool = False) -> None:
        """A client could not log in, or not ``again``."""
        if again:
            self.failed_reauthentications += 1
        else:
            self.failed += 1

    def reauthenticated(self, latency_ms: float) -> None:
        """A client has logged in again, in this time from its SaslHandshake on."""
        self.reauthentications += 1
        now_s = self._now_s()
        if not self._latencies or now_s - self._latencies[-1][0] >= WINDOW_S:
            self._latencies = [*self._latencies[-1:], (now_s, 0, 0.0, latency_ms)]
        start_s, count, total_ms, longest_ms = self._latencies[-1]
        self._latencies[-1] = (start_s, count + 1, total_ms + latency_ms, max(longest_ms, latency_ms))

    @property
    def latency_ms(self) -> tuple[float, float] | None:
        """Average and maximum of the time that logging in again took lately; None if no client did."""
        recent = [sample for sample in self._latencies if self._now_s() - sample[0] < 2 * WINDOW_S]
        if not recent:
            return None
        count = sum(sample[1] for sample in recent)
        return sum(sample[2] for sample in recent) / count, max(sample[3] for sample in recent)
