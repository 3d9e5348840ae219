"""Peers that connect again and again and are logged only once: those that speak neither Kafka's protocol nor TLS
(health checks, browsers), that fail in TLS, or that claim to be a controller.

At most ``MOST_PEERS`` are logged in ``PERIOD_S``; the log says when that number is reached. The next period begins with
the first peer after its end: all may be logged again, and the line says how many were not.
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
        """Whether the log should name this peer now: the end of its line, often empty; None if it should not.

        ``now_s``: seconds on a clock that is never set.
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
