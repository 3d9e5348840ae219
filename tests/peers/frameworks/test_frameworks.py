"""Frameworks that read and write whole topics: MirrorMaker 2 and Flink's connector do the same on both clusters."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.admin.group_admin import CommittedOffset
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from tests.peers import jars, java, targets
from tests.peers.apache_kafka import write_properties
from tests.peers.processes import ServerProcess, wait_until
from tests.peers.targets import Target

pytestmark = pytest.mark.peers

PARTITIONS = 3
_MIRROR_MAKER = "org.apache.kafka.connect.mirror.MirrorMaker"
_MIRROR_FLAGS = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
#: Flink's own list for Java 17 (config.yaml, `env.java.opts.all`), the part that a local job needs.
_FLINK_FLAGS = (
    "-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)  # fmt: skip
_WAIT_S = 120.0


@pytest.fixture
def admin(target: Target) -> Iterator[BlockingAdmin]:
    with BlockingAdmin(bootstrap_servers=target.bootstrap) as admin:
        yield admin


def partitions_of(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


def write(target: Target, topic: str, begin: int, end: int) -> None:
    """A committed transaction with one record for each number, and an aborted one after it."""
    with BlockingProducer(bootstrap_servers=target.bootstrap, transactional_id=f"writer-{topic}") as producer:
        producer.init_transactions()
        with producer.transaction():
            for number in range(begin, end):
                producer.send(topic, b"record %d" % number, partition=number % PARTITIONS)
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=0)
        producer.flush()
        producer.abort_transaction()


def written(begin: int, end: int) -> list[list[bytes]]:
    """The values that were written to each partition."""
    numbers = [[number for number in range(begin, end) if number % PARTITIONS == each] for each in range(PARTITIONS)]
    return [[b"record %d" % number for number in some] for some in numbers]


def committed(target: Target, topic: str, starts: Mapping[TopicPartition, int] | None = None) -> list[list[bytes]]:
    """The values that a read_committed reader gets from these offsets on, of each partition, in order."""
    tps = partitions_of(topic)
    found: list[list[bytes]] = [[] for _ in tps]
    with BlockingReader(bootstrap_servers=target.bootstrap, isolation_level="read_committed") as reader:
        reader.assign(starts or dict.fromkeys(tps, "earliest"))
        for records in reader.batches(reader.end_offsets(tps)):
            for record in records:
                found[record.partition].append(record.value)
    return found


# -- MirrorMaker 2 ------------------------------------------------------------------------------------------------


def mirror_properties(here: Target, there: Target, topic: str, group: str) -> dict[str, str]:
    stores = ("config.storage", "offset.storage", "status.storage")
    internal = (*stores, "offset-syncs.topic", "checkpoints.topic", "heartbeats.topic")
    return {
        "clusters": "here, there",
        "here.bootstrap.servers": here.bootstrap,
        "there.bootstrap.servers": there.bootstrap,
        "here->there.enabled": "true",
        "here->there.topics": topic,
        "here->there.groups": group,
        "there->here.enabled": "false",
        "there->here.emit.heartbeats.enabled": "false",
        "replication.factor": "1",
        **{f"{each}.replication.factor": "1" for each in internal},
        "offset.storage.partitions": "2",
        "offset.lag.max": "0",  # every record gets an offset sync, so that any offset of a group can be translated
        "there.exactly.once.source.support": "enabled",
        "sync.group.offsets.enabled": "true",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.interval.seconds": "1",
        "sync.topic.configs.interval.seconds": "1",
        "refresh.topics.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "here.consumer.auto.offset.reset": "earliest",
        "here.consumer.isolation.level": "read_committed",
    }


@pytest.fixture(params=targets.NAMES)
def pair(request: pytest.FixtureRequest, running_target: Callable[[str], Target]) -> tuple[Target, Target]:
    """The source cluster of each kind, and the other cluster, which gets the copies."""
    (other,) = set(targets.NAMES) - {request.param}
    return running_target(request.param), running_target(other)


def test_mirror_maker_copies_records_settings_and_offsets(pair: tuple[Target, Target], tmp_path: Path) -> None:
    """MirrorMaker copies only committed records, in order and once, a setting that changes during the copy, and a
    group's translated offset.
    """
    here, there = pair
    topic = f"mirrored-{uuid.uuid4().hex[:8]}"
    copy, group = f"here.{topic}", f"readers-{topic}"
    path = write_properties(tmp_path / "mm2.properties", mirror_properties(here, there, topic, group))
    logging = f"-Dlog4j.configuration=file:{java.SOURCES / 'tools-log4j.properties'}"
    command = ["java", *_MIRROR_FLAGS, logging, "-cp", jars.class_path(jars.APPLICATIONS), _MIRROR_MAKER, str(path)]
    mirror_maker = ServerProcess("mirror-maker", command, tmp_path / "mm2.out")

    def wait(condition: Callable[[], bool], what: str) -> None:
        try:
            wait_until(condition, _WAIT_S, what, interval_s=0.5)
        except TimeoutError as late:
            raise TimeoutError(f"{late}\n{mirror_maker.tail()}") from late

    try:
        with BlockingAdmin(bootstrap_servers=here.bootstrap) as admin:
            admin.create_topic(topic, PARTITIONS, 1, {"retention.ms": "1000000000000"})
            write(here, topic, 0, 300)
            wait(lambda: exists(there, copy) and committed(there, copy) == written(0, 300), "the first records")
            assert setting(there, copy) == "1000000000000"
            write(here, topic, 300, 600)
            admin.alter_topic_config(topic, {"retention.ms": "2000000000000"})
            wait(lambda: committed(there, copy) == written(0, 600), "all records")
            wait(lambda: setting(there, copy) == "2000000000000", "the setting")
            ends = {tp: CommittedOffset(end) for tp, end in end_offsets(here, topic).items()}
            admin.groups.commit(group, ends)
            wait(lambda: is_at_the_end(there, group, copy), "the group's place in the copy")
        assert " ERROR " not in mirror_maker.output.read_text()
    finally:
        mirror_maker.kill()


def exists(target: Target, topic: str) -> bool:
    with BlockingAdmin(bootstrap_servers=target.bootstrap) as admin:
        return topic in admin.list_topics()


def setting(target: Target, topic: str) -> str | None:
    with BlockingAdmin(bootstrap_servers=target.bootstrap) as admin:
        (entries,) = admin.describe_topic_configs([topic]).values()
    return {entry.name: entry.value for entry in entries}["retention.ms"]


def end_offsets(target: Target, topic: str) -> dict[TopicPartition, int]:
    with BlockingReader(bootstrap_servers=target.bootstrap) as reader:
        return reader.end_offsets(partitions_of(topic))


def is_at_the_end(target: Target, group: str, topic: str) -> bool:
    """Whether a group has an offset in every partition, and no committed record is left to read from there."""
    with BlockingAdmin(bootstrap_servers=target.bootstrap) as admin:
        places = admin.groups.stable_offsets(group, partitions_of(topic))
    return all(place >= 0 for place in places.values()) and committed(target, topic, places) == [[]] * PARTITIONS


# -- Flink --------------------------------------------------------------------------------------------------------


def run_flink(target: Target, source: str, results: str) -> None:
    arguments = [target.bootstrap, source, results, f"flink-{source}"]
    command = java.driver_command(jars.FLINK, "UpperCase", arguments, _FLINK_FLAGS)
    java.run_to_its_end(command, timeout_s=_WAIT_S)


@pytest.mark.weekly
def test_flink_copies_a_topic_exactly_once(target: Target, admin: BlockingAdmin) -> None:
    """Flink commits its transactions at checkpoints, the last one when the job has reached the end of its source."""
    source, results = (f"{each}-{uuid.uuid4().hex[:8]}" for each in ("lower", "upper"))
    for topic in (source, results):
        admin.create_topic(topic, PARTITIONS, 1)
    write(target, source, 0, 600)
    run_flink(target, source, results)
    copied = sorted(value for some in committed(target, results) for value in some)
    assert copied == sorted(b"RECORD %d" % number for number in range(600))
