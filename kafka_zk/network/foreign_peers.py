"""Limits log lines about peers that keep connecting without success: those that speak neither Kafka's protocol nor TLS
(health checks, browsers), that fail in TLS, or that claim to be a controller.

Each peer is logged once per period of ``PERIOD_S``, and at most ``MOST_PEERS`` are; the log says when that number is
reached. The first line of the next period says how many peers were not logged.
"""

MOST_PEERS = 1000
PERIOD_S = 3600.0


class ForeignPeers:
    """The peers that were logged in this period: addresses, or addresses with the error."""

    def __init__(self) -> None:
        self._named: set[str] = set()
        self._omitted = 0
        self._ends_s: float | None = None

    def mention(self, peer: str, now_s: float) -> str | None:
        """The end of the log line about this peer, often empty; None if the peer must not be logged now.

        ``now_s``: seconds on a monotonic clock.
        """
        said = ""
        if self._ends_s is None or now_s >= self._ends_s:
            if self._omitted:
                said = f" ({self._omitted} others were not logged before)"
            self._named.clear()
            self._omitted = 0
            self._ends_s = now_s + PERIOD_S
        if peer in self._named:
            return None
        if len(self._named) == MOST_PEERS:
            self._omitted += 1
            return None
        self._named.add(peer)
        if len(self._named) == MOST_PEERS:
            minutes = (self._ends_s - now_s) / 60
            said = f" (number {MOST_PEERS}; others are not logged for {minutes:.0f} minutes)"
        return said
