"""Logins at one listener, counted as in Kafka's ``socket-server-metrics``."""

from collections.abc import Callable

WINDOW_S = 30.0
"""Averages and maxima cover the last two samples, as with metrics.num.samples."""


class LoginStats:
    """Counts the logins at one listener.

    Attributes:
        successful, failed: first logins of connections.
        reauthentications, failed_reauthentications: later logins.
        without_reauthentication: successful, by clients too old for reauthentication.
        expired: connections closed after their session's end.

    Source: Selector.SelectorMetrics@3.9; ``kafka_zk.broker.metrics.logins`` names the metrics.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self.successful = 0
        self.failed = 0
        self.without_reauthentication = 0
        self.reauthentications = 0
        self.failed_reauthentications = 0
        self.expired = 0
        self._latencies: list[tuple[float, int, float, float]] = []  # start (s), count, sum and maximum (ms)

    def logged_in(self, *, can_reauthenticate: bool = False) -> None:
        """Count a successful first login. ``can_reauthenticate``: the response contained the session's lifetime."""
        self.successful += 1
        self.without_reauthentication += not can_reauthenticate

    def login_failed(self, *, again: bool = False) -> None:
        """Count a failed first login or, with ``again``, a failed reauthentication."""
        if again:
            self.failed_reauthentications += 1
        else:
            self.failed += 1

    def reauthenticated(self, latency_ms: float) -> None:
        """Count a successful reauthentication. ``latency_ms``: time since its SaslHandshake."""
        self.reauthentications += 1
        now_s = self._now_s()
        if not self._latencies or now_s - self._latencies[-1][0] >= WINDOW_S:
            self._latencies = [*self._latencies[-1:], (now_s, 0, 0.0, latency_ms)]
        start_s, count, total_ms, longest_ms = self._latencies[-1]
        self._latencies[-1] = (start_s, count + 1, total_ms + latency_ms, max(longest_ms, latency_ms))

    @property
    def latency_ms(self) -> tuple[float, float] | None:
        """Average and maximum time of recent reauthentications; None if there were no reauthentications."""
        recent = [sample for sample in self._latencies if self._now_s() - sample[0] < 2 * WINDOW_S]
        if not recent:
            return None
        count = sum(sample[1] for sample in recent)
        return sum(sample[2] for sample in recent) / count, max(sample[3] for sample in recent)
