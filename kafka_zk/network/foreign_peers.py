"""Limits log lines about peers that keep connecting without success. Such peers do not use Kafka's protocol or TLS
(health checks, browsers), fail the TLS handshake, or claim to be a controller.

Each peer is logged once per ``PERIOD_S``, for at most ``MOST_PEERS`` peers. The last of these lines states the limit;
the next period's first line counts the peers left out.
"""

MOST_PEERS = 1000
PERIOD_S = 3600.0


class ForeignPeers:
    """The peers logged in this period, each an address, possibly with its error."""

    def __init__(self) -> None:
        self._named: set[str] = set()
        self._omitted = 0
        self._ends_s: float | None = None

    def mention(self, peer: str, now_s: float) -> str | None:
        """Return a suffix for the peer's log line, often empty; None if the peer must not be logged now.

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
