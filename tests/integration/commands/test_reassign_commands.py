"""``kafka-zk reassign`` and ``kafka-zk elect-leaders`` against a running cluster."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_zk.cli.main import run
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.plugin import MakeTopic

pytestmark = pytest.mark.integration

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capfdbinary: pytest.CaptureFixture[bytes], kafka_zk_cluster: EmbeddedCluster) -> Run:
    """Run a command; returns its exit code, stdout and stderr."""

    def ran(*arguments: str | Path) -> tuple[int, str, str]:
        code = run([*(str(argument) for argument in arguments), "--bootstrap-server", kafka_zk_cluster.bootstrap])
        captured = capfdbinary.readouterr()
        return code, captured.out.decode(), captured.err.decode()

    return ran


def test_moves_are_planned_begun_and_verified(command: Run, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic(partitions=2)
    code, planned, _ = command("reassign", "--generate", "0", "--topic", topic)
    partitions = [{"topic": topic, "partition": number, "replicas": [0]} for number in range(2)]
    assert (code, json.loads(planned)) == (0, {"version": 1, "partitions": partitions})
    moves = tmp_path / "moves.json"
    _, described, _ = command("topics", "describe", "--topic", topic, "--json")
    for each in partitions:
        each["replicas"] = json.loads(described)[0]["partitions"][each["partition"]]["replicas"]
    moves.write_text(json.dumps({"version": 1, "partitions": partitions}))
    code, told, _ = command("reassign", "--execute", moves, "--json")
    assert code == 0 and [row["result"] for row in json.loads(told)] == ["begun", "begun"]
    code, told, _ = command("reassign", "--verify", moves, "--json")
    assert code == 0 and [row["result"] for row in json.loads(told)] == ["done", "done"]
    assert command("reassign", "--list") == (0, "", "No partition is being moved.\n")
    code, told, _ = command("reassign", "--cancel", moves)
    assert code == 1 and told.count("NO_REASSIGNMENT_IN_PROGRESS") == 2


def test_what_cannot_be_moved_is_told(command: Run, make_topic: MakeTopic, tmp_path: Path) -> None:
    moves = tmp_path / "moves.json"
    partitions = [
        {"topic": make_topic(), "partition": 0, "replicas": [77]},
        {"topic": "gone", "partition": 0, "replicas": [0]},
    ]
    moves.write_text(json.dumps({"version": 1, "partitions": partitions}))
    code, told, _ = command("reassign", "--execute", moves)
    assert code == 1 and "INVALID_REPLICA_ASSIGNMENT" in told and "UNKNOWN_TOPIC_OR_PARTITION" in told
    code, told, _ = command("reassign", "--verify", moves)
    assert code == 1 and "other replicas" in told and "does not exist" in told
    moves.write_text("[]")
    code, _, told = command("reassign", "--execute", moves)
    assert code == 1 and told.count("\n") == 1 and "moves.json" in told.replace("\n", "")
    assert command("reassign")[0] == 2
    assert command("reassign", "--list", "--verify", moves)[0] == 2
    assert command("reassign", "--generate", "0")[0] == 2


def test_leaders_that_are_right_stay(command: Run, make_topic: MakeTopic) -> None:
    topic = make_topic()
    assert command("elect-leaders") == (0, "", "No partition needs another leader.\n")
    assert command("elect-leaders", "--topic", topic, "--unclean", "--json") == (0, "[]\n", "")
    code, told, _ = command("elect-leaders", "--topic", topic, "--partition", "9", "--json")
    assert code == 1 and "UNKNOWN_TOPIC_OR_PARTITION" in json.loads(told)[0]["result"]
    assert command("elect-leaders", "--partition", "9")[0] == 2
