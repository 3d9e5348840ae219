"""The streaming reader's offsets while a topic is deleted and recreated; without Spark and brokers."""

import pickle
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="streams need Spark 4.2")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.errors import DataLoss
from kafka_zk.spark_jobs.source.cluster_client import ClientSettings
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.source.options import parse
from kafka_zk.spark_jobs.source.range_settings import FetchSettings
from kafka_zk.spark_jobs.source.stream_reader import KafkaZkStreamReader

T0 = TopicPartition("t", 0)


class Cluster:
    """Driver and brokers: topic ``t`` with one partition."""

    fetch_settings = FetchSettings(ClientSettings("h:1"))

    def __init__(self, id: str | None) -> None:
        self.id = id
        self.end = 100
        self.becomes: tuple[str, int] | None = None  # after the next request for offsets

    @property
    def brokers(self) -> "Cluster":
        return self

    def partitions(self) -> list[TopicPartition]:
        return [T0]

    def starting_offsets(self) -> dict[TopicPartition, int]:
        return {T0: 0}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        return {} if self.id is None else dict.fromkeys(topics, self.id)

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = {tp: 0 if spec == -2 else self.end for tp, spec in wanted.items()}
        if self.becomes is not None:
            (self.id, self.end), self.becomes = self.becomes, None
        return found

    def log_ends(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, self.end)

    def tasks(self, ranges: list[OffsetRange]) -> list[tuple[OffsetRange, ...]]:
        return [(each,) for each in ranges]


def reader(cluster: Cluster, **options: str) -> KafkaZkStreamReader:
    parsed = parse({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **options}, streaming=True)
    made: KafkaZkStreamReader = pickle.loads(pickle.dumps(KafkaZkStreamReader(parsed)))
    made._driver = cluster  # type: ignore[assignment]
    return made


def latest(stream: KafkaZkStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return stream.latestOffset(start, ReadAllAvailable())


def ranges(stream: KafkaZkStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, int]]:
    planned = stream.partitions(start, end)
    return [(each.from_offset, each.until_offset) for task in planned for each in task.ranges]  # type: ignore[attr-defined]


@pytest.mark.parametrize("ids", [("id:a", "id:b"), ("czxid:7", "czxid:9")])
def test_a_longer_topic_of_the_same_name_is_loss(ids: tuple[str, str]) -> None:
    cluster = Cluster(ids[0])
    read = latest(reader(cluster), reader(cluster).initialOffset())
    cluster.id, cluster.end = ids[1], 150
    for stream in (reader(cluster), reader(cluster, failOnDataLoss="true")):
        with pytest.raises(DataLoss, match="topic t was deleted and recreated since the stream read it"):
            latest(stream, read)


def test_by_option_it_starts_at_the_beginning_of_the_new_one() -> None:
    cluster = Cluster("id:a")
    read = latest(reader(cluster), {"t": {"0": 0}})
    cluster.id, cluster.end = "id:b", 50
    stream = reader(cluster, failOnDataLoss="false")
    end = latest(stream, read)
    assert ranges(stream, read, end) == [(0, 50)]
    cluster.end = 60
    assert ranges(stream, end, latest(stream, end)) == [(50, 60)], "once"


def test_a_planned_batch_reads_nothing_of_a_topic_that_came_after_it() -> None:
    cluster = Cluster("id:a")
    start = {"t": {"0": 0}}
    end = latest(reader(cluster), start)
    cluster.id = "id:b"
    with pytest.raises(DataLoss, match="topic t was deleted and recreated"):
        reader(cluster).partitions(start, end)
    assert ranges(reader(cluster, failOnDataLoss="false"), start, end) == []


def test_offsets_and_id_are_of_one_topic() -> None:
    cluster = Cluster("id:a")
    stream = reader(cluster)
    stream.prepareForTriggerAvailableNow()
    cluster.becomes = ("id:b", 7)
    assert stream.reportLatestOffset() == {"t": {"0": 7}, "topic ids": {"t": "id:b"}}


def test_a_checkpoint_of_an_earlier_version_continues() -> None:
    cluster = Cluster("id:a")
    stream, old = reader(cluster), {"t": {"0": 40}}
    end = latest(stream, old)
    assert end == {"t": {"0": 100}, "topic ids": {"t": "id:a"}}
    assert ranges(stream, old, end) == [(40, 100)]
    stream.commit(end)


def test_without_ids_only_a_shorter_topic_is_loss() -> None:
    cluster = Cluster(None)
    read = latest(reader(cluster), {"t": {"0": 0}})
    assert read == {"t": {"0": 100}}
    cluster.end = 60
    with pytest.raises(DataLoss, match="t-0 was read up to offset 100 and ends at offset 60 now"):
        latest(reader(cluster), read)
