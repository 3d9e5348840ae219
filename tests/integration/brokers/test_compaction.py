"""A real broker compacts while producers write; a kill during a compaction loses no key's last value."""

import json
import random
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli import compact
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.testing.clients import blocking_client
from kafka_zk.testing.plugin import MakeCluster, MakeTopic
from tests.integration.processes import running, wait_for

pytestmark = pytest.mark.integration

PROPERTIES = {"log.cleaner.backoff.ms": "50", "log.segment.delete.delay.ms": "100"}
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "20000", "min.cleanable.dirty.ratio": "0.01"}
KEYS = 20

Last = dict[bytes, tuple[int, bytes | None]]
"""The last offset and value of each key."""


@pytest.fixture
def cluster(make_cluster: MakeCluster) -> EmbeddedCluster:
    return make_cluster(1, PROPERTIES)


def write(cluster: EmbeddedCluster, tp: TopicPartition, count: int, last: Last) -> None:
    """Write records of a few keys, with an occasional tombstone."""
    rng = random.Random(len(last))
    with BlockingProducer(bootstrap_servers=cluster.bootstrap) as producer:
        sent = []
        for _ in range(count):
            key = b"key-%d" % rng.randrange(KEYS)
            value = None if rng.random() < 0.05 else rng.randbytes(200)
            sent.append((key, value, producer.send(tp.topic, value, key=key, partition=tp.partition)))
        for key, value, future in sent:
            last[key] = (future.result(30).offset, value)


def read(cluster: EmbeddedCluster, tp: TopicPartition) -> list[tuple[int, bytes | None, bytes | None]]:
    with BlockingReader(bootstrap_servers=cluster.bootstrap) as reader:
        end = reader.end_offsets([tp])[tp]
        reader.assign({tp: "earliest"})
        return [
            (record.offset, record.key, record.value) for records in reader.batches({tp: end}) for record in records
        ]


def check(cluster: EmbeddedCluster, tp: TopicPartition, last: Last) -> int:
    """Check that every key has its last value at the offset where it was written; return the number of records."""
    found = read(cluster, tp)
    offsets = [offset for offset, _, _ in found]
    assert offsets == sorted(set(offsets))
    assert {key: (offset, value) for offset, key, value in found} == last
    return len(found)


def checkpoint(cluster: EmbeddedCluster, topic: str) -> int:
    path = cluster.brokers[0].log_dir / "cleaner-offset-checkpoint"
    rows = path.read_text().splitlines()[2:] if path.exists() else []
    return max((int(row.split()[2]) for row in rows if row.startswith(f"{topic} ")), default=0)


def leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix in (".cleaned", ".swap")]


def test_a_topic_is_compacted_while_it_is_written_and_read(cluster: EmbeddedCluster, make_topic: MakeTopic) -> None:
    """Compaction starts when the topic's policy changes. Offsets stay the same, and readers skip the gaps."""
    tp = TopicPartition(make_topic(cluster=cluster, config={"segment.bytes": "20000"}), 0)
    last: Last = {}
    write(cluster, tp, 600, last)
    assert check(cluster, tp, last) == 600
    with blocking_client(cluster.zookeeper_connect) as client:
        run_blocking(ConfigRegistry(client).change_entity("topics", tp.topic, COMPACTED))
    wait_for(lambda: checkpoint(cluster, tp.topic) > 300, "the first cleaning")
    for _ in range(3):
        write(cluster, tp, 200, last)
        check(cluster, tp, last)
    wait_for(lambda: check(cluster, tp, last) < 400, "fewer records")


@pytest.mark.long
def test_a_broker_that_is_killed_while_it_compacts_keeps_the_last_values(
    cluster: EmbeddedCluster, make_topic: MakeTopic
) -> None:
    tp = TopicPartition(make_topic(cluster=cluster, config=COMPACTED), 0)
    folder = cluster.brokers[0].log_dir / f"{tp.topic}-{tp.partition}"
    last: Last = {}
    rng = random.Random(1)
    for _ in range(4):
        write(cluster, tp, 500, last)
        time.sleep(rng.random() * 0.4)  # at any point of a cleaning, or after it
        children = Path(f"/proc/{cluster.brokers[0].pid}/task/{cluster.brokers[0].pid}/children").read_text().split()
        cluster.brokers[0].kill()
        cluster.restart_broker(0)
        assert not [pid for pid in children if running(int(pid))], "a helper process outlived its broker"
        check(cluster, tp, last)
    before = checkpoint(cluster, tp.topic)
    write(cluster, tp, 500, last)
    wait_for(lambda: checkpoint(cluster, tp.topic) > before, "a cleaning after the last start")
    assert check(cluster, tp, last) < 2500 and not leftovers(folder)


def test_the_command_cleans_a_log_that_is_not_dirty_enough(
    cluster: EmbeddedCluster, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compact, "PICKUP_S", 3)
    topic = make_topic(cluster=cluster, config={**COMPACTED, "min.cleanable.dirty.ratio": "1.0"})
    last: Last = {}
    write(cluster, TopicPartition(topic, 0), 600, last)
    before = len(read(cluster, TopicPartition(topic, 0)))
    where = ("--zookeeper", cluster.zookeeper_connect)
    done = CliRunner().invoke(compact.command, ["--topic", topic, "--json", *where], catch_exceptions=False)
    (row,) = json.loads(done.stdout)
    assert done.exit_code == 0 and row["after_bytes"] < row["before_bytes"]
    assert len(read(cluster, TopicPartition(topic, 0))) < before
    with BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        values = {entry.name: entry.value for entry in admin.describe_topic_configs([topic])[topic]}
    assert values["min.cleanable.dirty.ratio"] == "1.0"


def test_a_ratio_of_0_ends_the_cleaners_rest(make_cluster: MakeCluster, make_topic: MakeTopic) -> None:
    cluster = make_cluster(1, {**PROPERTIES, "log.cleaner.backoff.ms": "3600000"})
    topic = make_topic(cluster=cluster, config={**COMPACTED, "min.cleanable.dirty.ratio": "1.0"})
    write(cluster, TopicPartition(topic, 0), 600, {})
    with BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:

        def ask() -> bool:
            """Nothing can be cleaned until the segments are durable."""
            admin.alter_topic_config(topic, {"min.cleanable.dirty.ratio": "0"})
            return checkpoint(cluster, topic) > 0

        wait_for(ask, "a cleaning")
