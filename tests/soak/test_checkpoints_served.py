"""Damage to the files beside the records, as a broker's clients and its log show it: the served records, and one WARN
for each file.

``test_checkpoints`` tests more kinds of damage, on the storage alone.
"""

import random
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition as AdminPartition
from confluent_kafka.admin import AdminClient

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.storage.files.checkpoints import write_offsets
from kafka_zk.storage.files.filenames import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from kafka_zk.testing.clients import create_topic
from kafka_zk.testing.zookeeper import Chroot
from tests.soak.brokers import kill_broker, one_broker
from tests.soak.test_damage_served import read, write

pytestmark = pytest.mark.integration

BATCHES = 40


@pytest.fixture(scope="module")
def broker(zookeeper_server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:  # type: ignore[no-untyped-def]
    with one_broker(Chroot(zookeeper_server, "/checkpoints"), tmp_path_factory.mktemp("checkpoints")) as cluster:
        yield cluster


def stop(cluster: EmbeddedCluster, *, clean: bool) -> None:
    if clean:
        assert cluster.brokers[0].stop() == 0
    else:
        kill_broker(cluster)


def warnings(cluster: EmbeddedCluster) -> list[str]:
    """The broker's warnings since its last start."""
    return [line for line in cluster.brokers[0].process.output().splitlines() if " WARNING " in line]


def delete_before(cluster: EmbeddedCluster, tp: TopicPartition, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for deleted in admin.delete_records([AdminPartition(tp.topic, tp.partition, offset)]).values():
        deleted.result(30)


def start_of(cluster: EmbeddedCluster, tp: TopicPartition) -> int:
    with BlockingReader(bootstrap_servers=cluster.bootstrap) as reader:
        return reader.beginning_offsets([tp])[tp]


@pytest.mark.parametrize("clean", [True, False])
def test_damaged_files_are_told_and_the_records_are_served(
    broker: EmbeddedCluster, process_campaign_seed: int, clean: bool
) -> None:
    """Records that DeleteRecords deleted just before a kill stay deleted: the response came after the deletion was
    durable."""
    rng = random.Random(process_campaign_seed * 2 + clean)
    topic = f"beside-{process_campaign_seed}-{clean}"
    create_topic(broker.bootstrap, topic, 2, {"segment.bytes": "1000"})
    kept, cut = TopicPartition(topic, 0), TopicPartition(topic, 1)
    values, others = write(broker, kept, BATCHES), write(broker, cut, BATCHES)
    first = rng.randint(1, BATCHES - 1)
    delete_before(broker, cut, first)
    stop(broker, clean=clean)
    folder = broker.brokers[0].log_dir
    victims = {
        folder / str(kept) / LEADER_EPOCH_CHECKPOINT: b"?",
        folder / str(kept) / "partition.metadata": b"",
        max((folder / str(kept)).glob("*.snapshot")): b"noise",
        min((folder / str(kept)).glob("*.index")): rng.randbytes(40),
        min((folder / str(cut)).glob("*.timeindex")): rng.randbytes(24),
        folder / RECOVERY_POINT_CHECKPOINT: rng.randbytes(30),
    }
    for path in (chosen := rng.sample(sorted(victims), 4)):
        path.write_bytes(victims[path])
    broker.restart_broker(0)
    told = warnings(broker)
    for path in chosen:
        assert sum(str(path) + " " in line for line in told) == 1, f"{path} in {told}"
    assert (read(broker, kept), read(broker, cut, first)) == (values, others[first:])
    assert start_of(broker, cut) == first
    more = write(broker, kept, 3)
    assert read(broker, kept) == values + more
    stop(broker, clean=True)
    broker.restart_broker(0)
    assert not [line for line in warnings(broker) if str(folder) in line]
    assert (read(broker, kept), read(broker, cut)) == (values + more, others[first:])


def test_a_log_start_beyond_the_end_costs_no_bytes_and_gives_no_offset_twice(
    broker: EmbeddedCluster, process_campaign_seed: int
) -> None:
    """One WARN says where the segments are, and the topic continues."""
    rng = random.Random(process_campaign_seed)
    topic = f"beyond-{process_campaign_seed}"
    create_topic(broker.bootstrap, topic, 2, {"segment.bytes": "1000"})
    damaged, whole = TopicPartition(topic, 0), TopicPartition(topic, 1)
    write(broker, damaged, BATCHES)
    others = write(broker, whole, BATCHES)
    stop(broker, clean=rng.random() < 0.5)
    folder = broker.brokers[0].log_dir
    sizes = {path.name: path.stat().st_size for path in (folder / str(damaged)).glob("*.log")}
    start = BATCHES + rng.randint(1, 1000)
    write_offsets(str(folder / LOG_START_OFFSET_CHECKPOINT), {damaged: start})
    broker.restart_broker(0)
    (told,) = [line for line in warnings(broker) if str(folder) in line]
    moved = folder / str(damaged) / f"{start:020d}.moved-aside"
    assert f"its log start offset is {start}" in told and f"kept_as={moved}" in told
    assert {path.name: path.stat().st_size for path in moved.glob("*.log")} == sizes
    assert (start_of(broker, damaged), read(broker, damaged), read(broker, whole)) == (start, [], others)
    more = write(broker, damaged, 3)
    assert read(broker, damaged, start) == more


def test_a_lost_log_start_is_told(broker: EmbeddedCluster, process_campaign_seed: int) -> None:
    """Deleted records are back if their segment still exists, and the log says that they may be."""
    topic = f"lost-{process_campaign_seed}"
    create_topic(broker.bootstrap, topic, 1, {})
    tp = TopicPartition(topic, 0)
    values = write(broker, tp, BATCHES)
    delete_before(broker, tp, 7)
    stop(broker, clean=True)
    path = broker.brokers[0].log_dir / LOG_START_OFFSET_CHECKPOINT
    path.unlink()
    broker.restart_broker(0)
    (told,) = [line for line in warnings(broker) if str(path) in line]
    assert "records that DeleteRecords deleted may be back" in told
    assert read(broker, tp) == values
