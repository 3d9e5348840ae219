"""Members that subscribe, in groups that a broker process coordinates."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import confluent_kafka
import pytest
from kafka import KafkaConsumer

from kafka_zk.clients.consumer.blocking_consumer import BlockingConsumer
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.plugin import MakeCluster, MakeTopic
from tests.integration.processes import wait_for

pytestmark = pytest.mark.integration

PARTITIONS = 4


@pytest.fixture
def cluster(make_cluster: MakeCluster) -> EmbeddedCluster:
    return make_cluster(properties={"group.initial.rebalance.delay.ms": "500"})


@pytest.fixture
def topic(cluster: EmbeddedCluster, make_topic: MakeTopic) -> str:
    return make_topic(partitions=PARTITIONS, cluster=cluster)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


class Librdkafka:
    """A librdkafka member; ``look`` polls and returns its partitions."""

    def __init__(self, cluster: EmbeddedCluster, group: str, topic: str, **options: Any) -> None:
        self.values: list[bytes] = []
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000, "heartbeat.interval.ms": 500, "log_level": 3, **options,
            }
        )  # fmt: skip
        self._consumer.subscribe([topic])

    def look(self) -> set[int]:
        message = self._consumer.poll(0.05)
        if message is not None and not message.error():
            self.values.append(message.value() or b"")
        return {partition.partition for partition in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class KafkaPython:
    """The same member, using kafka-python."""

    def __init__(self, cluster: EmbeddedCluster, group: str, topic: str, **options: Any) -> None:
        self.values: list[bytes] = []
        self._consumer = KafkaConsumer(
            topic, bootstrap_servers=cluster.bootstrap, group_id=group, auto_offset_reset="earliest",
            session_timeout_ms=6000, heartbeat_interval_ms=500, **options,
        )  # fmt: skip

    def look(self) -> set[int]:
        for records in self._consumer.poll(timeout_ms=50).values():
            self.values += [record.value for record in records]
        return {partition.partition for partition in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class Ours:
    """The same member, using our consumer."""

    def __init__(self, cluster: EmbeddedCluster, group: str, topic: str, **options: Any) -> None:
        self.values: list[bytes] = []
        self._consumer = BlockingConsumer(
            [topic], bootstrap_servers=cluster.bootstrap, group_id=group, auto_offset_reset="earliest",
            session_timeout_ms=6000, heartbeat_interval_ms=500, **options,
        )  # fmt: skip

    def look(self) -> set[int]:
        self.values += [record.value for record in self._consumer.poll(50)]
        return {tp.partition for tp in self._consumer.assignment()}

    def close(self) -> None:
        with self._consumer:  # leaving the block marks all records as processed
            pass


MEMBERS = [
    pytest.param(Ours, id="kafka-zk"),
    pytest.param(Librdkafka, id="librdkafka"),
    pytest.param(KafkaPython, id="kafka-python", marks=pytest.mark.long),
]


def produce(cluster: EmbeddedCluster, topic: str, *values: bytes) -> None:
    with BlockingProducer(bootstrap_servers=cluster.bootstrap) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, partition=number % PARTITIONS).result()


@pytest.mark.parametrize("kind", MEMBERS)
def test_members_share_a_topic_and_take_over_from_each_other(
    cluster: EmbeddedCluster, topic: str, stack: ExitStack, kind: Any
) -> None:
    """Everything is read once, and no partition has two owners."""
    produce(cluster, topic, *(b"%d" % number for number in range(40)))
    first = kind(cluster, topic, topic)
    stack.callback(first.close)
    wait_for(lambda: len(first.look()) == PARTITIONS and len(first.values) == 40, "the first member alone")
    second = kind(cluster, topic, topic)
    wait_for(
        lambda: (len(first.look()), len(second.look())) == (PARTITIONS // 2, PARTITIONS // 2), "a fair share for both"
    )
    assert first.look() | second.look() == set(range(PARTITIONS))
    second.close()
    wait_for(lambda: len(first.look()) == PARTITIONS, "what the second one left")
    produce(cluster, topic, *(b"again %d" % number for number in range(8)))
    wait_for(lambda: first.look() and len(first.values) == 48, "the records after that")
    assert len(set(first.values)) == 48 and not second.values


@pytest.mark.parametrize("kind", MEMBERS)
def test_offsets_and_members_outlive_a_restart_of_the_broker(
    cluster: EmbeddedCluster, topic: str, stack: ExitStack, kind: Any
) -> None:
    produce(cluster, topic, *(b"%d" % number for number in range(8)))
    first = kind(cluster, topic, topic)
    wait_for(lambda: first.look() and len(first.values) == 8, "the records")
    first.close()
    cluster.brokers[0].kill()
    cluster.restart_broker(0)
    produce(cluster, topic, b"after the crash")
    second = kind(cluster, topic, topic)
    stack.callback(second.close)
    wait_for(lambda: second.look() and second.values, "what is new")
    cluster.brokers[0].stop()
    cluster.restart_broker(0)
    produce(cluster, topic, b"after the stop")
    wait_for(lambda: second.look() and b"after the stop" in second.values, "what came after the stop")
    seen = list(dict.fromkeys(second.values))  # a member that had to join again may get the uncommitted record twice
    assert seen == [b"after the crash", b"after the stop"]
