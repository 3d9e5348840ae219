"""Our Spark source and Spark's own Kafka source return the same rows for the same brokers, topics and options.

The topics and the reads are made from seeds: `--seed` is the first one, `--rounds` divided by ten their number. Spark's
own source uses Kafka's Java consumer, so it is the reference for ours, on our brokers and on Apache Kafka's.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.topics import TopicRegistry
from tests.peers import targets, wire_probe
from tests.peers.logs.made_logs import LogMaker, MadeTopic, plant
from tests.peers.processes import wait_until
from tests.peers.spark import spark_reads, spark_sources
from tests.peers.spark.spark_sources import OURS, SPARKS
from tests.peers.targets import Target

pytestmark = pytest.mark.peers

_TOPICS = 10
_LEADERS_S = 60
_OVERRIDES = {"log.retention.ms": "-1", "message.max.bytes": "10000000"}
#: Sets of magic 0 and 1 are on disks that an old broker wrote; ours starts with magic 2.
_STORED_MAGICS = {targets.KAFKA_ZK: (2,), targets.APACHE_KAFKA: (0, 1, 2, 2, 2)}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "made_seed" in metafunc.fixturenames:
        first: int = metafunc.config.getoption("seed")
        rounds: int = metafunc.config.getoption("rounds")
        metafunc.parametrize("made_seed", range(first, first + max(1, rounds // 10)))


async def created(client: KazooBlockingClient, path: str) -> str:
    return await client.create(path, b"")


def _create(zookeeper: str, chroot: str, topics: list[MadeTopic]) -> None:
    """Create the topics before the broker starts, so that the planted segments are the partition's log from the
    beginning."""
    with KazooBlockingClient(zookeeper) as client:
        run_blocking(created(client, f"/{chroot}"))
    with KazooBlockingClient(f"{zookeeper}/{chroot}") as client:
        registry = TopicRegistry(client)
        for topic in topics:
            assignment = {number: [0] for number in range(len(topic.partitions))}
            run_blocking(registry.create_topic(topic.name, assignment, None, topic.config))


def _send(target: Target, topics: list[MadeTopic]) -> None:
    for topic in topics:
        for number, partition in enumerate(topic.partitions):
            for sent in partition.sent:
                error, _ = wire_probe.produce(
                    target.ports[0], topic.name, number, sent.records, version=sent.produce_version
                )
                assert error == 0, f"{topic.name}-{number}: Produce {sent.produce_version} got error {error}"


def _bounds(target: Target, topics: list[MadeTopic]) -> dict[TopicPartition, tuple[int, int]]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": target.bootstrap, "group.id": "none", "log_level": 3})
    try:
        return {
            TopicPartition(topic.name, number): consumer.get_watermark_offsets(
                confluent_kafka.TopicPartition(topic.name, number), timeout=_LEADERS_S
            )
            for topic in topics
            for number in range(len(topic.partitions))
        }
    finally:
        consumer.close()


def _delete_heads(target: Target, topics: list[MadeTopic]) -> None:
    bounds = _bounds(target, topics)
    before = []
    for topic in topics:
        for number, partition in enumerate(topic.partitions):
            first, end = bounds[TopicPartition(topic.name, number)]
            if partition.deleted is not None:
                offset = first + int((end - first) * partition.deleted)
                before.append(confluent_kafka.TopicPartition(topic.name, number, offset))
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": target.bootstrap, "log_level": 3})
    for future in admin.delete_records(before).values() if before else ():
        future.result(_LEADERS_S)


def _has_leaders(target: Target, topics: list[MadeTopic]) -> bool:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": target.bootstrap, "log_level": 3})
    known = admin.list_topics(timeout=_LEADERS_S).topics
    return all(
        topic.name in known
        and len(known[topic.name].partitions) == len(topic.partitions)
        and all(each.leader >= 0 for each in known[topic.name].partitions.values())
        for topic in topics
    )


def _reads(seed: int, prefix: str, topics: list[MadeTopic], bounds: spark_reads.Bounds) -> list[spark_reads.Read]:
    rng = random.Random(seed)
    names = [topic.name for topic in topics]
    return [
        spark_reads.everything(names),
        spark_reads.by_offsets(rng, bounds),
        spark_reads.by_offsets(rng, bounds),
        spark_reads.by_time(rng, prefix, bounds),
        spark_reads.committed_only(rng, names),
        spark_reads.lost(rng, bounds),
        spark_reads.lost(rng, bounds),
    ]


def _differences(session: Any, target: Target, reads: list[spark_reads.Read]) -> str:
    """Carry out each read with both sources. Returns the options and the first difference of each that differs."""
    told = []
    for options, may_fail, same_tasks in reads:
        ours = spark_sources.read(session, OURS, target.bootstrap, options)
        sparks = spark_sources.read(session, SPARKS, target.bootstrap, options)
        assert may_fail or sparks.rows is not None, f"Spark's own source fails: {options}\n{sparks.error}"
        if found := spark_sources.difference(ours, sparks, same_tasks=same_tasks):
            told.append(f"{options}\n{found}")
    return "\n\n".join(told)


@pytest.mark.parametrize("broker", targets.NAMES)
def test_both_sources_read_the_same(
    broker: str, made_seed: int, spark_with_both_sources: Any, peer_zookeeper: str, tmp_path: Path
) -> None:
    """The logs have every codec and magic, nulls, headers, gaps, batches without records, unusual timestamps, and
    deleted beginnings; the reads have every option."""
    session, prefix = spark_with_both_sources, f"made-{made_seed}"
    maker = LogMaker(made_seed, _STORED_MAGICS[broker])
    topics, too_far = maker.topics(prefix, _TOPICS), maker.too_far("too-far")
    chroot = f"made-{broker}-{made_seed}"
    _create(peer_zookeeper, chroot, [*topics, too_far])
    plant(topics, tmp_path / "broker-0" / "logs")
    target = targets.start(broker, peer_zookeeper, tmp_path, overrides=_OVERRIDES, chroot=chroot)
    try:
        wait_until(lambda: _has_leaders(target, [*topics, too_far]), _LEADERS_S, "leaders of all partitions")
        _send(target, [*topics, too_far])
        _delete_heads(target, topics)
        reads = _reads(made_seed, prefix, topics, _bounds(target, topics))
        assert _differences(session, target, reads) == ""
        for source, sentence in ((OURS, "out of Spark's range"), (SPARKS, "overflows")):
            refused = spark_sources.read(session, source, target.bootstrap, {"subscribe": too_far.name})
            assert sentence in refused.error, f"{source}: {refused}"
    finally:
        complaints = target.stop()
    assert not complaints, "\n".join(complaints)
