"""Kafka's tools of 0.8.2.2 and 0.10.2.2 that write to ZooKeeper: the running cluster applies their changes.

They do not know topic ids, and rewrite the topic's znode without one when they add partitions; our broker restores it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest
from confluent_kafka.admin import ConfigResource, ResourceType
from kazoo.client import KazooClient

from tests.peers import jars, java
from tests.peers.clients.base import ClientFailed, Read, Write
from tests.peers.clients.librdkafka import ConfluentConsumer, ConfluentProducer
from tests.peers.processes import wait_until
from tests.peers.records import Record
from tests.peers.targets import KAFKA_ZK, Target

pytestmark = pytest.mark.peers

_TOPICS = "kafka.admin.TopicCommand"
_CONFIGS = "kafka.admin.ConfigCommand"
_PICKED_UP_S = 20
_RECORDS = [Record(b"key", b"value", timestamp_ms=1_700_000_000_000)]


@pytest.fixture(params=jars.LEGACY_VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """Each old version in turn."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def znodes(target: Target) -> Iterator[KazooClient]:
    """The cluster's ZooKeeper."""
    client = KazooClient(target.zookeeper)
    client.start()
    yield client
    client.stop()
    client.close()


def _tool(version: str, target: Target, main_class: str, *arguments: str) -> str:
    return java.run_tool(version, main_class, ["--zookeeper", target.zookeeper, *arguments]).text


def _create(version: str, target: Target, *, partitions: int = 2) -> str:
    topic = f"old-tool-{uuid.uuid4().hex[:8]}"
    shape = ["--partitions", str(partitions), "--replication-factor", "1"]
    said = _tool(version, target, _TOPICS, "--create", "--topic", topic, *shape, "--config", "segment.bytes=2000000")
    assert f'Created topic "{topic}".' in said
    wait_until(lambda: _leaders(target, topic) == partitions, _PICKED_UP_S, f"leaders of {partitions} partitions")
    return topic


def _admin(target: Target) -> confluent_kafka.admin.AdminClient:
    return confluent_kafka.admin.AdminClient({"bootstrap.servers": target.bootstrap, "log_level": 3})


def _known(target: Target) -> dict[str, Any]:
    admin = _admin(target)
    topics: dict[str, Any] = admin.list_topics(timeout=10).topics
    return topics


def _leaders(target: Target, topic: str) -> int:
    """How many partitions have a leader; 0 if the cluster does not know the topic."""
    found = _known(target).get(topic)
    return 0 if found is None else sum(partition.leader >= 0 for partition in found.partitions.values())


def _topic_znode(znodes: KazooClient, topic: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(znodes.get(f"/brokers/topics/{topic}")[0])
    return found


def _config(target: Target, topic: str, key: str) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = _admin(target)
    value: str = admin.describe_configs([resource])[resource].result(20)[key].value
    return value


def _write(target: Target, topic: str, partition: int, records: list[Record]) -> None:
    ConfluentProducer().write(Write(target.bootstrap, topic, partition, "none", records))


def test_topic_is_created_listed_described_enlarged_and_deleted(
    target: Target, znodes: KazooClient, version: str
) -> None:
    """kafka-topics from --create to --delete, with records in old and new partitions."""
    topic = _create(version, target)
    topic_id = _topic_znode(znodes, topic)["topic_id"]
    assert topic in _tool(version, target, _TOPICS, "--list").split()
    described = _tool(version, target, _TOPICS, "--describe", "--topic", topic)
    assert f"Topic:{topic}\tPartitionCount:2\tReplicationFactor:1\tConfigs:segment.bytes=2000000" in described
    assert described.count("Leader: ") == 2
    assert "Leader: none" not in described
    _write(target, topic, 1, _RECORDS)

    _tool(version, target, _TOPICS, "--alter", "--topic", topic, "--partitions", "4")
    wait_until(lambda: _leaders(target, topic) == 4, _PICKED_UP_S, "leaders of four partitions")
    if target.name == KAFKA_ZK:  # Apache Kafka's controller assigns no new id before it restarts
        assert _topic_znode(znodes, topic)["topic_id"] == topic_id
    assert _config(target, topic, "segment.bytes") == "2000000"
    _write(target, topic, 3, _RECORDS)
    for partition in (1, 3):
        found = ConfluentConsumer().read(Read(target.bootstrap, topic, partition, 0, 1))
        assert [(record.key, record.value) for record in found] == [(b"key", b"value")]

    _tool(version, target, _TOPICS, "--delete", "--topic", topic)
    wait_until(lambda: znodes.exists(f"/brokers/topics/{topic}") is None, _PICKED_UP_S, "the topic's znode is gone")
    wait_until(lambda: topic not in _known(target), _PICKED_UP_S, "the topic is gone")
    assert topic not in _tool(version, target, _TOPICS, "--list").split()
    assert znodes.exists(f"/config/topics/{topic}") is None
    assert znodes.exists(f"/admin/delete_topics/{topic}") is None


def test_configuration_change_counts_at_once(target: Target) -> None:
    """kafka-configs of 0.10.2.2 on a topic: the next producer meets the new limit, and its removal."""
    version = jars.MAGIC_1_VERSION
    topic = _create(version, target)
    entity = ["--entity-type", "topics", "--entity-name", topic]
    big = [Record(b"key", b"x" * 5000)]
    _write(target, topic, 0, big)

    said = _tool(version, target, _CONFIGS, "--alter", *entity, "--add-config", "max.message.bytes=1000")
    assert "Completed Updating config for entity" in said
    wait_until(lambda: _config(target, topic, "max.message.bytes") == "1000", _PICKED_UP_S, "the new limit")
    wait_until(lambda: not _accepts(target, topic, big), _PICKED_UP_S, "a refusal")
    described = _tool(version, target, _CONFIGS, "--describe", *entity)
    assert "max.message.bytes=1000" in described
    assert "segment.bytes=2000000" in described

    _tool(version, target, _CONFIGS, "--alter", *entity, "--delete-config", "max.message.bytes")
    wait_until(lambda: _accepts(target, topic, big), _PICKED_UP_S, "the limit is gone")
    assert _config(target, topic, "segment.bytes") == "2000000"


def _accepts(target: Target, topic: str, records: list[Record]) -> bool:
    try:
        _write(target, topic, 0, records)
    except ClientFailed as failure:
        assert "MSG_SIZE_TOO_LARGE" in str(failure)
        return False
    return True


def test_configuration_from_the_topics_tool_is_stored_for_restart(target: Target, znodes: KazooClient) -> None:
    """kafka-topics --alter --config of 0.8.2.2 sends a notification that brokers since 0.10 do not read.

    The value is in the topic's config znode, and the topic's other settings stay.
    """
    topic = _create(jars.MAGIC_0_VERSION, target)
    _tool(jars.MAGIC_0_VERSION, target, _TOPICS, "--alter", "--topic", topic, "--config", "retention.ms=7000000")
    stored = json.loads(znodes.get(f"/config/topics/{topic}")[0])
    assert stored["config"] == {"segment.bytes": "2000000", "retention.ms": "7000000"}
    wait_until(lambda: _config(target, topic, "retention.ms") == "7000000", _PICKED_UP_S, "what DescribeConfigs shows")
