"""Kafka 3.9.1's tools over the wire: the same commands against kafka-zk and Apache Kafka print the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from tests.peers import jars, targets, wire_probe
from tests.peers.tool_script import (
    CONFIGS,
    DELETE_RECORDS,
    GET_OFFSETS,
    LOG_DIRS,
    TOPICS,
    Said,
    Step,
    ToolRunner,
    said_to_each,
)

pytestmark = pytest.mark.peers

_TOPIC = "tools"
_FIRST_TIMESTAMP_MS = 1_700_000_000_000
_ENTITY_TOPIC = ("--entity-type", "topics", "--entity-name", _TOPIC)
_ENTITY_NOBODY = ("--entity-type", "topics", "--entity-name", "nobody")
_ENTITY_BROKER = ("--entity-type", "brokers", "--entity-name", "0")
_ALL_BROKERS = ("--entity-type", "brokers", "--entity-default")

_THROTTLED = "follower.replication.throttled.replicas"
_SIZE, _SEGMENT = "message.max.bytes", "log.segment.bytes"


def _topics(name: str, *arguments: str) -> Step:
    return Step(f"topics-{name}", TOPICS, arguments)


def _configs(name: str, *arguments: str) -> Step:
    return Step(f"configs-{name}", CONFIGS, arguments)


def _get_offsets(name: str, *arguments: str) -> Step:
    return Step(f"get-offsets-{name}", GET_OFFSETS, arguments)


def _log_dirs(name: str, *arguments: str) -> Step:
    return Step(f"log-dirs-{name}", LOG_DIRS, ("--describe", *arguments))


def _delete_records(name: str, offsets: str) -> Step:
    return Step(f"delete-records-{name}", DELETE_RECORDS, ("--offset-json-file", f"{{folder}}/{offsets}.json"))


_CREATE = ("--create", "--topic")
_BEFORE_RECORDS = [
    _topics("list-empty", "--list"),
    _topics("create", *_CREATE, _TOPIC, "--partitions", "3", "--replication-factor", "1"),
    _topics("create-existing", *_CREATE, _TOPIC),
    _topics("create-if-not-exists", *_CREATE, _TOPIC, "--if-not-exists"),
    _topics("create-defaults", *_CREATE, "defaults"),
    _topics("create-collision", *_CREATE, "a.b", "--config", "retention.ms=60000", "--config", "segment.ms=30000"),
    _topics("create-colliding", *_CREATE, "a_b"),
    _topics("create-assigned", *_CREATE, "assigned", "--replica-assignment", "0,0"),
    _topics("create-unknown-config", *_CREATE, "refused", "--config", "no.such.key=1"),
    _topics("create-bad-value", *_CREATE, "refused", "--config", "retention.ms=soon"),
    _topics("create-bad-range", *_CREATE, "refused", "--config", "segment.bytes=1"),
    _topics("create-too-many-replicas", *_CREATE, "refused", "--replication-factor", "2"),
    _topics("create-no-partitions", *_CREATE, "refused", "--partitions", "0"),
    _topics("create-bad-name", *_CREATE, "re/fused"),
    _topics("create-long-name", *_CREATE, "x" * 250),
    _topics("create-dot", *_CREATE, "."),
    _topics("list", "--list"),
    _topics("describe", "--describe", "--topic", _TOPIC),
    _topics("describe-all", "--describe"),
    _topics("describe-unknown", "--describe", "--topic", "nobody"),
    _topics("describe-overrides", "--describe", "--topics-with-overrides"),
    _topics("describe-under-replicated", "--describe", "--under-replicated-partitions"),
    _topics("describe-unavailable", "--describe", "--unavailable-partitions"),
    _topics("describe-under-min-isr", "--describe", "--under-min-isr-partitions"),
    _topics("alter-more-partitions", "--alter", "--topic", _TOPIC, "--partitions", "5"),
    _topics("alter-same-partitions", "--alter", "--topic", _TOPIC, "--partitions", "5"),
    _topics("alter-fewer-partitions", "--alter", "--topic", _TOPIC, "--partitions", "2"),
    _topics("alter-unknown", "--alter", "--topic", "nobody", "--partitions", "2"),
    _topics("alter-assigned", "--alter", "--topic", "assigned", "--partitions", "3", "--replica-assignment", "0,0,0"),
    _topics("describe-altered", "--describe", "--topic", _TOPIC),
    _configs("describe-topic", "--describe", *_ENTITY_TOPIC),
    _configs("alter-topic", "--alter", *_ENTITY_TOPIC, "--add-config", "retention.ms=86400000,segment.bytes=1048576"),
    _configs("alter-topic-list", "--alter", *_ENTITY_TOPIC, "--add-config", f"{_THROTTLED}=[0:0,1:0]"),
    _configs("describe-topic-altered", "--describe", *_ENTITY_TOPIC),
    _configs("describe-topic-all", "--describe", "--all", *_ENTITY_TOPIC),
    _configs("describe-every-topic", "--describe", "--entity-type", "topics"),
    _configs("alter-topic-bad-value", "--alter", *_ENTITY_TOPIC, "--add-config", "retention.ms=soon"),
    _configs("alter-topic-bad-range", "--alter", *_ENTITY_TOPIC, "--add-config", "segment.bytes=1"),
    _configs("alter-topic-unknown-key", "--alter", *_ENTITY_TOPIC, "--add-config", "no.such.key=1"),
    _configs("alter-topic-delete", "--alter", *_ENTITY_TOPIC, "--delete-config", "segment.bytes"),
    _configs("alter-topic-delete-unset", "--alter", *_ENTITY_TOPIC, "--delete-config", "segment.ms"),
    _configs("alter-topic-add-and-delete", "--alter", *_ENTITY_TOPIC, "--add-config", "segment.ms=60000",
             "--delete-config", "retention.ms"),
    _configs("describe-topic-again", "--describe", *_ENTITY_TOPIC),
    _configs("describe-topic-unknown", "--describe", *_ENTITY_NOBODY),
    _configs("alter-topic-unknown", "--alter", *_ENTITY_NOBODY, "--add-config", "segment.ms=1000"),
    _topics("describe-configured", "--describe", "--topic", _TOPIC),
    _configs("describe-broker", "--describe", *_ENTITY_BROKER),
    _configs("alter-broker", "--alter", *_ENTITY_BROKER, "--add-config", "log.retention.ms=90000000"),
    _configs("alter-all-brokers", "--alter", *_ALL_BROKERS, "--add-config", f"{_SIZE}=2000000,{_SEGMENT}=3000000"),
    _configs("describe-all-brokers", "--describe", *_ALL_BROKERS)._replace(until=f"{_SIZE}=2000000"),
    _configs("describe-broker-altered", "--describe", *_ENTITY_BROKER)._replace(until="log.retention.ms=90000000"),
    _configs("describe-broker-all", "--describe", "--all", *_ENTITY_BROKER),
    _configs("alter-broker-read-only", "--alter", *_ENTITY_BROKER, "--add-config", "log.dirs=/tmp"),
    _configs("alter-broker-bad-value", "--alter", *_ENTITY_BROKER, "--add-config", "log.retention.ms=soon"),
    _configs("alter-broker-bad-range", "--alter", *_ENTITY_BROKER, "--add-config", "num.io.threads=0"),
    _configs("alter-broker-cluster-wide", "--alter", *_ALL_BROKERS, "--add-config", "ssl.keystore.location=/tmp/x"),
    _configs("describe-topic-with-broker-defaults", "--describe", "--all", *_ENTITY_TOPIC),
    _configs("alter-broker-delete", "--alter", *_ENTITY_BROKER, "--delete-config", "log.retention.ms"),
    _configs("alter-broker-delete-unset", "--alter", *_ENTITY_BROKER, "--delete-config", "log.retention.bytes"),
    _configs("alter-all-brokers-delete", "--alter", *_ALL_BROKERS, "--delete-config", f"{_SIZE},{_SEGMENT}"),
    _configs("describe-broker-again", "--describe", *_ENTITY_BROKER)._replace(gone="DYNAMIC_DEFAULT"),
    _get_offsets("empty", "--topic", _TOPIC),
]  # fmt: skip
_WITH_RECORDS = [
    _get_offsets("latest", "--topic", _TOPIC),
    _get_offsets("all"),
    _get_offsets("earliest", "--topic", _TOPIC, "--time", "earliest"),
    _get_offsets("max-timestamp", "--topic", _TOPIC, "--time", "max-timestamp"),
    _get_offsets("earliest-local", "--topic", _TOPIC, "--time", "earliest-local"),
    _get_offsets("latest-tiered", "--topic", _TOPIC, "--time", "latest-tiered"),
    _get_offsets("by-time", "--topic", _TOPIC, "--time", str(_FIRST_TIMESTAMP_MS + 5)),
    _get_offsets("by-late-time", "--topic", _TOPIC, "--time", str(_FIRST_TIMESTAMP_MS + 10**9)),
    _get_offsets("partitions", "--topic", _TOPIC, "--partitions", "1,2"),
    _get_offsets("topic-partitions", "--topic-partitions", f"{_TOPIC}:0-2,a.b"),
    _get_offsets("unknown-topic", "--topic", "nobody"),
    _get_offsets("unknown-partition", "--topic", _TOPIC, "--partitions", "77"),
    _log_dirs("all"),
    _log_dirs("topic", "--topic-list", _TOPIC),
    _log_dirs("broker", "--broker-list", "0", "--topic-list", f"{_TOPIC},a.b"),
    _log_dirs("unknown-topic", "--topic-list", "nobody"),
    _log_dirs("unknown-broker", "--broker-list", "7"),
    _delete_records("some", "some"),
    _delete_records("beyond-the-end", "beyond"),
    _delete_records("before-the-start", "before"),
    _delete_records("all-of-a-partition", "end"),
    _delete_records("negative", "negative"),
    _get_offsets("earliest-after-delete", "--topic", _TOPIC, "--time", "earliest"),
    _get_offsets("latest-after-delete", "--topic", _TOPIC),
    _topics("delete", "--delete", "--topic", _TOPIC),
    _topics("delete-unknown", "--delete", "--topic", "nobody"),
    _topics("delete-if-exists", "--delete", "--topic", "nobody", "--if-exists"),
    _topics("delete-several", "--delete", "--topic", "a.*"),
    _topics("list-at-last", "--list"),
]
STEPS = (*_BEFORE_RECORDS, *_WITH_RECORDS)
_OFFSETS = {
    "some": [(_TOPIC, 0, 4), (_TOPIC, 1, 2)],
    "beyond": [(_TOPIC, 0, 1000), (_TOPIC, 2, 1)],
    "before": [(_TOPIC, 0, 1)],
    "end": [(_TOPIC, 1, -1)],
    "negative": [(_TOPIC, 0, -2)],
}


def _write_records(target: targets.Target) -> None:
    """Write ten records into each of three partitions, with the newest timestamp in the middle."""
    for partition in range(3):
        builder = RecordBatchBuilder()
        for number in (*range(5), 9, *range(5, 9)):
            builder.append(_FIRST_TIMESTAMP_MS + number, b"key", b"value %d" % number)
        assert wire_probe.produce(target.ports[0], _TOPIC, partition, bytes(builder.build())) == (0, 0)


def _perform(runner: ToolRunner, target: targets.Target, folder: Path) -> dict[str, Said]:
    said = {}

    def run(steps: list[Step]) -> None:
        for step in steps:
            arguments = [argument.replace("{folder}", str(folder)) for argument in step.arguments]
            said[step.name] = runner.run(target, step._replace(arguments=arguments))

    run(_BEFORE_RECORDS)
    _write_records(target)
    run(_WITH_RECORDS)
    return said


@pytest.fixture(scope="module")
def said(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Said]]:
    """The tools' output, by target and step."""
    folder = tmp_path_factory.mktemp("tools")
    for name, offsets in _OFFSETS.items():
        partitions = [{"topic": topic, "partition": number, "offset": offset} for topic, number, offset in offsets]
        (folder / f"{name}.json").write_text(json.dumps({"partitions": partitions, "version": 1}))
    return said_to_each(jars.ORACLE_VERSION, peer_zookeeper, folder, "tools", _perform)


@pytest.mark.parametrize("step", [step.name for step in STEPS])
def test_tool_says_the_same_as_to_apache_kafka(said: dict[str, dict[str, Said]], step: str) -> None:
    """The exit code and every line are equal."""
    assert said[targets.KAFKA_ZK][step] == said[targets.APACHE_KAFKA][step]
