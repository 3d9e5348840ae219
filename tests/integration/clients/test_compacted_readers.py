"""Readers of a topic that our broker has compacted: the ZooKeeper consumer and Spark's source pass the gaps."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from kafka_zk.clients.consumer.blocking_consumer import BlockingZookeeperConsumer
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.plugin import MakeCluster, MakeTopic
from tests.integration.processes import wait_for
from tests.integration.spark.sessions import spark  # noqa: F401

pytestmark = pytest.mark.integration

RECORDS = 600
KEYS = 20


class Compacted(NamedTuple):
    """``left``: (offset, key, value) of the records that remain in partition 0."""

    cluster: EmbeddedCluster
    topic: str
    left: list[tuple[int, bytes, bytes]]


@pytest.fixture
def compacted(make_cluster: MakeCluster, make_topic: MakeTopic) -> Iterator[Compacted]:
    cluster = make_cluster(1, {"log.cleaner.backoff.ms": "50", "log.segment.delete.delay.ms": "100"})
    config = {"cleanup.policy": "compact", "segment.bytes": "20000", "min.cleanable.dirty.ratio": "0"}
    topic = make_topic(cluster=cluster, config=config)
    written = [(number, b"key-%d" % (number % KEYS), b"%d" % number + b"." * 200) for number in range(RECORDS)]
    for codec, first in zip(("none", "lz4", "zstd"), range(0, RECORDS, 200), strict=True):
        with BlockingProducer(bootstrap_servers=cluster.bootstrap, compression_type=codec, batch_size=2000) as producer:
            for _, key, value in written[first : first + 200]:
                producer.send(topic, value, key=key, partition=0)
            producer.flush()
    folder = cluster.brokers[0].log_dir / f"{topic}-0"
    checkpoint = cluster.brokers[0].log_dir / "cleaner-offset-checkpoint"

    def clean_offset() -> int:
        """The offset up to which the log is clean, once only its last segment is dirty; 0 until then."""
        active = max(int(path.stem) for path in folder.glob("*.log"))
        rows = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
        return active if f"{topic} 0 {active}" in rows else 0

    clean = wait_for(clean_offset, "a cleaning")
    last = {key: offset for offset, key, _ in written if offset < clean}
    left = [each for each in written if each[0] >= clean or last[each[1]] == each[0]]
    assert len(left) < RECORDS
    yield Compacted(cluster, topic, left)


def test_the_zookeeper_consumer_passes_the_gaps(compacted: Compacted) -> None:
    cluster, topic, left = compacted
    with BlockingZookeeperConsumer(
        [topic],
        zookeeper_connect=cluster.zookeeper_connect,
        group_id="reader",
        auto_offset_reset="earliest",
        consumer_timeout_ms=5000,
    ) as consumer:
        found = []
        for record in consumer:
            found.append((record.offset, record.key, record.value))
            if len(found) == len(left):
                break
    assert found == left


@pytest.mark.spark
def test_sparks_source_passes_the_gaps(spark: Any, compacted: Compacted) -> None:  # noqa: F811
    """The source also skips a gap that covers a task's whole range of offsets."""
    cluster, topic, left = compacted
    reader = spark.read.format("kafka_zk").option("kafka.bootstrap.servers", cluster.bootstrap)
    rows = reader.option("subscribe", topic).option("minPartitions", "12").load().collect()
    assert sorted((row.offset, bytes(row.key), bytes(row.value)) for row in rows) == left
