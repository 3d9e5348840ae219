"""Kafka's data in ZooKeeper: the client, the znodes, and one registry per concept."""

from typing import TYPE_CHECKING

from kafka_zk.base.public_names import lazy

if TYPE_CHECKING:
    from kafka_zk.registry.brokers import BrokerRegistry, LiveBrokers
    from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "BrokerRegistry": "kafka_zk.registry.brokers",
            "KazooBlockingClient": "kafka_zk.registry.client.kazoo_blocking",
            "LiveBrokers": "kafka_zk.registry.brokers",
            "run_blocking": "kafka_zk.registry.client.kazoo_blocking",
        },
    )

__all__ = [
    "BrokerRegistry",
    "KazooBlockingClient",
    "LiveBrokers",
    "run_blocking",
]
