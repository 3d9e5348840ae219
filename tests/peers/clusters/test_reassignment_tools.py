"""Kafka 3.9.1's tools that move partitions and elect leaders print the same for kafka-zk and for Apache Kafka.

With one broker, no partition can move, so the tests cover requests, refusals, and plans that add no replica.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.peers import jars, targets
from tests.peers.tool_script import TOPICS, Said, Step, ToolRunner, said_to_each

pytestmark = pytest.mark.peers

_REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
_ELECT = "org.apache.kafka.tools.LeaderElectionCommand"

_MOVES: dict[str, list[tuple[str, int, list[int]]]] = {
    "same": [("t", 0, [0]), ("t", 1, [0])],
    "dead": [("t", 0, [7])],
    "gone": [("gone", 0, [0])],
    "beyond": [("t", 9, [0])],
}


def _reassign(name: str, *arguments: str) -> Step:
    return Step(f"reassign-{name}", _REASSIGN, arguments)


def _elect(name: str, *arguments: str) -> Step:
    return Step(f"elect-{name}", _ELECT, arguments)


def _file(name: str) -> tuple[str, str]:
    return "--reassignment-json-file", f"{{folder}}/{name}.json"


STEPS = [
    Step("create", TOPICS, ("--create", "--topic", "t", "--partitions", "3", "--replication-factor", "1")),
    _reassign("list", "--list"),
    _reassign("generate", "--generate", "--broker-list", "0", "--topics-to-move-json-file", "{folder}/topics.json"),
    _reassign("verify-before", "--verify", *_file("same")),
    _reassign("execute-same", "--execute", *_file("same")),
    _reassign("verify-same", "--verify", *_file("same")),
    _reassign("execute-throttled", "--execute", *_file("same"), "--throttle", "1000000"),
    _reassign("verify-throttled", "--verify", *_file("same")),
    _reassign("execute-dead", "--execute", *_file("dead")),
    _reassign("execute-gone", "--execute", *_file("gone")),
    _reassign("execute-beyond", "--execute", *_file("beyond")),
    _reassign("cancel", "--cancel", *_file("same")),
    _reassign("list-after", "--list"),
    _elect("preferred-all", "--election-type", "preferred", "--all-topic-partitions"),
    _elect("unclean-all", "--election-type", "unclean", "--all-topic-partitions"),
    _elect("preferred", "--election-type", "preferred", "--topic", "t", "--partition", "1"),
    _elect("unclean", "--election-type", "unclean", "--topic", "t", "--partition", "1"),
    _elect("beyond", "--election-type", "preferred", "--topic", "t", "--partition", "9"),
    _elect("gone", "--election-type", "preferred", "--topic", "gone", "--partition", "0"),
    Step("describe", TOPICS, ("--describe", "--topic", "t")),
]


def _perform(runner: ToolRunner, target: targets.Target, folder: Path) -> dict[str, Said]:
    said = {}
    for step in STEPS:
        arguments: Sequence[str] = [argument.replace("{folder}", str(folder)) for argument in step.arguments]
        said[step.name] = runner.run(target, step._replace(arguments=arguments))
    return said


@pytest.fixture(scope="module")
def said(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Said]]:
    """The tools' output, by target and step."""
    folder = tmp_path_factory.mktemp("reassign")
    for name, moves in _MOVES.items():
        partitions = [{"topic": topic, "partition": number, "replicas": replicas} for topic, number, replicas in moves]
        (folder / f"{name}.json").write_text(json.dumps({"version": 1, "partitions": partitions}))
    (folder / "topics.json").write_text(json.dumps({"version": 1, "topics": [{"topic": "t"}]}))
    return said_to_each(jars.ORACLE_VERSION, peer_zookeeper, folder, "reassign", _perform)


@pytest.mark.parametrize("step", [step.name for step in STEPS])
def test_tool_says_the_same_as_to_apache_kafka(said: dict[str, dict[str, Said]], step: str) -> None:
    """The exit code and every line are equal."""
    assert said[targets.KAFKA_ZK][step] == said[targets.APACHE_KAFKA][step]
