"""Connection limits of a broker: ``max.connections``, ``max.connections.per.ip`` and its overrides.

A broker's listeners share one object. At ``max.connections``, accepting stops, except on an inter-broker listener if
there are others. (Kafka also closes another listener's oldest connection.) A connection above its address's limit is
accepted and closed. Source: ConnectionQuotas in SocketServer.scala@3.9.

Accepting also stops when the logs need the other descriptors (``descriptors_for_connections``). Otherwise, a file that
cannot be opened takes its log directory offline.
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
    """Number of connections that a process may have if it can open ``limit`` files (from getrlimit) and keeps
    ``log_files`` open: at least a quarter of ``limit``."""
    if limit == resource.RLIM_INFINITY:
        return UNLIMITED
    return max(limit // 4, limit - log_files - min(OTHER_DESCRIPTORS, limit // 4))


class ConnectionQuotas:
    """Counts a broker's connections; pure.

    Attributes:
        count: open connections, without held ones.
        held_count: connections above their address's rate, held until closed.
        max_connections, max_connections_per_ip, max_connections_per_ip_overrides: for new connections.
        rates: limits per second.
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
        """Set limits for new connections."""
        self.max_connections = max_connections
        self.max_connections_per_ip = max_connections_per_ip
        self.max_connections_per_ip_overrides = dict(overrides)
        self._resume()

    def available(self) -> int:
        """Number of connections that the broker can accept now."""
        return max(0, min(self.max_connections - self.count, self._descriptors - self.count - self.held_count))

    def lacks_descriptors(self) -> bool:
        """True if the descriptors are used up. Then False until the connections have fallen below 90 % of the limit."""
        if self._told or self.count < self._descriptors:
            return False
        self._told = True
        return True

    def opened(self, host: str) -> bool:
        """Count a connection. Returns False, without counting it, if its address is at its limit."""
        limit = self.max_connections_per_ip_overrides.get(host, self.max_connections_per_ip)
        if self._per_ip[host] >= limit:
            return False
        self._per_ip[host] += 1
        self.count += 1
        return True

    def closed(self, host: str) -> None:
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
        self.held_count -= 1
        self._resume()

    def _resume(self) -> None:
        if self.available():
            waiting, self._waiting = self._waiting, []
            for resume in waiting:
                resume()

    def when_available(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` once, when a connection can be accepted again."""
        if resume not in self._waiting:
            self._waiting.append(resume)
