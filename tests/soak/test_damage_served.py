"""Damage as a broker's clients see it: the served records, the start's report, and unaffected other partitions."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import BrokerError
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.storage.files.checkpoints import read_offsets
from kafka_zk.storage.files.filenames import RECOVERY_POINT_CHECKPOINT
from kafka_zk.storage.records.record_batch import iter_batches
from kafka_zk.testing.clients import create_topic
from kafka_zk.testing.zookeeper import Chroot
from tests.integration.processes import kafka_zk, wait_for
from tests.soak.brokers import kill_broker, one_broker
from tests.soak.test_damage import Place, do_damage, flip

pytestmark = pytest.mark.integration

BATCHES = 30
CHECKPOINT_MS = 200


@pytest.fixture(scope="module")
def broker(zookeeper_server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:  # type: ignore[no-untyped-def]
    chroot = Chroot(zookeeper_server, "/damage")
    properties = {"log.flush.offset.checkpoint.interval.ms": str(CHECKPOINT_MS)}
    with one_broker(chroot, tmp_path_factory.mktemp("damage"), properties) as cluster:
        yield cluster


def write(cluster: EmbeddedCluster, tp: TopicPartition, count: int = BATCHES) -> list[bytes]:
    """Write one record per batch, so that the values show which batches survive."""
    values = [b"%s %d" % (str(tp).encode(), number) for number in range(count)]
    with BlockingProducer(bootstrap_servers=cluster.bootstrap) as producer:
        for value in values:
            producer.send(tp.topic, value, partition=tp.partition).result(30)
    return values


def read(cluster: EmbeddedCluster, tp: TopicPartition, start: int | str = "earliest") -> list[bytes | None]:
    with BlockingReader(bootstrap_servers=cluster.bootstrap) as reader:
        reader.assign({tp: start})
        end = reader.end_offsets([tp])
        return [record.value for records in reader.batches(end) for record in records]


def places(cluster: EmbeddedCluster, tp: TopicPartition) -> list[Place]:
    """The batches of a log of one segment."""
    path = cluster.brokers[0].log_dir / f"{tp.topic}-{tp.partition}" / f"{0:020d}.log"
    return [
        Place(str(path), position, header.size_bytes, header.base_offset)
        for position, header in iter_batches(path.read_bytes())
    ]


def test_damage_after_the_recovery_point_costs_what_follows_it_and_no_other_partition(
    broker: EmbeddedCluster, process_campaign_seed: int
) -> None:
    rng = random.Random(process_campaign_seed)
    topic = f"loose-{process_campaign_seed}"
    create_topic(broker.bootstrap, topic, 2, {})
    damaged, whole = TopicPartition(topic, 0), TopicPartition(topic, 1)
    values, others = write(broker, damaged), write(broker, whole)
    kill_broker(broker)
    found = places(broker, damaged)
    victim = rng.randrange(BATCHES)
    do_damage(rng, found[victim])
    dropped_bytes = Path(found[0].path).stat().st_size - found[victim].position
    broker.restart_broker(0)
    assert read(broker, damaged) == values[:victim]
    assert read(broker, whole) == others
    said = [line for line in broker.brokers[0].process.output().splitlines() if "recovery dropped" in line]
    assert any(f"topic={topic} partition=0 " in line and f"bytes_dropped={dropped_bytes} " in line for line in said), (
        said
    )
    more = write(broker, damaged, 3)
    assert read(broker, damaged) == values[:victim] + more


def test_a_flip_before_the_recovery_point_is_the_readers_to_find(
    broker: EmbeddedCluster, process_campaign_seed: int
) -> None:
    """A client's CRC check and ``dump-log --verify`` find it. The broker stays up and serves everything else."""
    rng = random.Random(process_campaign_seed)
    topic = f"durable-{process_campaign_seed}"
    create_topic(broker.bootstrap, topic, 2, {"flush.messages": "1"})
    damaged, whole = TopicPartition(topic, 0), TopicPartition(topic, 1)
    values, others = write(broker, damaged), write(broker, whole)
    checkpoint = str(broker.brokers[0].log_dir / RECOVERY_POINT_CHECKPOINT)
    wait_for(lambda: read_offsets(checkpoint).get(damaged) == BATCHES, "the recovery point's checkpoint")
    kill_broker(broker)
    found = places(broker, damaged)
    victim = rng.randrange(1, BATCHES - 1)
    flip_records(rng, found[victim])
    broker.restart_broker(0)
    with pytest.raises(BrokerError, match="CORRUPT_MESSAGE"):
        read(broker, damaged)
    assert read(broker, damaged, victim + 1) == values[victim + 1 :]
    assert read(broker, whole) == others
    verified = kafka_zk("dump-log", "--verify", found[victim].path)
    assert verified.returncode == 1 and "CRC" in verified.stdout + verified.stderr
    more = write(broker, damaged, 3)
    assert read(broker, damaged, BATCHES) == more


def flip_records(rng: random.Random, place: Place) -> None:
    """Flip a bit after the header's lengths, so that the batch keeps its position and size."""
    start = 61
    flip(rng, place._replace(position=place.position + start, size_bytes=place.size_bytes - start), guarded=range(0))
