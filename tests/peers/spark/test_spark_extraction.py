"""Extractions by Spark from topics that Kafka's own programs have used: its Scala consumers and its log cleaner.

The tests use Apache Kafka 3.9.1 in ZooKeeper mode and, where possible, our brokers.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.spark_jobs.extraction.job import extract
from kafka_zk.spark_jobs.extraction.planning import Extraction, Report
from tests.peers import jars, targets
from tests.peers.groups.mixed_group import CONSUMED_S, Member, MixedGroup, Position
from tests.peers.processes import wait_until
from tests.peers.spark import spark_sources
from tests.peers.spark.spark_sources import OURS, SPARKS
from tests.peers.targets import Target

pytestmark = pytest.mark.peers

_PARTITIONS = 3
_NEW_RECORDS = 40
_FIRST_RUN = 50
_CLEANER_S = 120
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def _extract(session: Any, target: Target, group: str, topic: str, lake: Path, **more: Any) -> Report:
    return extract(
        session, Extraction(zookeeper=target.zookeeper, group=group, topics=(topic,), target=str(lake), **more)
    )


def _begun(positions: list[Position]) -> dict[int, int]:
    begun: dict[int, int] = {}
    for partition, offset in positions:
        begun.setdefault(partition, offset)
    return begun


@pytest.mark.one_in(2)
@pytest.mark.parametrize("version", jars.LEGACY_VERSIONS)
def test_scala_consumer_and_extraction_take_turns(
    target: Target, spark_with_both_sources: Any, version: str, tmp_path: Path
) -> None:
    """Each one begins exactly where the other stopped; together they have every record once."""
    session = spark_with_both_sources
    name = f"turns{uuid.uuid4().hex[:8]}"
    target.create_topic(name, partitions=_PARTITIONS)
    group = MixedGroup(target, name, name, _PARTITIONS, tmp_path / "group")
    try:
        first = group.join(version)
        wait_until(lambda: len(_begun(first.consumed())) == _PARTITIONS, CONSUMED_S, "records of all partitions")
        group.wait_consumed()
        group.leave(first)
        stopped = group.offsets()
        _write(target, name)
        report = _extract(session, target, name, name, tmp_path / "lake", max_records=_FIRST_RUN)
        reached = {each.partition: each.until_offset for each in report.partitions}
        assert {each.partition: each.from_offset for each in report.partitions} == stopped
        assert (report.records, sum(reached.values()) - sum(stopped.values())) == (_FIRST_RUN, _FIRST_RUN)
        assert group.offsets() == reached
        second = group.join(version)
        ends = {number: stopped[number] + _NEW_RECORDS for number in range(_PARTITIONS)}
        wait_until(lambda: _ends(second) == ends, CONSUMED_S, "the rest to be consumed")
        group.leave(second)
        assert _begun(second.consumed()) == reached
        everything = [*first.consumed(), *_extracted(session, report), *second.consumed()]
        assert sorted(everything) == [Position(number, offset) for number in ends for offset in range(ends[number])]
        assert _extract(session, target, name, name, tmp_path / "lake").records == 0
    finally:
        group.close()


def _write(target: Target, topic: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": target.bootstrap, "log_level": 3})
    for number in range(_NEW_RECORDS * _PARTITIONS):
        producer.produce(topic, b"%d" % number, partition=number % _PARTITIONS)
    assert producer.flush(60) == 0


def _ends(member: Member) -> dict[int, int]:
    return {partition: offset + 1 for partition, offset in member.consumed()}


def _extracted(session: Any, report: Report) -> list[Position]:
    rows = session.read.parquet(*report.published).select("partition", "offset").collect()
    return [Position(row.partition, row.offset) for row in rows]


# --- a compacted topic


class Compacted(NamedTuple):
    """``survivors``: key and value of the last write of each key, by offset. ``end``: the log end."""

    target: Target
    topic: str
    survivors: dict[int, tuple[bytes, bytes | None]]
    end: int


@pytest.fixture
def compacted(peer_zookeeper: str, tmp_path: Path) -> Iterator[Compacted]:
    """A partition that Apache Kafka's cleaner has cleaned up to the end of its known records."""
    overrides = {"log.retention.ms": "-1", "log.cleaner.backoff.ms": "100"}
    chroot = f"compacted-{uuid.uuid4().hex[:8]}"
    target = targets.start(targets.APACHE_KAFKA, peer_zookeeper, tmp_path / "kafka", overrides=overrides, chroot=chroot)
    try:
        config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}
        target.create_topic("compacted", config=config)
        survivors, end = _write_keys(target)
        # A write closes a segment, and only closed ones are cleaned; the key "last" is not compared.
        wait_until(lambda: _cleaned_up_to(target, "compacted") >= end, _CLEANER_S, "the cleaner")
        yield Compacted(target, "compacted", survivors, end)
    finally:
        target.stop()


def _write_keys(target: Target) -> tuple[dict[int, tuple[bytes, bytes | None]], int]:
    """Write each key several times, in batches of every codec; the last value of some is null. The producer is
    idempotent, so that the cleaner must keep batches without records."""
    latest: dict[bytes, tuple[int, bytes | None]] = {}
    offset = 0
    for turn in range(2 * len(_CODECS)):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": target.bootstrap, "compression.type": _CODECS[turn % len(_CODECS)], "linger.ms": 50,
             "enable.idempotence": True, "log_level": 3}
        )  # fmt: skip
        for number in range(turn, 30):
            key = b"key-%d" % number
            value = None if number % 4 == 3 else b"value %d of turn %d" % (number, turn)
            producer.produce("compacted", value, key, partition=0)
            latest[key] = (offset, value)
            offset += 1
        assert producer.flush(60) == 0
    return {offset: (key, value) for key, (offset, value) in latest.items()}, offset


def _cleaned_up_to(target: Target, topic: str) -> int:
    """The offset up to which the log is clean, after one more write of the key "last"."""
    producer = confluent_kafka.Producer({"bootstrap.servers": target.bootstrap, "log_level": 3})
    producer.produce(topic, b"", b"last", partition=0)
    assert producer.flush(60) == 0
    checkpoint = target.log_dirs[0] / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
    return next((int(line.split()[2]) for line in lines[2:] if line.split()[0] == topic), 0)


def test_compacted_topic_is_read_and_extracted_without_loss(
    compacted: Compacted, spark_with_both_sources: Any, tmp_path: Path
) -> None:
    """The log has gaps at the beginning, in the middle and at the ends of ranges, tombstones, and batches without
    records."""
    session, target, topic = spark_with_both_sources, compacted.target, compacted.topic
    options = {"subscribe": topic, "includeHeaders": "true", "minPartitions": "7"}
    ours = spark_sources.read(session, OURS, target.bootstrap, options)
    assert spark_sources.difference(ours, spark_sources.read(session, SPARKS, target.bootstrap, options)) == ""
    assert ours.rows is not None, ours.error
    rows = {row["offset"]: (row["key"], row["value"]) for row in ours.rows.to_pylist()}
    assert {offset: found for offset, found in rows.items() if found[0] != b"last"} == compacted.survivors
    assert len(compacted.survivors) < compacted.end
    assert None in {value for _, value in compacted.survivors.values()}

    tp, stored = TopicPartition(topic, 0), 1
    assert stored not in rows
    with KazooBlockingClient(target.zookeeper) as client:
        offsets = OffsetRegistry(client, "lake")
        run_blocking(offsets.store({tp: stored}))
        first = _extract(session, target, "lake", topic, tmp_path / "lake", max_records=compacted.end - 10)
        rest = _extract(session, target, "lake", topic, tmp_path / "lake")
        assert run_blocking(offsets.fetch([tp]))[tp].offset == rest.partitions[0].until_offset
    assert (first.partitions[0].from_offset, rest.partitions[0].lag_after) == (stored, 0)
    lake = session.read.parquet(*first.published, *rest.published).select("offset", "key", "value").collect()
    assert sorted((row.offset, row.key, row.value) for row in lake) == sorted(
        (offset, key, value) for offset, (key, value) in rows.items() if offset >= stored
    )
