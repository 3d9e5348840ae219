"""``kafka-zk tier check`` against the tiered storage of Apache Kafka 3.9.1."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.main import run
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.list_offsets import EARLIEST_LOCAL, LATEST
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.protocol.remote_log_metadata import encode_remote_log_record
from kafka_zk.storage.tiered.local_tiered_storage import LocalTieredStorageLayout
from kafka_zk.storage.tiered.metadata_partition import METADATA_TOPIC, metadata_partition
from kafka_zk.storage.tiered.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tests.peers.processes import wait_until
from tests.peers.tiered_kafka import TieredKafka, tiered_kafka

pytestmark = pytest.mark.peers

TIERED = {"remote.storage.enable": "true", "segment.bytes": "20000", "local.retention.ms": "1"}
RECORDS = 200
COPIED_WITHIN_S = 40


@pytest.fixture(scope="module")
def kafka(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredKafka]:
    with tiered_kafka(f"{peer_zookeeper}/tiered", tmp_path_factory.mktemp("tiered")) as running:
        yield running


def check(kafka: TieredKafka, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    capsys.readouterr()
    storage = ["--storage", str(kafka.tier), "--bootstrap-server", kafka.bootstrap]
    code = run(["tier", "check", "--json", "--older-than", "PT0S", *storage])
    return code, json.loads(capsys.readouterr().out)


def copied(admin: BlockingAdmin, *tps: TopicPartition) -> bool:
    """True if all records are only in remote storage. The active segment is also rolled, because local retention
    removes it.
    """
    ends = admin.list_offsets(dict.fromkeys(tps, LATEST))
    starts = admin.list_offsets(dict.fromkeys(tps, EARLIEST_LOCAL))
    return all(ends[tp].offset == starts[tp].offset == RECORDS for tp in tps)


def test_what_is_done_to_a_bucket_is_found(kafka: TieredKafka, capsys: pytest.CaptureFixture[str]) -> None:
    """A bucket as Kafka leaves it has no findings. Then one object is removed, one is truncated, and a foreign one is
    added, tiering is turned off for one topic, and Kafka itself deletes a topic, which leaves nothing behind.
    """
    cut, gone, off = (TopicPartition(name, 0) for name in ("cut", "gone", "off"))
    with BlockingAdmin(bootstrap_servers=kafka.bootstrap) as admin:
        for tp in (cut, gone, off):
            admin.create_topic(tp.topic, 1, 1, TIERED)
        with BlockingProducer(bootstrap_servers=kafka.bootstrap, batch_size=2000) as producer:
            for number in range(RECORDS):
                for tp in (cut, gone, off):
                    producer.send(tp.topic, b"%0300d" % number)
        wait_until(lambda: copied(admin, cut, gone, off), COPIED_WITHIN_S, "copies of all segments")
        code, clean = check(kafka, capsys)
        assert (code, clean["findings"], clean["notChecked"]) == (0, [], [])
        assert clean["segments"] >= 9 and clean["unreachableSegments"] == 0

        admin.delete_topics(["gone"])
        admin.alter_topic_config("off", {"remote.storage.enable": "false"})
        wait_until(
            lambda: not list(kafka.tier.glob("kafka-tiered-storage/gone-*/*")),
            COPIED_WITHIN_S,
            "deletion of remote segments",
        )
    folder = _folder(kafka, "cut")
    first, second, *_ = sorted(folder.glob("*.log"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1])
    (folder / f"{0:020d}-{'x' * 22}.log").write_bytes(b"foreign")
    code, found = check(kafka, capsys)
    kinds = {each["kind"]: each for each in found["findings"]}
    assert code == 1
    assert set(kinds) == {"TRAP", "MISSING", "SIZE", "ORPHAN"}
    assert len(found["findings"]) == 4
    assert kinds["TRAP"]["topic"] == "off"
    assert kinds["MISSING"]["keys"] == [str(first.relative_to(kafka.tier))]
    assert kinds["SIZE"]["keys"] == [str(second.relative_to(kafka.tier))]
    assert (kinds["ORPHAN"]["topic"], kinds["ORPHAN"]["bytes"]) == ("cut", len(b"foreign"))


def test_kafka_goes_on_after_a_repair(kafka: TieredKafka, capsys: pytest.CaptureFixture[str]) -> None:
    """A broker that is gone began a copy, and an orphan remains of another one. Kafka reads the records that the repair
    writes, all consumers get all records, and later segments are still copied.
    """
    tp, layout = TopicPartition("repaired", 0), LocalTieredStorageLayout()
    with BlockingAdmin(bootstrap_servers=kafka.bootstrap) as admin:
        admin.create_topic(tp.topic, 1, 1, TIERED)
        topic_id = admin.describe_topics([tp.topic])[tp.topic].topic_id
        with BlockingProducer(bootstrap_servers=kafka.bootstrap, batch_size=2000) as producer:
            for number in range(RECORDS):
                producer.send(tp.topic, b"%0300d" % number)
            producer.flush()
            wait_until(lambda: copied(admin, tp), COPIED_WITHIN_S, "copies of all segments")
            begun, orphan = (_begun(TopicIdPartition(topic_id, *tp), number) for number in (1, 2))
            for each in (*layout.objects(begun, None)[:3], *layout.objects(orphan, None)):
                path = kafka.tier / each.key
                path.write_bytes(b"begun")
                os.utime(path, (0, 0))
            metadata_topic = admin.describe_topics([METADATA_TOPIC])[METADATA_TOPIC]
            partition = metadata_partition(topic_id, 0, len(metadata_topic.partitions))
            producer.send(METADATA_TOPIC, encode_remote_log_record(begun, 99), partition=partition).result()
        command = ["tier", "check", "--storage", str(kafka.tier), "--bootstrap-server", kafka.bootstrap]
        assert run([*command, "--topic", tp.topic, "--repair"]) == 1
        assert "plan: 2 steps" in capsys.readouterr().out
        assert run([*command, "--topic", tp.topic, "--repair", "--execute"]) == 0, capsys.readouterr().out
        assert run([*command, "--topic", tp.topic]) == 0, capsys.readouterr().out
        with BlockingProducer(bootstrap_servers=kafka.bootstrap, batch_size=2000) as producer:
            for number in range(RECORDS, 2 * RECORDS):
                producer.send(tp.topic, b"%0300d" % number)
        wait_until(
            lambda: admin.list_offsets({tp: EARLIEST_LOCAL})[tp].offset == 2 * RECORDS, COPIED_WITHIN_S, "later copies"
        )
    with BlockingReader(bootstrap_servers=kafka.bootstrap) as reader:
        reader.assign({tp: 0})
        values = [each.value for batch in reader.batches({tp: 2 * RECORDS}) for each in batch]
    assert values == [b"%0300d" % number for number in range(2 * RECORDS)]


def _begun(tp: TopicIdPartition, number: int) -> RemoteLogSegmentMetadata:
    now_ms = round(time.time() * 1000)
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(tp, UUID(int=number)), 0, 9, now_ms, now_ms - 3 * 3_600_000, ((0, 0),), 5, None,
        RemoteLogSegmentState.COPY_SEGMENT_STARTED,
    )  # fmt: skip


def _folder(kafka: TieredKafka, topic: str) -> Path:
    [folder] = (kafka.tier / "kafka-tiered-storage").glob(f"{topic}-0-*")
    return folder
