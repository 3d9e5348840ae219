"""Kafka's command-line tools of 3.9.1 and 4.3.0 over the wire: perf producer, get-offsets, topics."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from tests.peers import java, perf
from tests.peers.clients.base import Read
from tests.peers.clients.java_clients import JavaDriver
from tests.peers.clients.kcat import listing
from tests.peers.clients.librdkafka import ConfluentConsumer
from tests.peers.jars import NEWEST_VERSION, ORACLE_VERSION
from tests.peers.targets import Target

pytestmark = pytest.mark.peers

_RECORDS = 2000
_TOPICS = "org.apache.kafka.tools.TopicCommand"
_GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"


def _name(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("compression", ["none", "lz4"])
@pytest.mark.parametrize("version", [ORACLE_VERSION, NEWEST_VERSION])
def test_perf_producer_writes_every_record_in_order(target: Target, version: str, compression: str) -> None:
    """The values 0, 1, 2 ... of kafka-producer-perf-test --payload-monotonic come back in order and once."""
    topic = _name("perf")
    target.create_topic(topic)
    config = {"compression.type": compression, "acks": "all"}
    run = java.run_tool(
        version,
        perf.MAIN_CLASS,
        perf.arguments(target.bootstrap, topic, _RECORDS, ["--payload-monotonic"], config),
    )
    assert perf.summary(run.text).records == _RECORDS
    found = ConfluentConsumer().read(Read(target.bootstrap, topic, 0, 0, _RECORDS))
    assert [record.value for record in found] == [b"%d" % number for number in range(_RECORDS)]
    assert target.end_offset(topic, 0) == _RECORDS


@pytest.mark.parametrize("version", [ORACLE_VERSION, NEWEST_VERSION])
def test_topics_tool_creates_lists_and_deletes(target: Target, version: str) -> None:
    """The test runs kafka-topics --create with partitions and a config, --list and --delete."""
    topic = _name("tool")
    server = ["--bootstrap-server", target.bootstrap]
    shape = ["--partitions", "3", "--replication-factor", "1", "--config", "segment.bytes=2000000"]
    created = java.run_tool(version, _TOPICS, [*server, "--create", "--topic", topic, *shape])
    assert f"Created topic {topic}." in created.text
    assert topic in java.run_tool(version, _TOPICS, [*server, "--list"]).text.split()
    java.run_tool(version, _TOPICS, [*server, "--delete", "--topic", topic])
    assert topic not in java.run_tool(version, _TOPICS, [*server, "--list"]).text.split()


@pytest.mark.parametrize("version", [ORACLE_VERSION, NEWEST_VERSION])
def test_get_offsets_shows_earliest_latest_and_maximum_timestamp(
    target: Target, version: str, java_drivers: dict[str, JavaDriver]
) -> None:
    """The test runs GetOffsetShell --time -2, -1 and -3 over all partitions of a topic."""
    topic = _name("offsets")
    target.create_topic(topic, partitions=2)
    records: list[dict[str, Any]] = [
        {"partition": 1, "timestamp_ms": timestamp_ms, "key": None, "value": "", "headers": []}
        for timestamp_ms in (1000, 5000, 3000)
    ]
    java_drivers[version].result("produce", target.bootstrap, topic=topic, records=records)

    def answer(time: str) -> list[str]:
        options = ["--bootstrap-server", target.bootstrap, "--topic-partitions", topic, "--time", time]
        return java.run_tool(version, _GET_OFFSETS, options).text.split()

    assert answer("-2") == [f"{topic}:0:0", f"{topic}:1:0"]
    assert answer("-1") == [f"{topic}:0:0", f"{topic}:1:3"]
    assert answer("-3")[-1] == f"{topic}:1:1"


def test_admin_client_sees_brokers_controller_leaders_and_topic_id(target: Target, java_driver: JavaDriver) -> None:
    """The test calls Java's Admin.describeCluster and describeTopics."""
    topic = _name("described")
    target.create_topic(topic, partitions=4)
    answer = java_driver.result("describe", target.bootstrap, topic=topic)
    broker_ids = range(len(target.brokers))
    assert answer["brokers"] == len(target.brokers)
    assert answer["controller"] in broker_ids
    assert len(answer["leaders"]) == 4
    assert set(answer["leaders"]) == set(broker_ids)
    assert len(answer["topic_id"]) == 22
    assert len(answer["cluster_id"]) == 22


def test_kcat_lists_the_same_leaders_as_java(target: Target, java_driver: JavaDriver) -> None:
    """`kcat -L` (Metadata v4) and Java's Admin show the same leaders."""
    topic = _name("listed")
    target.create_topic(topic, partitions=4)
    shown = json.loads(listing(target.bootstrap, topic))
    leaders = {partition["partition"]: partition["leader"] for partition in shown["topics"][0]["partitions"]}
    answer = java_driver.result("describe", target.bootstrap, topic=topic)
    assert [leaders[number] for number in range(4)] == answer["leaders"]
    assert len(shown["brokers"]) == len(target.brokers)
