"""Peers that the log names once: those that do not speak Kafka's protocol, as health checks and browsers, or that
claim to be a controller. They connect again and again."""

MOST_PEERS = 1000


class ForeignPeers:
    """The addresses that the log has named, at most MOST_PEERS."""

    def __init__(self) -> None:
        self._named: set[str] = set()

    def is_first(self, peer_host: str) -> bool:
        """Whether the log should name this address now."""
        if peer_host in self._named or len(self._named) == MOST_PEERS:
            return False
        self._named.add(peer_host)
        return True
