"""Peers that connect again and again and are logged only once: those that speak neither Kafka's protocol nor TLS
(health checks, browsers), or that claim to be a controller."""

MOST_PEERS = 1000


class ForeignPeers:
    """The peers that were logged, at most MOST_PEERS: addresses, or addresses with the error."""

    def __init__(self) -> None:
        self._named: set[str] = set()

    def is_first(self, peer: str) -> bool:
        """Whether the log should name this peer now."""
        if peer in self._named or len(self._named) == MOST_PEERS:
            return False
        self._named.add(peer)
        return True
