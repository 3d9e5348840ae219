"""Peers that the log names once: those that do not speak Kafka's protocol or TLS, as health checks and browsers, or
that claim to be a controller. They connect again and again."""

MOST_PEERS = 1000


class ForeignPeers:
    """The peers that the log has named, at most MOST_PEERS: addresses, or addresses and what was wrong."""

    def __init__(self) -> None:
        self._named: set[str] = set()

    def is_first(self, peer: str) -> bool:
        """Whether the log should name this peer now."""
        if peer in self._named or len(self._named) == MOST_PEERS:
            return False
        self._named.add(peer)
        return True
