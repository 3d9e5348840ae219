"""``kafka-zk tier check`` against the tiered storage of Apache Kafka 3.9.1."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.main import run
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.list_offsets import EARLIEST_LOCAL, LATEST
from kafka_zk.clients.producer.blocking import BlockingProducer
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


def _folder(kafka: TieredKafka, topic: str) -> Path:
    [folder] = (kafka.tier / "kafka-tiered-storage").glob(f"{topic}-0-*")
    return folder
