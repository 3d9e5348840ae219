"""Real ZooKeepers and brokers for tests: the pytest plugin, clusters, containers and faults."""

from typing import TYPE_CHECKING

from kafka_zk.base.public_names import lazy

if TYPE_CHECKING:
    from kafka_zk.embedded.interception import DROP, Exchange
    from kafka_zk.testing.cluster import Cluster
    from kafka_zk.testing.plugin import MakeCluster, MakeTopic, MakeZkClient
    from kafka_zk.testing.zookeeper_container import ZooKeeperContainer
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "DROP": "kafka_zk.embedded.interception",
            "Exchange": "kafka_zk.embedded.interception",
            "Cluster": "kafka_zk.testing.cluster",
            "MakeCluster": "kafka_zk.testing.plugin",
            "MakeTopic": "kafka_zk.testing.plugin",
            "MakeZkClient": "kafka_zk.testing.plugin",
            "ZooKeeperContainer": "kafka_zk.testing.zookeeper_container",
        },
    )

__all__ = [
    "DROP",
    "Cluster",
    "Exchange",
    "MakeCluster",
    "MakeTopic",
    "MakeZkClient",
    "ZooKeeperContainer",
]
