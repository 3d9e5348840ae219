"""The shared cluster, whose brokers load their modules while ZooKeeper starts."""

from collections.abc import Callable

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper


class EarlyCluster:
    """``make`` creates the cluster, not yet started, as soon as ZooKeeper's address is known."""

    def __init__(self, make: Callable[[EmbeddedZooKeeper], EmbeddedCluster]) -> None:
        self._make = make
        self._loading: EmbeddedCluster | None = None

    def load(self, server: EmbeddedZooKeeper) -> None:
        """Call this while ``server`` starts, and again if it needs another port."""
        self.kill()
        self._loading = self._make(server)
        self._loading.load_brokers()

    def take(self, server: EmbeddedZooKeeper) -> EmbeddedCluster:
        """The cluster, even if ``server`` was running before the brokers could load anything."""
        cluster, self._loading = self._loading, None
        return cluster or self._make(server)

    def kill(self) -> None:
        """Kill the processes that load; does nothing after ``take``."""
        if self._loading is not None:
            self._loading.kill()
            self._loading = None
