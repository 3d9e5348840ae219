"""Connection limits of a broker: ``max.connections``, ``max.connections.per.ip`` and its overrides.

All listeners of a broker share one object. At ``max.connections``, the broker stops accepting, except on an
inter-broker listener if there are others. (Kafka then also closes the oldest connection of another listener.) A
connection above the limit of its address is accepted and closed. Source: ConnectionQuotas in SocketServer.scala@3.9.

The broker also stops accepting when it needs the remaining descriptors for its logs (``descriptors_for_connections``):
if it could not open a file, it would take the log directory offline.
"""

import resource
from collections import Counter
from collections.abc import Callable, Mapping

from kafka_zk.network.connection_rates import ConnectionRates

UNLIMITED = 2147483647

OTHER_DESCRIPTORS = 100
"""Descriptors for ZooKeeper, listeners, connections to other brokers, helper processes, and short-lived files such as
checkpoints."""


def descriptors_for_connections(limit: int, log_files: int) -> int:
    """Maximum number of connections for a process that may open ``limit`` files (from getrlimit) and keeps
    ``log_files`` segment files open. At least a quarter of ``limit``."""
    if limit == resource.RLIM_INFINITY:
        return UNLIMITED
    return max(limit // 4, limit - log_files - min(OTHER_DESCRIPTORS, limit // 4))


class ConnectionQuotas:
    """Counts the open connections of a broker; pure.

    Attributes:
        count: open connections of all addresses, without held ones.
        held_count: connections above the rate of their address, which are held open until they are closed.
            max_connections, max_connections_per_ip, max_connections_per_ip_overrides: limits for new connections.
        rates: limits on new connections per second.
    """

    def __init__(
        self,
        max_connections: int = UNLIMITED,
        max_connections_per_ip: int = UNLIMITED,
        max_connections_per_ip_overrides: Mapping[str, int] | None = None,
        descriptors: int = UNLIMITED,
        rates: ConnectionRates | None = None,
    ) -> None:
        self.max_connections = max_connections
        self.max_connections_per_ip = max_connections_per_ip
        self.max_connections_per_ip_overrides = dict(max_connections_per_ip_overrides or {})
        self.rates = rates or ConnectionRates()
        self.count = 0
        self.held_count = 0
        self._descriptors = descriptors
        self._told = False
        self._per_ip: Counter[str] = Counter()
        self._waiting: list[Callable[[], None]] = []

    def set_limits(self, max_connections: int, max_connections_per_ip: int, overrides: Mapping[str, int]) -> None:
        """Set limits for new connections. Open connections are not closed."""
        self.max_connections = max_connections
        self.max_connections_per_ip = max_connections_per_ip
        self.max_connections_per_ip_overrides = dict(overrides)
        self._resume()

    def available(self) -> int:
        """Number of connections that the broker can accept now."""
        return max(0, min(self.max_connections - self.count, self._descriptors - self.count - self.held_count))

    def lacks_descriptors(self) -> bool:
        """True once if the broker cannot accept connections because it has too few descriptors. True again only after
        the number of connections fell below 90 % of the limit."""
        if self._told or self.count < self._descriptors:
            return False
        self._told = True
        return True

    def opened(self, host: str) -> bool:
        """Count a connection from ``host``. If the address is at its limit, returns False and does not count it."""
        limit = self.max_connections_per_ip_overrides.get(host, self.max_connections_per_ip)
        if self._per_ip[host] >= limit:
            return False
        self._per_ip[host] += 1
        self.count += 1
        return True

    def closed(self, host: str) -> None:
        """Uncount a connection from ``host``."""
        assert self._per_ip[host] > 0
        self._per_ip[host] -= 1
        if not self._per_ip[host]:
            del self._per_ip[host]
        self.count -= 1
        if self.count < self._descriptors - self._descriptors // 10:
            self._told = False
        self._resume()

    def hold(self) -> None:
        """Count a connection that is held until it is closed."""
        self.held_count += 1

    def release(self) -> None:
        """Uncount a held connection."""
        self.held_count -= 1
        self._resume()

    def _resume(self) -> None:
        if self.available():
            waiting, self._waiting = self._waiting, []
            for resume in waiting:
                resume()

    def when_available(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` once, when the broker can accept a connection again."""
        if resume not in self._waiting:
            self._waiting.append(resume)
