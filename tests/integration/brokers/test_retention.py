"""A real broker deletes old records, never reuses offsets, and frees the space of deleted topics."""

from contextlib import suppress
from pathlib import Path

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.plugin import MakeCluster, MakeTopic
from tests.integration.processes import wait_for

pytestmark = pytest.mark.integration

PROPERTIES = {
    "log.retention.check.interval.ms": "100",
    "log.segment.delete.delay.ms": "300",
    "log.flush.offset.checkpoint.interval.ms": "200",
}
VALUE = b"x" * 1000
LONG_AGO_MS = 1_000_000_000_000


@pytest.fixture
def cluster(make_cluster: MakeCluster) -> EmbeddedCluster:
    return make_cluster(1, PROPERTIES)


def write(cluster: EmbeddedCluster, tp: TopicPartition, count: int, timestamp_ms: int | None = None) -> list[int]:
    """Write each record as a batch of its own; return their offsets."""
    with BlockingProducer(bootstrap_servers=cluster.bootstrap) as producer:
        return [
            producer.send(tp.topic, VALUE, partition=tp.partition, timestamp_ms=timestamp_ms).result(30).offset
            for _ in range(count)
        ]


def bounds(cluster: EmbeddedCluster, tp: TopicPartition) -> tuple[int, int]:
    """(log start offset, log end offset) as a client sees them."""
    with BlockingReader(bootstrap_servers=cluster.bootstrap) as reader:
        return reader.beginning_offsets([tp])[tp], reader.end_offsets([tp])[tp]


def segments(cluster: EmbeddedCluster, tp: TopicPartition) -> list[Path]:
    """The ``.log`` files of a partition, including those that wait for their removal."""
    return sorted((cluster.brokers[0].log_dir / f"{tp.topic}-{tp.partition}").glob("*.log*"))


def used_bytes(cluster: EmbeddedCluster, tp: TopicPartition) -> int:
    used = 0
    for path in segments(cluster, tp):
        with suppress(FileNotFoundError):  # removed since the listing
            used += path.stat().st_size
    return used


def crash(cluster: EmbeddedCluster) -> None:
    cluster.brokers[0].kill()


def stop(cluster: EmbeddedCluster) -> None:
    assert cluster.brokers[0].stop() == 0


def test_size_bound_drops_the_oldest_segments_and_moves_the_log_start(
    cluster: EmbeddedCluster, make_topic: MakeTopic
) -> None:
    config = {"segment.bytes": "5000", "retention.bytes": "12000"}
    tp = TopicPartition(make_topic(cluster=cluster, config=config), 0)
    assert write(cluster, tp, 40) == list(range(40))
    wait_for(lambda: bounds(cluster, tp)[0] > 0, "a log start offset that moved")
    wait_for(lambda: used_bytes(cluster, tp) <= 18_000, "less space in use")
    start, end = bounds(cluster, tp)
    live = [path.name for path in segments(cluster, tp) if path.suffix == ".log"]
    assert end == 40 and live[0] == f"{start:020d}.log"
    with BlockingReader(bootstrap_servers=cluster.bootstrap) as reader:
        reader.assign({tp: "earliest"})
        offsets = [record.offset for records in reader.batches({tp: end}) for record in records]
    assert offsets == list(range(start, end))


@pytest.mark.parametrize("end_process", [stop, crash])
def test_offsets_go_on_after_everything_was_deleted_by_age_and_after_a_restart(
    cluster: EmbeddedCluster, make_topic: MakeTopic, end_process: object
) -> None:
    tp = TopicPartition(make_topic(cluster=cluster, config={"retention.ms": "1000"}), 0)
    assert write(cluster, tp, 10, LONG_AGO_MS) == list(range(10))
    wait_for(lambda: bounds(cluster, tp) == (10, 10), "an empty log that begins where it ended")
    wait_for(lambda: [path.name for path in segments(cluster, tp)] == [f"{10:020d}.log"], "the old files' end")
    end_process(cluster)  # type: ignore[operator]
    cluster.restart_broker(0)
    wait_for(lambda: bounds(cluster, tp) == (10, 10), "the same bounds")
    assert write(cluster, tp, 3) == [10, 11, 12]


def test_a_deleted_topic_frees_its_space_after_the_delay(cluster: EmbeddedCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(cluster=cluster, partitions=2, config={"file.delete.delay.ms": "300"})
    for number in range(2):
        write(cluster, TopicPartition(topic, number), 5)
    folder = cluster.brokers[0].log_dir
    assert len(list(folder.glob(f"{topic}-*"))) == 2
    with BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.delete_topics([topic])
    wait_for(lambda: not list(folder.glob(f"{topic}-[01]")), "the directories' new names")
    wait_for(lambda: not list(folder.glob(f"{topic}*")), "the end of its files")
    make_topic(topic, cluster=cluster)
    assert write(cluster, TopicPartition(topic, 0), 1) == [0]
