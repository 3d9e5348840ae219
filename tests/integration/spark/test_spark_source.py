"""The data source in a real Spark, on real brokers: batch and stream."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest
from pyspark.errors import StreamingQueryException

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.spark_jobs.source.cluster_client import ClusterClient
from kafka_zk.spark_jobs.source.driver import Driver
from kafka_zk.spark_jobs.source.options import parse
from kafka_zk.spark_jobs.source.stream_offsets import StreamOffsets
from kafka_zk.testing.clients import create_topic
from kafka_zk.testing.plugin import MakeTopic
from tests.integration.processes import wait_for
from tests.integration.spark.sessions import spark  # noqa: F401

pytestmark = [pytest.mark.integration, pytest.mark.spark]
STREAM_TIMEOUT_S = 300


def write(cluster: EmbeddedCluster, topic: str, count: int, first: int = 0, **config: Any) -> None:
    with BlockingProducer(None, bootstrap_servers=cluster.bootstrap, **config) as producer:
        for number in range(first, first + count):
            producer.send(
                topic,
                None if number % 10 == 9 else b"value-%d" % number,
                key=None if number % 7 == 6 else b"key-%d" % (number % 5),
                partition=number % 2,
                timestamp_ms=1_700_000_000_000 + number,
                headers=[("n", b"%d" % number), ("null", None)] if number % 3 == 0 else [],
            )
        producer.flush()


@pytest.fixture
def topic(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic) -> Iterator[str]:
    name = make_topic(partitions=2, config={"retention.ms": "-1"})  # the records are years old
    write(kafka_zk_cluster, name, 100, compression_type="lz4")
    yield name


def read(spark: Any, cluster: EmbeddedCluster, **options: Any) -> Any:  # noqa: F811
    reader = spark.read.format("kafka_zk").option("kafka.bootstrap.servers", cluster.bootstrap)
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), value)
    return reader.load()


def test_all_columns(spark: Any, kafka_zk_cluster: EmbeddedCluster, topic: str) -> None:  # noqa: F811
    frame = read(spark, kafka_zk_cluster, subscribe=topic, includeHeaders="true")
    rows = sorted(frame.collect(), key=lambda row: (row.partition, row.offset))
    assert len(rows) == 100
    for row in rows:
        number = row.offset * 2 + row.partition
        assert row.topic == topic
        assert row.key == (None if number % 7 == 6 else b"key-%d" % (number % 5))
        assert row.value == (None if number % 10 == 9 else b"value-%d" % number)
        assert row.timestamp.timestamp() == pytest.approx(1_700_000_000 + number / 1000)
        assert row.timestampType == 0
        headers = [(each.key, each.value) for each in row.headers or ()]
        assert headers == ([("n", b"%d" % number), ("null", None)] if number % 3 == 0 else [])


def test_many_tasks_and_limits(spark: Any, kafka_zk_cluster: EmbeddedCluster, topic: str) -> None:  # noqa: F811
    many = read(spark, kafka_zk_cluster, subscribe=topic, minPartitions="6")
    assert many.rdd.getNumPartitions() == 6
    assert many.count() == 100
    limited = read(spark, kafka_zk_cluster, subscribe=topic, maxRecordsPerRun="31")
    assert limited.count() == 31


def test_offsets_times_and_zookeeper(spark: Any, kafka_zk_cluster: EmbeddedCluster, topic: str) -> None:  # noqa: F811
    by_time = read(spark, kafka_zk_cluster, subscribe=topic, startingTimestamp=str(1_700_000_000_090))
    assert by_time.count() == 10
    with KazooBlockingClient(kafka_zk_cluster.zookeeper_connect) as client:
        run_blocking(OffsetRegistry(client, "spark-g").store({TopicPartition(topic, 0): 45}))
    reader = spark.read.format("kafka_zk").option("zookeeper.connect", kafka_zk_cluster.zookeeper_connect)
    reader = reader.option("subscribe", topic).option("startingOffsets", "committed").option("group.id", "spark-g")
    assert reader.load().count() == 5 + 50


def test_deleted_records_are_loss(spark: Any, kafka_zk_cluster: EmbeddedCluster, topic: str) -> None:  # noqa: F811
    zero = f'{{"{topic}":{{"0":0,"1":0}}}}'
    frame = read(spark, kafka_zk_cluster, subscribe=topic, startingOffsets=zero)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": kafka_zk_cluster.bootstrap})
    for deleted in admin.delete_records([confluent_kafka.TopicPartition(topic, 0, 20)]).values():
        deleted.result(60)
    with pytest.raises(Exception, match=f"offsets 0 to 19 of {topic}-0 are missing: the log starts at offset 20"):
        frame.count()
    lenient = read(spark, kafka_zk_cluster, subscribe=topic, startingOffsets=zero, failOnDataLoss="false")
    assert lenient.count() == 80


def test_the_reason_of_an_error_stands_in_its_first_line(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, topic: str  # noqa: F811
) -> None:
    def first_line(work: Any) -> str:
        with pytest.raises(Exception) as raised:
            work()
        return str(raised.value).splitlines()[0]

    assert "there is no topic nowhere" in first_line(read(spark, kafka_zk_cluster, subscribe="nowhere").count)
    typo = read(spark, kafka_zk_cluster, subscribe=topic, startingOffset="earliest")
    assert "did you mean startingOffsets?" in first_line(typo.count)
    frame = read(spark, kafka_zk_cluster, subscribe=topic)
    unaddressed = first_line(lambda: frame.write.format("kafka_zk").mode("append").save())
    assert "kafka.bootstrap.servers or zookeeper.connect is needed" in unaddressed


class Stream:
    """A query from a topic into Parquet files, which can be restarted from its checkpoint."""

    def __init__(self, spark: Any, cluster: EmbeddedCluster, topic: str, folder: Path) -> None:  # noqa: F811
        self._spark = spark
        self._zookeeper = cluster.zookeeper_connect
        self._topic = topic
        self._folder = folder
        self._group = f"stream-{topic}"
        self.options: dict[str, str] = {}
        self._both = [TopicPartition(topic, partition) for partition in (0, 1)]

    def start(self, **trigger: Any) -> Any:
        reader = self._spark.readStream.format("kafka_zk").option("zookeeper.connect", self._zookeeper)
        for name, value in {"subscribe": self._topic, "startingOffsets": "earliest", "group.id": self._group,
                            "maxOffsetsPerTrigger": "60", **self.options}.items():  # fmt: skip
            reader = reader.option(name, value)
        writer = reader.load().writeStream.format("parquet").option("path", str(self._folder / "out"))
        return writer.option("checkpointLocation", str(self._folder / "checkpoint")).trigger(**trigger).start()

    def run(self) -> list[int]:
        """Process all available records; returns the number of rows in each batch."""
        query = self.start(availableNow=True)
        assert query.awaitTermination(STREAM_TIMEOUT_S)
        return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]

    def rows_and_offsets(self) -> tuple[int, int]:
        """The number of rows, and of different offsets."""
        out = self._spark.read.parquet(str(self._folder / "out"))
        return out.count(), out.select("partition", "offset").distinct().count()

    def mirrored(self) -> list[int]:
        """The group's offsets in ZooKeeper, in the order of partitions; none before the first batch is done."""
        with KazooBlockingClient(self._zookeeper) as client:
            stored = run_blocking(OffsetRegistry(client, self._group).fetch(self._both))
        return [each.offset for _, each in sorted(stored.items())]

    def set_mirror(self, offset: int) -> None:
        with KazooBlockingClient(self._zookeeper) as client:
            run_blocking(OffsetRegistry(client, self._group).store(dict.fromkeys(self._both, offset)))


def test_a_stream_reads_what_is_available_and_goes_on_from_its_checkpoint(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, topic: str, tmp_path: Path  # noqa: F811
) -> None:
    """The stream reads in portions, in two runs. The group's offsets in ZooKeeper follow, but only the checkpoint
    counts.
    """
    stream = Stream(spark, kafka_zk_cluster, topic, tmp_path)
    assert stream.run() == [60, 40]
    assert stream.mirrored() == [50, 50]
    stream.set_mirror(7)
    write(kafka_zk_cluster, topic, 10, first=100)
    assert stream.run() == [10]
    assert stream.rows_and_offsets() == (110, 110)
    assert stream.mirrored() == [55, 55]


def create_again(cluster: EmbeddedCluster, topic: str) -> None:
    with BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.delete_topics([topic])
    with KazooBlockingClient(cluster.zookeeper_connect) as client:
        wait_for(lambda: not run_blocking(TopicRegistry(client).exists(topic)), "the deletion", STREAM_TIMEOUT_S)
    create_topic(cluster.bootstrap, topic, 2, {"retention.ms": "-1"})


def test_a_stream_whose_topic_was_created_again_fails_or_starts_at_its_beginning(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, topic: str, tmp_path: Path  # noqa: F811
) -> None:
    """The new topic is longer, so that the stream's offsets are in its range."""
    stream = Stream(spark, kafka_zk_cluster, topic, tmp_path)
    assert sum(stream.run()) == 100
    create_again(kafka_zk_cluster, topic)
    write(kafka_zk_cluster, topic, 150)
    with pytest.raises(StreamingQueryException, match=f"topic {topic} was deleted and recreated"):
        stream.run()
    assert stream.rows_and_offsets() == (100, 100), "nothing of the new one"
    stream.options = {"failOnDataLoss": "false"}
    assert sum(stream.run()) == 150
    assert stream.rows_and_offsets() == (250, 150)


def test_where_brokers_have_no_ids_the_creation_of_the_znode_counts(
    kafka_zk_cluster: EmbeddedCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers before 2.8 have no topic ids. The source then connects to ZooKeeper, even if brokers' addresses are
    given.
    """
    monkeypatch.setattr(ClusterClient, "topic_ids", lambda client, topics: {})
    given = {"subscribe": topic, "kafka.bootstrap.servers": kafka_zk_cluster.bootstrap}
    with Driver(parse(given, streaming=True)) as driver:
        assert driver.topic_ids([topic]) == {}, "it cannot be known"
    with Driver(parse({**given, "zookeeper.connect": kafka_zk_cluster.zookeeper_connect}, streaming=True)) as driver:
        before = driver.topic_ids([topic])
        assert before == driver.topic_ids([topic, "nowhere"]) and before[topic].startswith("czxid:")
        create_again(kafka_zk_cluster, topic)
        assert StreamOffsets({}, before).recreated(driver.topic_ids([topic])) == {topic}


def test_a_stream_by_processing_time_follows_the_topic_and_is_started_anew(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, topic: str, tmp_path: Path  # noqa: F811
) -> None:
    stream = Stream(spark, kafka_zk_cluster, topic, tmp_path)

    def follow(count: int) -> None:
        """Wait until the group's offsets in ZooKeeper, which are written after the data, show that all is read."""
        wait_for(lambda: stream.mirrored() == [count // 2] * 2 or query.exception(), "the mirror", STREAM_TIMEOUT_S)
        assert query.exception() is None

    query = stream.start(processingTime="200 milliseconds")
    try:
        follow(100)
        write(kafka_zk_cluster, topic, 10, first=100)
        follow(110)
    finally:
        query.stop()
    assert stream.rows_and_offsets() == (110, 110)
    write(kafka_zk_cluster, topic, 20, first=110)
    query = stream.start(processingTime="200 milliseconds")
    try:
        follow(130)
    finally:
        query.stop()
    assert stream.rows_and_offsets() == (130, 130)
