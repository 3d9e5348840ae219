"""Connection limits of a broker: ``max.connections``, ``max.connections.per.ip`` and its overrides.

All listeners of a broker share one object. At ``max.connections``, the broker stops accepting, except on an
inter-broker listener beside others; Kafka then closes the oldest connection of another listener, here none is closed. A
connection above the limit of its address is accepted and closed. Source: ConnectionQuotas in SocketServer.scala@3.9.

A broker that cannot open a file takes its log directory offline, so it also stops accepting when connections have used
up the descriptors that the logs leave them (``descriptors_for_connections``).
"""

import resource
from collections import Counter
from collections.abc import Callable, Mapping

from kafka_zk.network.connection_rates import ConnectionRates

UNLIMITED = 2147483647

OTHER_DESCRIPTORS = 100
"""Descriptors for ZooKeeper, listeners, connections to other brokers, helper processes, and indexes and checkpoints
during a write."""


def descriptors_for_connections(limit: int, log_files: int) -> int:
    """Number of connections for a process that may open ``limit`` files (as from getrlimit) and keeps ``log_files``
    segment files open. At least a quarter of ``limit``."""
    if limit == resource.RLIM_INFINITY:
        return UNLIMITED
    return max(limit // 4, limit - log_files - min(OTHER_DESCRIPTORS, limit // 4))


class ConnectionQuotas:
    """Counts the open connections of a broker; pure.

    Attributes:
        count: open connections of all addresses, held ones excluded.
        held_count: connections above the rate of their address, which only wait to be closed; they use descriptors.
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
        """Set limits for new connections; open connections stay."""
        self.max_connections = max_connections
        self.max_connections_per_ip = max_connections_per_ip
        self.max_connections_per_ip_overrides = dict(overrides)
        self._resume()

    def available(self) -> int:
        """Number of connections that may be accepted before the broker is full."""
        return max(0, min(self.max_connections - self.count, self._descriptors - self.count - self.held_count))

    def lacks_descriptors(self) -> bool:
        """True if the broker accepts no connection for lack of descriptors. True once, then again only after the
        connections fell below 90 % of the limit."""
        if self._told or self.count < self._descriptors:
            return False
        self._told = True
        return True

    def opened(self, host: str) -> bool:
        """Count a connection from ``host``. Returns False, without counting it, if the address is at its limit."""
        limit = self.max_connections_per_ip_overrides.get(host, self.max_connections_per_ip)
        if self._per_ip[host] >= limit:
            return False
        self._per_ip[host] += 1
        self.count += 1
        return True

    def closed(self, host: str) -> None:
        """A counted connection from ``host`` was closed."""
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
        """A held connection was closed."""
        self.held_count -= 1
        self._resume()

    def _resume(self) -> None:
        if self.available():
            waiting, self._waiting = self._waiting, []
            for resume in waiting:
                resume()

    def when_available(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` once, when a connection may be accepted again."""
        if resume not in self._waiting:
            self._waiting.append(resume)
