"""Clients with a ``group.id`` that assign partitions themselves find no stored offsets, but can still read."""

import confluent_kafka
import pytest
from kafka import KafkaConsumer, TopicPartition

from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.plugin import MakeTopic

pytestmark = pytest.mark.integration

LIMIT_S = 60


@pytest.fixture
def topic(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic) -> str:
    """A topic of one partition with one record."""
    name = make_topic()
    with BlockingProducer(bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:
        producer.send(name, b"value").result()
    return name


def test_librdkafka_finds_no_offset_and_begins_where_it_says(kafka_zk_cluster: EmbeddedCluster, topic: str) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka_zk_cluster.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 3,
        }
    )
    try:
        partition = confluent_kafka.TopicPartition(topic, 0)
        assert consumer.committed([partition], LIMIT_S)[0].offset == confluent_kafka.OFFSET_INVALID
        consumer.assign([partition])
        message = consumer.poll(LIMIT_S)
        assert message is not None
        assert (message.error(), message.value()) == (None, b"value")
    finally:
        consumer.close()


def test_kafka_python_finds_no_offset_and_begins_where_it_says(kafka_zk_cluster: EmbeddedCluster, topic: str) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=kafka_zk_cluster.bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    try:
        partition = TopicPartition(topic, 0)
        assert consumer.committed(partition) is None
        consumer.assign([partition])
        assert [record.value for record in consumer.poll(timeout_ms=LIMIT_S * 1000)[partition]] == [b"value"]
    finally:
        consumer.close()
