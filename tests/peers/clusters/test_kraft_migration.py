"""The way from our cluster to KRaft: replicas move to Apache Kafka 3.9.1, whose own migration reads our znodes.

docs/how-to/migrate.md has the steps. Records, offsets of a group and configurations are counted after each.
"""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient

from tests.peers import apache_kafka, targets, wire_probe
from tests.peers.clusters.kraft_migration import (
    ENDED,
    MIGRATED,
    NODE_ID,
    NOTHING_DIFFERS,
    WAITS_FOR,
    Counted,
    KRaftController,
    MigratingBroker,
    Node,
    configs,
)
from tests.peers.clusters.mixed_cluster import reassign
from tests.peers.processes import wait_until

pytestmark = pytest.mark.peers

TOPIC, PARTITIONS = "on-the-way", 2
_COUNT = 50
_OVERRIDES = {
    "inter.broker.protocol.version": "3.9",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
_TOPIC_CONFIGS = {"retention.ms": "-1", "cleanup.policy": "delete", "max.message.bytes": "2000000"}
_BROKER_CONFIGS = {"message.max.bytes": "1500000"}
_TIMEOUT_S = 120


class _OurBroker(Node):
    """Broker 0, with the same properties as a Kafka broker."""

    def start(self, zookeeper: str) -> None:
        properties = apache_kafka.server_properties(0, self.port, self.log_dir, zookeeper, _OVERRIDES)
        self.run(targets.kafka_zk_command(self.write(properties)))


def _where(node: Node) -> str:
    return f"127.0.0.1:{node.port}"


def _set_configs(node: Node) -> None:
    """Set configurations of a topic, and of the default of all brokers."""
    admin = AdminClient({"bootstrap.servers": _where(node), "log_level": 2})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=_TOPIC_CONFIGS)])[TOPIC].result(_TIMEOUT_S)
    assert [wire_probe.set_default_broker_config(node.port, *entry) for entry in _BROKER_CONFIGS.items()] == [0]


def _check_configs(bootstrap: str, broker_id: int) -> None:
    assert configs(bootstrap, ConfigResource.Type.TOPIC, TOPIC) == _TOPIC_CONFIGS
    assert configs(bootstrap, ConfigResource.Type.BROKER, str(broker_id)) == _BROKER_CONFIGS


def _move_all(bootstrap: str, file: Path, to: int) -> None:
    """Move all partitions, including those of the internal topics."""
    topics = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2}).list_topics(timeout=_TIMEOUT_S).topics
    tps = [(name, number) for name, topic in topics.items() for number in topic.partitions]
    moves = [{"topic": name, "partition": number, "replicas": [to]} for name, number in tps]
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    assert reassign(bootstrap, "--execute", file)
    wait_until(lambda: reassign(bootstrap, "--verify", file), _TIMEOUT_S, "the moves", interval_s=0.5)


def _znode(zookeeper: str, path: str) -> dict[str, Any]:
    client = KazooClient(zookeeper)
    client.start()
    try:
        document: dict[str, Any] = json.loads(client.get(path)[0])
        return document
    finally:
        client.stop()
        client.close()


def test_what_ours_wrote_goes_on_to_kraft(peer_zookeeper: str, tmp_path: Path) -> None:
    zookeeper = f"{peer_zookeeper}/to-kraft"
    counted = Counted(TOPIC, PARTITIONS)
    with contextlib.ExitStack() as cleanup:
        ours, controller = _OurBroker(tmp_path, "ours"), KRaftController(tmp_path)
        kafkas = MigratingBroker(tmp_path, 1, controller.quorum)
        for node in (ours, kafkas, controller):
            cleanup.callback(node.kill)
        ours.start(zookeeper)
        wait_until(lambda: wire_probe.is_ready(ours.port), _TIMEOUT_S, "our broker")
        kafkas.start_with_zookeeper(zookeeper, _OVERRIDES)
        _set_configs(ours)
        counted.step(_where(ours), _COUNT)

        wait_until(lambda: wire_probe.is_ready(kafkas.port, 2), _TIMEOUT_S, "a mixed cluster")
        controller.start(_znode(zookeeper, "/cluster/id")["id"], zookeeper)
        _move_all(_where(ours), tmp_path / "moves.json", to=1)
        counted.step(_where(ours), _COUNT)
        wait_until(lambda: controller.says(WAITS_FOR.format(0)), _TIMEOUT_S, "the migration to wait for ours to leave")
        assert _znode(zookeeper, "/controller")["brokerid"] == 0
        assert ours.stop() == 0

        wait_until(lambda: controller.says(NOTHING_DIFFERS), _TIMEOUT_S, "the migration")
        assert controller.says(MIGRATED) and _znode(zookeeper, "/controller")["brokerid"] == NODE_ID
        counted.step(_where(kafkas), _COUNT)
        _check_configs(_where(kafkas), 1)

        ours.start(zookeeper)
        kafkas.stop()
        kafkas.start_with_kraft(_OVERRIDES)
        wait_until(lambda: not ours.is_running, _TIMEOUT_S, "our broker to keep out")
        assert ours.stop() == 1 and not ours.says("Traceback")
        assert ours.says(f"the KRaft controller {NODE_ID} has taken /controller")
        counted.step(_where(kafkas), _COUNT)

        controller.stop()
        controller.start()
        wait_until(lambda: controller.says(ENDED), _TIMEOUT_S, "the end of the migration")
        counted.step(_where(kafkas), _COUNT)
        _check_configs(_where(kafkas), 1)
