"""How many connections a broker takes: ``max.connections``, ``max.connections.per.ip`` and its overrides.

One object for all listeners of a broker. Source: ConnectionQuotas in SocketServer.scala@3.9. A full broker stops
accepting, an address above its limit is closed as soon as it was accepted. Kafka lets the inter-broker listener of
several go above ``max.connections`` by closing another listener's oldest connection; here it goes above it, nothing is
closed.
"""

from collections import Counter
from collections.abc import Callable, Mapping

UNLIMITED = 2147483647


class ConnectionQuotas:
    """Counts connections; pure."""

    def __init__(
        self,
        max_connections: int = UNLIMITED,
        max_connections_per_ip: int = UNLIMITED,
        max_connections_per_ip_overrides: Mapping[str, int] | None = None,
    ) -> None:
        self.max_connections = max_connections
        self.max_connections_per_ip = max_connections_per_ip
        self.max_connections_per_ip_overrides = dict(max_connections_per_ip_overrides or {})
        self.count = 0
        self._per_ip: Counter[str] = Counter()
        self._waiting: list[Callable[[], None]] = []

    def set_limits(self, max_connections: int, max_connections_per_ip: int, overrides: Mapping[str, int]) -> None:
        """New limits, which hold for connections from now on; those that are open stay."""
        self.max_connections = max_connections
        self.max_connections_per_ip = max_connections_per_ip
        self.max_connections_per_ip_overrides = dict(overrides)
        self._resume()

    def available(self) -> int:
        """How many connections may be accepted before the broker is full."""
        return max(0, self.max_connections - self.count)

    def opened(self, host: str) -> bool:
        """Count a connection from ``host``; False, and not counted, if that is above the limit of the address."""
        limit = self.max_connections_per_ip_overrides.get(host, self.max_connections_per_ip)
        if self._per_ip[host] >= limit:
            return False
        self._per_ip[host] += 1
        self.count += 1
        return True

    def closed(self, host: str) -> None:
        """A counted connection from ``host`` is over."""
        assert self._per_ip[host] > 0
        self._per_ip[host] -= 1
        if not self._per_ip[host]:
            del self._per_ip[host]
        self.count -= 1
        self._resume()

    def _resume(self) -> None:
        if self.available():
            waiting, self._waiting = self._waiting, []
            for resume in waiting:
                resume()

    def when_available(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` once, as soon as a connection may be accepted again."""
        if resume not in self._waiting:
            self._waiting.append(resume)
