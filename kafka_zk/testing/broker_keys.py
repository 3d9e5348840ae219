"""The keys of ``server.properties`` that all test brokers have, unless a test sets them."""

from kafka_zk.testing.timings import SESSION_KEYS

BROKER_KEYS = {**SESSION_KEYS, "group.initial.rebalance.delay.ms": "0"}
"""As in the ``server.properties`` of Kafka's distribution, a group's first member does not wait for others."""

_REPLICAS = 3
_REPLICATION_KEYS = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")


def cluster_keys(broker_count: int) -> dict[str, str]:
    """The keys for a cluster of this size. With fewer than three brokers, the internal topics have a replica on each,
    so that no broker warns of missing replicas."""
    if broker_count >= _REPLICAS:
        return dict(BROKER_KEYS)
    return {**BROKER_KEYS, **dict.fromkeys(_REPLICATION_KEYS, str(broker_count))}
