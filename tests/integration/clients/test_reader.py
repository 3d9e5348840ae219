"""Our reader against real brokers."""

import time

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import BrokerError
from kafka_zk.clients.connection.list_offsets import ListedOffset
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.consumer.starts import Timestamp
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.plugin import MakeCluster, MakeTopic

pytestmark = pytest.mark.integration


@pytest.fixture
def filled(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic) -> list[TopicPartition]:
    """Two partitions of 1,000 records in small batches; the record at offset n has timestamp 1,000 + n."""
    topic = make_topic(partitions=2, config={"retention.ms": "-1"})  # the timestamps are of 1970
    with BlockingProducer(bootstrap_servers=kafka_zk_cluster.bootstrap, batch_size=1_000) as producer:
        for index in range(2_000):
            producer.send(topic, b"%d" % index, partition=index % 2, timestamp_ms=1_000 + index // 2)
    return [TopicPartition(topic, 0), TopicPartition(topic, 1)]


def test_starts_at_offsets_times_and_ends(kafka_zk_cluster: EmbeddedCluster, filled: list[TopicPartition]) -> None:
    """The reader starts at an offset within a batch, at a time, at the earliest and at the latest offset."""
    first, second = filled
    with BlockingReader(bootstrap_servers=kafka_zk_cluster.bootstrap) as reader:
        reader.assign({first: 123, second: Timestamp(1_500)})
        starts = (reader.position(first), reader.position(second))
        reader.assign({first: "earliest", second: "latest"})
        assert (*starts, reader.position(first), reader.position(second)) == (123, 500, 0, 1_000)
        reader.assign({first: 123})
        assert [each.offset for each in reader.poll(5_000)][:2] == [123, 124]
        reader.seek(first, 999)
        assert [each.value for each in reader.poll(5_000)] == [b"1998"]
        assert reader.offsets_for_times({first: 1_010, second: 5_000}) == {
            first: ListedOffset(10, 1_010, 0),
            second: None,
        }


@pytest.mark.parametrize("limit_bytes", [200, 3_000, 1_000_000])
def test_every_record_once_in_order(
    kafka_zk_cluster: EmbeddedCluster, filled: list[TopicPartition], limit_bytes: int
) -> None:
    """Every max.partition.fetch.bytes works, including one below the size of a batch."""
    with BlockingReader(
        bootstrap_servers=kafka_zk_cluster.bootstrap, max_partition_fetch_bytes=limit_bytes, max_poll_records=77
    ) as reader:
        reader.assign(dict.fromkeys(filled, "earliest"))
        records = [each for part in reader.batches(reader.end_offsets(filled)) for each in part]
    for tp in filled:
        assert [each.offset for each in records if each.tp == tp] == list(range(1_000))


def test_long_poll_answers_when_a_record_comes(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic) -> None:
    """A waiting poll returns soon after the write, long before its timeout."""
    topic = make_topic()
    with (
        BlockingReader(bootstrap_servers=kafka_zk_cluster.bootstrap, fetch_max_wait_ms=10_000) as reader,
        BlockingProducer(bootstrap_servers=kafka_zk_cluster.bootstrap) as producer,
    ):
        reader.assign({TopicPartition(topic, 0): "latest"})
        assert reader.poll(100) == []
        started_s = time.monotonic()
        producer.send(topic, b"now")
        assert [each.value for each in reader.poll(20_000)] == [b"now"]
        assert time.monotonic() - started_s < 5


def test_offset_outside_the_log(kafka_zk_cluster: EmbeddedCluster, filled: list[TopicPartition]) -> None:
    """auto.offset.reset=none raises Kafka's error code, and earliest moves to the beginning."""
    with BlockingReader(bootstrap_servers=kafka_zk_cluster.bootstrap, auto_offset_reset="none") as reader:
        reader.assign({filled[0]: 5_000})
        with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE"):
            reader.poll(10_000)
    with BlockingReader(bootstrap_servers=kafka_zk_cluster.bootstrap, auto_offset_reset="earliest") as reader:
        reader.assign({filled[0]: 5_000})
        assert reader.poll(10_000)[0].offset == 0


def test_broker_that_dies_and_returns_is_read_on(make_cluster: MakeCluster, make_topic: MakeTopic) -> None:
    """The broker is killed while it is read; after its return, the reader continues at its position."""
    cluster = make_cluster()
    topic = make_topic(cluster=cluster)
    tp = TopicPartition(topic, 0)
    with (
        BlockingProducer(bootstrap_servers=cluster.bootstrap, batch_size=500) as producer,
        BlockingReader(bootstrap_servers=cluster.bootstrap, max_partition_fetch_bytes=1_000) as reader,
    ):
        for index in range(1_000):
            producer.send(topic, b"%d" % index)
        producer.flush(30)
        reader.assign({tp: 0})
        got = [each.offset for each in reader.poll(10_000)]
        cluster.brokers[0].kill()
        got += [each.offset for each in reader.poll(300)]
        cluster.restart_broker(0)
        for records in reader.batches({tp: 1_000}):
            got += [each.offset for each in records]
    assert got == list(range(1_000))
