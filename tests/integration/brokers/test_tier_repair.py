"""``kafka-zk tier check --repair`` on the remote storage of a running broker: a folder, and an S3 bucket."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.main import run
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.list_offsets import EARLIEST_LOCAL
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.protocol.remote_log_metadata import encode_remote_log_record
from kafka_zk.storage.tiered.layout import Layout
from kafka_zk.storage.tiered.metadata_partition import METADATA_TOPIC
from kafka_zk.storage.tiered.object_store import WritableStore
from kafka_zk.storage.tiered.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from kafka_zk.storage.tiered.storage_address import open_storage
from kafka_zk.testing.cluster import Cluster
from tests.integration.brokers.test_tiered_bucket import BUCKET, KEY_ID, PREFIX, SECRET, TOPIC, properties
from tests.integration.processes import wait_for
from tests.peers.spark.s3 import REGION, S3, s3_server

pytestmark = [pytest.mark.integration, pytest.mark.embedded, pytest.mark.weekly]

COUNT = 500
GONE_BROKER = 99
HOURS_S = 3 * 3600
"""The command's clock is this far ahead, so that everything is old enough. The broker's is not, because a broker
deletes unfinished copies of that age itself."""
FOLDER = {
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "remote.log.storage.system.enable": "true",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "remote.log.manager.task.interval.ms": "300",
}


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3]:
    with s3_server(tmp_path / "moto.log") as server:
        server.client.create_bucket(Bucket=BUCKET)
        yield server


class Later:
    """The module ``time``, three hours later."""

    @staticmethod
    def time() -> float:
        return time.time() + HOURS_S


def records(bootstrap: str) -> list[bytes | None]:
    tp = TopicPartition(TOPIC, 0)
    with BlockingReader(bootstrap_servers=bootstrap) as reader:
        reader.assign({tp: 0})
        return [each.value for batch in reader.batches({tp: COUNT}) for each in batch]


def fill(bootstrap: str) -> None:
    """Write records of which most are soon only remote."""
    with BlockingAdmin(bootstrap_servers=bootstrap) as admin, BlockingProducer(bootstrap_servers=bootstrap) as producer:
        config = {"remote.storage.enable": "true", "segment.bytes": "20000", "local.retention.bytes": "20000"}
        admin.create_topic(TOPIC, 1, 1, config)
        for number in range(COUNT):
            producer.send(TOPIC, b"%d %s" % (number, b"x" * 200), partition=0)
            if number % 10 == 0:
                producer.flush()
        producer.flush()
        tp = TopicPartition(TOPIC, 0)
        wait_for(lambda: admin.list_offsets({tp: EARLIEST_LOCAL})[tp].offset > COUNT // 2, "remote segments", 60)


def begun(topic_id: UUID, number: int) -> RemoteLogSegmentMetadata:
    """A copy of the first ten offsets, which other segments have, too."""
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(TopicIdPartition(topic_id, TOPIC, 0), UUID(int=number)), 0, 9, -1, round(time.time() * 1000),
        ((0, 0),), 100, None, RemoteLogSegmentState.COPY_SEGMENT_STARTED,
    )  # fmt: skip


def damage(bootstrap: str, topic_id: UUID, store: WritableStore, layout: Layout) -> Callable[[], set[str]]:
    """Add an orphan, and a copy whose broker is gone; returns a function that lists the objects of both."""
    copy, orphan = begun(topic_id, 1), begun(topic_id, 2)
    for each in layout.objects(copy, None)[:2]:
        store.put(each.key, iter((b"begun",)))
    for each in layout.objects(orphan, None):
        store.put(each.key, iter((b"orphan",)))
    with BlockingProducer(bootstrap_servers=bootstrap) as producer:
        producer.send(METADATA_TOPIC, encode_remote_log_record(copy, GONE_BROKER), partition=0).result()
    stems = [layout.objects(each, None)[0].key.removesuffix("log") for each in (copy, orphan)]
    return lambda: {each.key for stem in stems for each in store.list(stem)}


def repaired(address: str, bootstrap: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    """Repair; the plan alone changes nothing, a second check finds nothing, and all records can be read."""
    monkeypatch.setattr("kafka_zk.cli.tier.gathering.time", Later)
    monkeypatch.setattr("kafka_zk.cli.tier.repairing.time", Later)
    command = ["tier", "check", "--storage", address, "--bootstrap-server", bootstrap]
    wait_for(lambda: run(command) == 0, "the end of all copies", 60)
    before = records(bootstrap)
    assert len(before) == COUNT
    store, layout = open_storage(address)
    with BlockingAdmin(bootstrap_servers=bootstrap) as admin:
        topic_id = admin.describe_topics([TOPIC])[TOPIC].topic_id
    left = damage(bootstrap, topic_id, store, layout)
    added = left()
    assert run([*command, "--repair"]) == 1
    shown = capsys.readouterr().out
    assert "plan: 2 steps" in shown and "0 not repaired" in shown, shown
    assert left() == added
    assert run([*command, "--repair", "--execute"]) == 0, capsys.readouterr().out
    assert left() == set()
    assert run(command) == 0, capsys.readouterr().out
    assert records(bootstrap) == before


def test_a_folder_is_repaired(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    tier = tmp_path / "tier"
    tier.mkdir()
    with Cluster(1, properties={**FOLDER, "rsm.config.dir": str(tier)}, data=tmp_path / "cluster") as cluster:
        fill(cluster.bootstrap)
        repaired(str(tier), cluster.bootstrap, capsys, monkeypatch)


def test_a_bucket_is_repaired(s3: S3, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    """The bucket's keys appear in no output."""
    for variable, text in {
        "AWS_ENDPOINT_URL": s3.endpoint, "AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": REGION,
    }.items():  # fmt: skip
        monkeypatch.setenv(variable, text)
    with Cluster(1, properties=properties(s3.endpoint), data=tmp_path / "cluster") as cluster:
        fill(cluster.bootstrap)
        repaired(f"s3://{BUCKET}/{PREFIX}", cluster.bootstrap, capsys, monkeypatch)
    shown = "".join(capsys.readouterr())
    assert KEY_ID not in shown and SECRET not in shown
