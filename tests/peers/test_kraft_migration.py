"""The way on from ours to KRaft: our replicas move to Apache Kafka 3.9.1, whose own migration reads what ours wrote.

docs/migrate.md has the steps. Records, offsets of a group and configurations are counted after each.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient

from tests.peers import apache_kafka, targets, wire_probe
from tests.peers.kraft_migration import (
    MIGRATED,
    NODE_ID,
    WAITS_FOR,
    Counted,
    KRaftController,
    MigratingBroker,
    Node,
    configs,
)
from tests.peers.mixed_cluster import described_by_us, reassign
from tests.peers.processes import wait_until

pytestmark = pytest.mark.peers

TOPIC, PARTITIONS = "on-the-way", 2
_COUNT = 50
_OVERRIDES = {
    "inter.broker.protocol.version": "3.9",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "zookeeper.session.timeout.ms": "6000",
}
_TOPIC_CONFIGS = {"retention.ms": "-1", "cleanup.policy": "delete", "max.message.bytes": "2000000"}
_BROKER_CONFIGS = {"message.max.bytes": "1500000"}
_TIMEOUT_S = 60


class _OurBroker(Node):
    """Broker 0, with the same properties as a broker of Kafka's."""

    def start(self, zookeeper: str) -> None:
        properties = apache_kafka.server_properties(0, self.port, self.log_dir, zookeeper, _OVERRIDES)
        self.run(targets.kafka_zk_command(self.write(properties)))


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    started: list[Node] = []
    yield started
    for node in started:
        node.kill()


def _where(node: Node) -> str:
    return f"127.0.0.1:{node.port}"


def _set_configs(bootstrap: str) -> None:
    """Of a topic, and the default of all brokers."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=_TOPIC_CONFIGS)])[TOPIC].result(_TIMEOUT_S)
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in _BROKER_CONFIGS.items()
    ]
    resource = ConfigResource(ConfigResource.Type.BROKER, "", incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(_TIMEOUT_S)


def _check_configs(bootstrap: str, broker_id: int) -> None:
    assert configs(bootstrap, ConfigResource.Type.TOPIC, TOPIC) == _TOPIC_CONFIGS
    assert configs(bootstrap, ConfigResource.Type.BROKER, str(broker_id)) == _BROKER_CONFIGS


def _move_all(bootstrap: str, file: Path, to: int) -> None:
    """All partitions, those of the internal topics too."""
    topics = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2}).list_topics(timeout=_TIMEOUT_S).topics
    tps = [(name, number) for name, topic in topics.items() for number in topic.partitions]
    moves = [{"topic": name, "partition": number, "replicas": [to]} for name, number in tps]
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    assert reassign(bootstrap, "--execute", file)
    wait_until(lambda: reassign(bootstrap, "--verify", file), _TIMEOUT_S, "the moves", interval_s=0.5)


def test_what_ours_wrote_goes_on_to_kraft(peer_zookeeper: str, tmp_path: Path, nodes: list[Node]) -> None:
    zookeeper = f"{peer_zookeeper}/to-kraft"
    ours = _OurBroker(tmp_path, "ours")
    nodes.append(ours)
    ours.start(zookeeper)
    ours.process.wait_ready(lambda: wire_probe.is_ready(ours.port), _TIMEOUT_S)
    _set_configs(_where(ours))
    counted = Counted(TOPIC, PARTITIONS)
    counted.step(_where(ours), _COUNT)

    client = KazooClient(zookeeper)
    client.start()
    cluster_id = json.loads(client.get("/cluster/id")[0])["id"]
    controller = KRaftController(tmp_path, cluster_id)
    nodes.append(controller)
    controller.start(zookeeper)
    kafkas = MigratingBroker(tmp_path, 1, controller.quorum)
    nodes.append(kafkas)
    kafkas.start_with_zookeeper(zookeeper, _OVERRIDES)
    wait_until(lambda: wire_probe.is_ready(kafkas.port, 2), _TIMEOUT_S, "a mixed cluster")
    wait_until(lambda: controller.says(WAITS_FOR.format(0)), _TIMEOUT_S, "the migration to wait for ours to leave")
    counted.step(_where(kafkas), _COUNT)

    _move_all(_where(ours), tmp_path / "moves.json", to=1)
    counted.step(_where(ours), _COUNT)
    assert ours.stop() == 0
    wait_until(lambda: controller.says(MIGRATED), _TIMEOUT_S, "the migration")
    assert json.loads(client.get("/controller")[0])["brokerid"] == NODE_ID
    counted.step(_where(kafkas), _COUNT)
    _check_configs(_where(kafkas), 1)

    ours.start(zookeeper)
    wait_until(lambda: not ours.process.running, _TIMEOUT_S, "ours to keep out")
    assert ours.stop() == 1
    assert ours.says(f"the KRaft controller {NODE_ID} has taken /controller") and not ours.says("Traceback")

    kafkas.stop()
    kafkas.start_with_kraft(_OVERRIDES)
    counted.step(_where(kafkas), _COUNT)
    controller.stop()
    controller.start()
    counted.step(_where(kafkas), _COUNT)
    _check_configs(_where(kafkas), 1)
    assert described_by_us(_where(kafkas), TOPIC).keys() == set(range(PARTITIONS))
    client.stop()
