"""Writes of DataFrames to topics with a real Spark: columns, streams, and which records are visible after failures."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.errors import WriteFailed
from kafka_zk.spark_jobs.sink.topic_writer import TopicWriter, Written
from kafka_zk.spark_jobs.sink.write_options import parse
from kafka_zk.testing.plugin import MakeTopic
from tests.documented import BOOTSTRAP, blocks
from tests.integration.processes import wait_for
from tests.integration.spark.sessions import spark  # noqa: F401

pytestmark = [pytest.mark.integration, pytest.mark.spark]
HEADERS = "headers array<struct<key:string,value:binary>>"


def read(cluster: EmbeddedCluster, topic: str, isolation: str = "read_committed") -> list[Any]:
    """The records of both partitions that a consumer sees."""
    with BlockingReader(bootstrap_servers=cluster.bootstrap, isolation_level=isolation) as reader:
        tps = [TopicPartition(topic, number) for number in range(2)]
        reader.assign(dict.fromkeys(tps, 0))
        return [each for batch in reader.batches(until=reader.end_offsets(tps)) for each in batch]


def ends(cluster: EmbeddedCluster, topic: str, isolation: str) -> dict[TopicPartition, int]:
    with BlockingReader(bootstrap_servers=cluster.bootstrap, isolation_level=isolation) as reader:
        return reader.end_offsets([TopicPartition(topic, number) for number in range(2)])


def transactional_ids(cluster: EmbeddedCluster, prefix: str) -> set[bytes]:
    """All ids with this prefix in the coordinators' log."""
    topic = "__transaction_state"
    with BlockingReader(bootstrap_servers=cluster.bootstrap) as reader:
        tps = [TopicPartition(topic, number) for number in range(len(reader.partitions_for(topic).partitions))]
        reader.assign(dict.fromkeys(tps, 0))
        records = [each for batch in reader.batches(until=reader.end_offsets(tps)) for each in batch]
    return {each.key for each in records if each.key is not None and prefix.encode() in each.key}


def values(cluster: EmbeddedCluster, topic: str, isolation: str = "read_committed") -> list[bytes]:
    return sorted(each.value for each in read(cluster, topic, isolation))


def test_the_columns_of_sparks_sink(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic  # noqa: F811
) -> None:
    topic, other = make_topic(partitions=2), make_topic(partitions=2)
    rows = [
        ("k", "to one", topic, 1, [("h", bytearray(b"v")), ("n", None)], 1),
        (None, None, other, 0, None, 2),
    ]
    frame = spark.createDataFrame(rows, f"key string, value string, topic string, partition int, {HEADERS}, more int")
    writer = frame.write.format("kafka_zk").mode("append")
    writer.option("zookeeper.connect", kafka_zk_cluster.zookeeper_connect).save()
    [first], [second] = read(kafka_zk_cluster, topic), read(kafka_zk_cluster, other)
    assert (first.key, first.value, first.partition) == (b"k", b"to one", 1)
    assert list(first.headers) == [("h", b"v"), ("n", None)]
    assert (second.key, second.value, second.partition, list(second.headers)) == (None, None, 0, [])
    both = spark.createDataFrame([("x", None)], "value string, topic string").write.format("kafka_zk")
    both = both.mode("append").option("kafka.bootstrap.servers", kafka_zk_cluster.bootstrap)
    with pytest.raises(PySparkException, match="a row has no topic"):
        both.save()
    both.option("topic", topic).save()
    [documented] = [each for each in blocks("docs/how-to/spark.md") if each.mark == "spark-write"]
    text = documented.text.replace(BOOTSTRAP, kafka_zk_cluster.bootstrap).replace("flights", other)
    exec(text, {"frame": spark.range(1)})
    assert [(each.key, each.value) for each in read(kafka_zk_cluster, other)][-1] == (b"0", b'{"id":0}')
    assert values(kafka_zk_cluster, topic) == [b"to one", b"x"]


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("overwrite", "a topic cannot be overwritten: write with mode append"),
        (None, "use either the .Append. or .Overwrite. mode"),
        ("ignore", "use either the .Append. or .Overwrite. mode"),
    ],
)
def test_any_mode_but_append_is_refused(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, mode: str | None, told: str  # noqa: F811
) -> None:
    """The mode may come before or after the format; in the second case, the error is Spark's own."""
    topic = make_topic(partitions=2)
    frame = spark.createDataFrame([("x",)], "value string")
    for writer in (frame.write.mode(mode).format("kafka_zk"), frame.write.format("kafka_zk").mode(mode)):
        writer = writer.option("kafka.bootstrap.servers", kafka_zk_cluster.bootstrap).option("topic", topic)
        with pytest.raises(PySparkException, match=told):
            writer.save()
    assert read(kafka_zk_cluster, topic, "read_uncommitted") == []


def test_a_stream(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path  # noqa: F811
) -> None:
    source, target = make_topic(partitions=2), make_topic(partitions=2)
    servers = {"kafka.bootstrap.servers": kafka_zk_cluster.bootstrap}
    numbers = spark.range(20).selectExpr("CAST(id AS STRING) AS value")
    numbers.write.format("kafka_zk").mode("append").options(**servers, topic=source).save()
    stream = spark.readStream.format("kafka_zk").options(**servers, subscribe=source, startingOffsets="earliest").load()
    writer = stream.select("key", "value").writeStream.format("kafka_zk").options(**servers, topic=target)
    writer = writer.option("transactionalIdPrefix", target).option("checkpointLocation", str(tmp_path / "checkpoint"))
    for _ in range(2):
        writer.trigger(availableNow=True).start().awaitTermination()
        assert values(kafka_zk_cluster, target) == sorted(b"%d" % number for number in range(20))
    ids = transactional_ids(kafka_zk_cluster, target)
    numbers.write.format("kafka_zk").mode("append").options(**servers, topic=source).save()
    writer.trigger(availableNow=True).start().awaitTermination()
    assert len(values(kafka_zk_cluster, target)) == 40
    assert transactional_ids(kafka_zk_cluster, target) == ids, "another batch, the same ids"


def test_in_a_transaction_nothing_is_visible_of_a_job_that_fails(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic  # noqa: F811
) -> None:
    """A task has written most of its records when one of them is invalid."""
    topic = make_topic(partitions=2)
    options = {"kafka.bootstrap.servers": kafka_zk_cluster.bootstrap, "transactionalIdPrefix": topic}
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")

    def write(last_topic: str) -> None:
        rows = spark.range(0, 100, 1, 1)
        frame = rows.selectExpr("CAST(id AS STRING) AS value", f"IF(id < 99, '{topic}', {last_topic}) AS topic")
        frame.write.format("kafka_zk").mode("append").options(**options).save()

    with pytest.raises(PySparkException, match="a row has no topic"):
        write("NULL")
    assert values(kafka_zk_cluster, topic) == []
    assert len(values(kafka_zk_cluster, topic, "read_uncommitted")) >= 80, "written, and aborted"
    write(f"'{topic}'")
    assert values(kafka_zk_cluster, topic) == sorted(b"%d" % number for number in range(100))
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


class Batch:
    """A record batch of one column, with the interface that a writer uses."""

    def __init__(self, *values: str) -> None:
        import pyarrow

        self._batch = pyarrow.record_batch([list(values)], ["value"])

    def __iter__(self) -> Iterator[Any]:
        yield self._batch


class Task:
    """Stands for the task that a writer runs in."""

    number = 0

    @classmethod
    def get(cls) -> "Task":
        return cls()

    def partitionId(self) -> int:
        return Task.number


@pytest.fixture
def writer(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch) -> TopicWriter:
    monkeypatch.setattr("pyspark.TaskContext", Task)
    topic = make_topic(partitions=2)
    given = {"kafka.bootstrap.servers": kafka_zk_cluster.bootstrap, "topic": topic, "transactionalIdPrefix": topic}
    return TopicWriter(parse(given))


def written(writer: TopicWriter, task: int, *values: str) -> Written:
    Task.number = task
    return writer.write(iter(Batch(*values)))


def test_a_commit_that_fails_in_the_middle_leaves_what_it_committed(
    writer: TopicWriter, kafka_zk_cluster: EmbeddedCluster
) -> None:
    """A task's records are visible together or not at all. A job may be visible in part, because a commit cannot span
    transactions.
    """
    topic = writer._options.topic
    assert topic is not None
    messages = [written(writer, 0, "a", "b"), written(writer, 1, "c"), written(writer, 2, "d")]
    again = written(writer, 1, "c2")
    assert values(kafka_zk_cluster, topic) == [], "nothing before the commit"
    with pytest.raises(WriteFailed, match=r"committing the transaction of .*-1"):
        writer.commit(messages)  # the second message is of a fenced attempt
    assert values(kafka_zk_cluster, topic) in ([], [b"a", b"b"])
    writer.commit([messages[0], again])
    writer.abort([messages[2], None])
    writer.commit([messages[0]])
    found = {each.value for each in read(kafka_zk_cluster, topic)}
    assert found == {b"a", b"b", b"c2"}


def test_a_task_that_fails_aborts_what_it_wrote(writer: TopicWriter, kafka_zk_cluster: EmbeddedCluster) -> None:
    """Readers do not have to wait for the transaction's timeout."""

    def batches() -> Iterator[Any]:
        for value in "abc":  # the writer waits for the one before the last
            yield from Batch(value)
        raise ValueError("a bad row")

    Task.number = 0
    topic = writer._options.topic
    assert topic is not None
    with pytest.raises(ValueError, match="a bad row"):
        writer.write(batches())

    def is_over() -> bool:  # the coordinator writes the markers after its response
        return ends(kafka_zk_cluster, topic, "read_committed") == ends(kafka_zk_cluster, topic, "read_uncommitted")

    wait_for(is_over, "the markers of the aborted transaction", 30)
    assert b"a" in values(kafka_zk_cluster, topic, "read_uncommitted") and values(kafka_zk_cluster, topic) == []


def test_an_empty_task_has_no_transaction(writer: TopicWriter) -> None:
    assert written(writer, 0).prepared is None
    writer.commit([written(writer, 0), None])
