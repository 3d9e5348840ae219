"""A cluster whose brokers reach ZooKeeper and each other through proxies, which can cut or delay connections.

Clients connect to the brokers directly, so a broker that is cut off from the rest still serves them. Each broker has a
separate listener for other brokers, ``REPLICATION``.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from kafka_zk.base.operating_system.tcp_sockets import local_ports
from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.cluster_security import PROTOCOL
from kafka_zk.embedded.ports import LOCALHOST, free_port
from kafka_zk.embedded.proxy import TcpProxy
from kafka_zk.registry.client import connect_string

LISTENER = "REPLICATION"
PROXY_KEYS = frozenset(
    ("inter.broker.listener.name", "security.inter.broker.protocol", "listener.security.protocol.map")
)
"""Keys that are set for each broker in addition to ``EmbeddedCluster``'s."""


class Link(StrEnum):
    """Which connections of a broker: to ZooKeeper, or to other brokers."""

    ZOOKEEPER = "zookeeper"
    BROKERS = "brokers"


class ProxiedCluster(EmbeddedCluster):
    """The proxies run in threads of this process."""

    def __init__(self, data_dir: Path, **options: Any) -> None:
        super().__init__(data_dir, **options)
        self._proxies: dict[int, Mapping[Link, TcpProxy]] = {}
        self._cut: dict[int, set[Link]] = {}
        self._delays_s: dict[tuple[int, Link], float] = {}

    def cut_links(self, broker_id: int) -> Collection[Link]:
        return frozenset(self._cut.get(broker_id, ()))

    def cut(self, broker_id: int, links: Collection[Link]) -> None:
        """Reset the connections and refuse new ones, in both directions, until ``mend``."""
        self._cut.setdefault(broker_id, set()).update(links)
        for link in links:
            self._proxies[broker_id][link].cut()
        if Link.BROKERS in links:
            ports = local_ports(self.brokers[broker_id].pid)
            for proxies in self._proxies.values():
                proxies[Link.BROKERS].drop_connections_from(ports)

    def delays_s(self, broker_id: int) -> dict[Link, float]:
        """Current delays, in each direction."""
        return {link: delay_s for (number, link), delay_s in self._delays_s.items() if number == broker_id}

    def delay(self, broker_id: int, links: Collection[Link], delay_s: float) -> None:
        """Delay data on these connections of a broker, in both directions, until ``mend``."""
        for link in links:
            self._delays_s[broker_id, link] = delay_s
            self._proxies[broker_id][link].delay_s = delay_s

    def mend(self, broker_id: int) -> None:
        """Restore all connections of a broker."""
        self._cut.pop(broker_id, None)
        for link, proxy in self._proxies[broker_id].items():
            self._delays_s.pop((broker_id, link), None)
            proxy.delay_s = 0.0
            proxy.restore()

    def stop(self) -> list[str]:
        """Restores the connections first, so that brokers can shut down cleanly."""
        for broker_id in {*self._cut, *(number for number, _ in self._delays_s)}:
            self.mend(broker_id)
        complaints = super().stop()
        self._stop_proxies()
        return complaints

    def kill(self) -> None:
        super().kill()
        self._stop_proxies()

    def _stop_proxies(self) -> None:
        while self._proxies:
            self._stop_proxies_of(next(iter(self._proxies)))

    def _stop_proxies_of(self, broker_id: int) -> None:
        for proxy in self._proxies.pop(broker_id, {}).values():
            proxy.stop()

    def _new_broker(self, folder: Path, broker_id: int, port: int) -> BrokerProcess:
        self._stop_proxies_of(broker_id)  # left by a start whose ZooKeeper needed another port
        servers, chroot = connect_string.parse(self.zookeeper_connect)
        inner_port = free_port()
        zookeeper = TcpProxy(*servers[0]).start()
        others = TcpProxy(LOCALHOST, inner_port).start()
        others.refuses = self._comes_from_a_cut_broker
        others.delay_s_from = self._delay_s_from
        self._proxies[broker_id] = {Link.ZOOKEEPER: zookeeper, Link.BROKERS: others}
        name = "PLAINTEXT" if self.security is None else PROTOCOL
        client_listener = f"{name}://{LOCALHOST}:{port}"
        properties = {
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{LISTENER}:PLAINTEXT",
            **self._security_properties(broker_id, (LISTENER, PROTOCOL)),
            **self._properties,
            "listeners": f"{client_listener},{LISTENER}://{LOCALHOST}:{inner_port}",
            "advertised.listeners": f"{client_listener},{LISTENER}://{others.address}",
            "inter.broker.listener.name": LISTENER,
        }
        connect = zookeeper.address + chroot
        return BrokerProcess(
            folder, broker_id, port, connect, properties, self.trace, self._supervisor(), self.login,
            takes_faults=self._takes_faults,
        )  # fmt: skip

    def _comes_from_a_cut_broker(self, port: int) -> bool:
        cut = [broker_id for broker_id, links in self._cut.items() if Link.BROKERS in links]
        return any(port in local_ports(self.brokers[broker_id].pid) for broker_id in cut)

    def _delay_s_from(self, port: int) -> float:
        slow = [(number, delay_s) for (number, link), delay_s in list(self._delays_s.items()) if link is Link.BROKERS]
        return max((s for number, s in slow if port in local_ports(self.brokers[number].pid)), default=0.0)
