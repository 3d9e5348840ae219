"""A ZooKeeper group moves its offsets to the broker, as Kafka 0.8.2 documented, and then becomes a broker-coordinated
group.
"""

import uuid
from typing import Any

import confluent_kafka
import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.blocking_consumer import BlockingConsumer, BlockingZookeeperConsumer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.testing.plugin import MakeTopic, MakeZkClient
from tests.integration.groups.members import write
from tests.integration.processes import TIMEOUT_S, wait_for

pytestmark = pytest.mark.integration

IN_KAFKA = {"offsets_storage": "kafka", "dual_commit_enabled": "false"}
IN_BOTH = {"offsets_storage": "kafka", "dual_commit_enabled": "true"}


class Sides:
    """A group's offsets in ZooKeeper and at the broker, as other clients see them."""

    def __init__(self, cluster: EmbeddedCluster, make_zk_client: MakeZkClient, group: str, topic: str) -> None:
        self._registry = OffsetRegistry(make_zk_client(cluster.zookeeper_connect), group)
        self._tps = [TopicPartition(topic, number) for number in range(2)]
        self._consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": cluster.bootstrap, "group.id": group, "log_level": 3}
        )

    def in_zookeeper(self) -> list[int]:
        stored = run_blocking(self._registry.fetch(self._tps))
        return [stored[tp].offset for tp in self._tps]

    def in_kafka(self) -> list[int]:
        wanted = [confluent_kafka.TopicPartition(*tp) for tp in self._tps]
        found = {each.partition: each.offset for each in self._consumer.committed(wanted, timeout=TIMEOUT_S)}
        return [max(-1, found[tp.partition]) for tp in self._tps]

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def read(cluster: EmbeddedCluster, group: str, topic: str, count: int, **options: Any) -> list[str]:
    """Consume ``count`` records and leave."""
    values: list[str] = []
    with BlockingZookeeperConsumer(
        [topic], group_id=group, zookeeper_connect=cluster.zookeeper_connect, auto_offset_reset="smallest",
        zookeeper_session_timeout_ms=4000, **options,
    ) as consumer:  # fmt: skip
        consumer.start()
        wait_for(lambda: len(consumer.assignment()) == 2, "both partitions")
        for record in consumer if count else ():
            values.append(record.value.decode())
            if len(values) == count:
                break
        wait_for(lambda: all(consumer.position(tp) is not None for tp in consumer.assignment()), "their starts")
    return values


def test_a_group_moves_to_the_broker_without_losing_its_place(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, make_zk_client: MakeZkClient, group: str
) -> None:
    cluster, topic = kafka_zk_cluster, make_topic(partitions=2)
    sides = Sides(cluster, make_zk_client, group, topic)
    write(cluster, topic, 2, 5)
    assert len(read(cluster, group, topic, 10)) == 10
    assert (sides.in_zookeeper(), sides.in_kafka()) == ([5, 5], [-1, -1])

    assert read(cluster, group, topic, 0, **IN_BOTH) == []
    assert (sides.in_zookeeper(), sides.in_kafka()) == ([5, 5], [5, 5]), "the offsets of idle partitions did not move"
    write(cluster, topic, 2, 3)
    assert len(read(cluster, group, topic, 6, **IN_BOTH)) == 6
    assert (sides.in_zookeeper(), sides.in_kafka()) == ([8, 8], [8, 8])

    write(cluster, topic, 2, 2)
    assert len(read(cluster, group, topic, 4, **IN_KAFKA)) == 4
    assert (sides.in_zookeeper(), sides.in_kafka()) == ([8, 8], [10, 10])
    assert read(cluster, group, topic, 0, **IN_BOTH) == [], "the consumer did not begin at the larger offset"
    assert sides.in_zookeeper() == [10, 10], "the offsets in ZooKeeper did not follow"

    write(cluster, topic, 2, 1)
    with BlockingConsumer([topic], group_id=group, bootstrap_servers=cluster.bootstrap) as today:
        found = [record for _, record in zip(range(2), today, strict=False)]
    assert sorted((record.partition, record.offset) for record in found) == [(0, 10), (1, 10)]
    sides.close()


def test_a_group_of_the_broker_with_members_refuses_such_commits(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, make_zk_client: MakeZkClient, group: str
) -> None:
    """The group id is in use at the broker: nothing is committed, so the records are read again later."""
    cluster, topic = kafka_zk_cluster, make_topic(partitions=2)
    sides = Sides(cluster, make_zk_client, group, topic)
    write(cluster, topic, 2, 2)
    with BlockingConsumer(
        [topic], group_id=group, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as other:  # fmt: skip
        other.start()
        wait_for(lambda: len(other.assignment()) == 2, "the other group's partitions")
        quick = {"offsets_commit_max_retries": 0, "offsets_channel_backoff_ms": 10}
        assert len(read(cluster, group, topic, 4, **IN_KAFKA, **quick)) == 4
        assert sides.in_kafka() == [-1, -1]
    sides.close()
