"""Kafka 3.9.1's tool moves partitions between three brokers under a throttle, with the same results for kafka-zk and
Apache Kafka.

The throttle is so low that the move stops after the first response, until the tool raises it. The throttle exists
before the tool sets it, because brokers apply a change of their configuration shortly after the response.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import confluent_kafka
import pytest

from tests.peers import jars, targets
from tests.peers.tool_script import CONFIGS, TOPICS, Said, Step, ToolRunner, said_to_each

pytestmark = pytest.mark.peers

_REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
_SIZE_BYTES = 3_000_000
_FILE = ("--reassignment-json-file", "{folder}/moves.json")


def _reassign(name: str, *arguments: str, until: str = "") -> Step:
    return Step(name, _REASSIGN, (*arguments, *_FILE), until)


def _configs(name: str, kind: str, entity: str, until: str = "") -> Step:
    return Step(name, CONFIGS, ("--describe", "--entity-type", kind, "--entity-name", entity), until)


def _set(name: str, kind: str, entity: str, keys: str, value: str) -> Step:
    added = f"leader.replication.throttled.{keys}={value},follower.replication.throttled.{keys}={value}"
    return Step(name, CONFIGS, ("--alter", "--entity-type", kind, "--entity-name", entity, "--add-config", added))


_CREATE = Step("create", TOPICS, ("--create", "--topic", "t", "--replica-assignment", "0:1,0:1"))
_COMPLETED = "\n".join(f"Reassignment of partition t-{number} is completed." for number in (0, 1))
_MOVING = (
    "\tTopic: t\tPartition: 0\tLeader: 0\tReplicas: 2,1,0\tIsr: 0,1\tAdding Replicas: 2\tRemoving Replicas: 0"
    "\tElr: N/A\tLastKnownElr: N/A\n\tTopic: t\tPartition: 1\tLeader: 0\tReplicas: 2,1,0"
)
STEPS = [
    _set("set-topic", "topics", "t", "replicas", "*"),
    *(_set(f"set-broker-{broker}", "brokers", broker, "rate", "1000") for broker in "012"),
    *(_configs(f"broker-{broker}-set", "brokers", broker, until="rate=1000") for broker in "012"),
    _reassign("execute", "--execute", "--throttle", "1000"),
    _configs("topic-throttled", "topics", "t"),
    _configs("broker-throttled", "brokers", "2"),
    _reassign("verify-held-back", "--verify"),
    Step("describe-held-back", TOPICS, ("--describe", "--topic", "t"), _MOVING),
    _reassign("execute-faster", "--execute", "--additional", "--throttle", "100000000"),
    _reassign("verify", "--verify", until=_COMPLETED),
    _configs("topic", "topics", "t")._replace(gone="throttled.replicas"),
    _configs("broker", "brokers", "2")._replace(gone="throttled.rate"),
    Step("describe", TOPICS, ("--describe", "--topic", "t")),
]


def _perform(runner: ToolRunner, target: targets.Target, folder: Path) -> dict[str, Said]:
    said = {"create": runner.run(target, _CREATE)}
    producer = confluent_kafka.Producer({"bootstrap.servers": target.bootstrap, "linger.ms": 5, "log_level": 3})
    for number in range(_SIZE_BYTES // 1000):
        producer.produce("t", bytes(1000), partition=number % 2)
    assert producer.flush(30) == 0
    for step in STEPS:
        arguments: Sequence[str] = [argument.replace("{folder}", str(folder)) for argument in step.arguments]
        said[step.name] = runner.run(target, step._replace(arguments=arguments))
    # The tool asks any broker, and one may not know yet which replicas a moving partition has.
    code, lines = said["execute-faster"]
    said["execute-faster"] = Said(code, [line for line in lines if not line.startswith("{")])
    return said


@pytest.fixture(scope="module")
def said(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Said]]:
    """The tools' output, by target and step."""
    folder = tmp_path_factory.mktemp("throttled")
    partitions = [{"topic": "t", "partition": number, "replicas": [2, 1]} for number in (0, 1)]
    (folder / "moves.json").write_text(json.dumps({"version": 1, "partitions": partitions}))
    overrides = {"replica.fetch.max.bytes": "100000"}
    return said_to_each(
        jars.ORACLE_VERSION, peer_zookeeper, folder, "throttled", _perform, overrides, broker_count=3
    )


@pytest.mark.parametrize("step", [step.name for step in (_CREATE, *STEPS)])
def test_tool_says_the_same_as_to_apache_kafka(said: dict[str, dict[str, Said]], step: str) -> None:
    """The exit code and every line are equal."""
    assert said[targets.KAFKA_ZK][step] == said[targets.APACHE_KAFKA][step]


def test_the_move_stood_still_until_the_throttle_was_raised(said: dict[str, dict[str, Said]]) -> None:
    for name in targets.NAMES:
        held_back = "\n".join(said[name]["verify-held-back"].lines)
        assert held_back.count("is still in progress") == 2
        assert "\n".join(said[name]["verify"].lines).count("is completed") == 2
