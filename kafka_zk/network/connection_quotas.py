"""How many connections a broker takes: ``max.connections``, ``max.connections.per.ip`` and its overrides.

One object for all listeners of a broker. Source: ConnectionQuotas in SocketServer.scala@3.9. A full broker stops
accepting, an address above its limit is closed as soon as it was accepted. Kafka lets the inter-broker listener of
several go above ``max.connections`` by closing another listener's oldest connection; here it goes above it, nothing is
closed.

A connection is a descriptor, and logs need theirs: a broker that cannot open a file takes its log directory for lost.
So it is full, too, when the connections have used up what the logs leave them (``descriptors_for_connections``).
"""

import resource
from collections import Counter
from collections.abc import Callable, Mapping

from kafka_zk.network.connection_rates import ConnectionRates

UNLIMITED = 2147483647

OTHER_DESCRIPTORS = 100
"""Of ZooKeeper, listeners, connections to other brokers, helpers, indexes and checkpoints while they are written."""


def descriptors_for_connections(limit: int, log_files: int) -> int:
    """How many connections a process may have that may open ``limit`` files, ``log_files`` of them segments that stay
    open. A process that may open hardly any gives them a quarter. ``limit`` is as getrlimit has it."""
    if limit == resource.RLIM_INFINITY:
        return UNLIMITED
    return max(limit // 4, limit - log_files - min(OTHER_DESCRIPTORS, limit // 4))


class ConnectionQuotas:
    """Counts connections; pure."""

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
        self.held_count = 0  # of those that only wait to be closed
        self._descriptors = descriptors
        self._told = False
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
        return max(0, min(self.max_connections - self.count, self._descriptors - self.count - self.held_count))

    def lacks_descriptors(self) -> bool:
        """Whether it is for want of descriptors that nobody is accepted, and that was not said yet: once, until a tenth
        of the connections are over."""
        if self._told or self.count < self._descriptors:
            return False
        self._told = True
        return True

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
        if self.count < self._descriptors - self._descriptors // 10:
            self._told = False
        self._resume()

    def hold(self) -> None:
        """Count a connection that is only held before it is closed."""
        self.held_count += 1

    def release(self) -> None:
        """A held connection is over."""
        self.held_count -= 1
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
