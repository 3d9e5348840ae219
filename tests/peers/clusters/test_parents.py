"""Apache Kafka takes over a ZooKeeper whose parents we made: it parses all data as JSON unless they are null."""

from pathlib import Path

import confluent_kafka
import pytest

from kafka_zk.testing.zookeeper import Chroot
from tests.peers import targets

pytestmark = pytest.mark.peers

TOPIC = "written-by-kafka"
FLUSH_TIMEOUT_S = 30


def test_a_kafka_controller_gives_out_producer_ids_after_us(zookeeper: Chroot, tmp_path: Path) -> None:
    """Zero-length data in /latest_producer_id_block made it respond to every AllocateProducerIds with an error."""
    ours = targets.start(targets.KAFKA_ZK, zookeeper.connect_string, tmp_path / "ours", chroot="shared")
    assert ours.stop() == []
    kafka = targets.start(targets.APACHE_KAFKA, zookeeper.connect_string, tmp_path / "kafka", chroot="shared")
    try:
        kafka.create_topic(TOPIC)
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True, "log_level": 3}
        )
        producer.produce(TOPIC, b"x")
        assert producer.flush(FLUSH_TIMEOUT_S) == 0
    finally:
        complaints = kafka.stop()
    assert complaints == []
