"""No command waits silently, and a missing topic or partition is reported at once."""

import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.cli.main import run
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.clients import create_topic
from kafka_zk.testing.plugin import MakeCluster, MakeTopic
from tests.integration.processes import kafka_zk, start

pytestmark = pytest.mark.integration

Words = tuple[str, ...]
Told = Callable[..., str]


@pytest.fixture
def black_hole() -> Iterator[str]:
    """An address where connections are accepted and no request ever gets a response."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def told(capfd: pytest.CaptureFixture[str]) -> Told:
    """Run a command that must fail; returns its sentence without notices, which appear only on some machines."""

    def command(*words: str) -> str:
        assert run(list(words)) == 1
        lines = capfd.readouterr().err.splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("waiting for "))

    return command


def test_no_command_waits_in_silence(black_hole: str) -> None:
    """After one second, a line on stderr (here a pipe) names what the command waits for, and the maximum wait."""
    at_brokers: list[Words] = [
        ("topics", "list"), ("topics", "describe"), ("topics", "create", "--topic", "t"),
        ("topics", "delete", "--topic", "t"), ("offsets",), ("consume", "--topic", "t"), ("produce", "--topic", "t"),
    ]  # fmt: skip
    at_zookeeper: list[Words] = [
        ("topics", "list"), ("groups", "list"), ("groups", "describe"), ("groups", "export"), ("znodes",),
        ("watch", "--group", "g"), ("consume", "--topic", "t", "--group", "g"), ("up", "--brokers", "1", "--port", "0"),
    ]  # fmt: skip
    commands = [(*words, "--bootstrap-server", black_hole) for words in at_brokers]
    commands += [(*words, "--zookeeper", black_hole) for words in at_zookeeper]
    with ThreadPoolExecutor(4) as pool:
        for words, line in zip(commands, pool.map(_first_line, commands), strict=True):
            assert line.startswith("waiting for "), (words, line)
            assert ", at most " in line, (words, line)


def _first_line(words: Words) -> str:
    process = start(*words)
    try:
        assert process.stderr
        return process.stderr.readline()
    finally:
        process.terminate()  # ``up`` then removes its folder
        process.communicate(timeout=60)


def test_json_stays_alone_on_stdout(black_hole: str) -> None:
    process = start("topics", "list", "--json", "--bootstrap-server", black_hole)
    assert process.stderr and process.stderr.readline().startswith("waiting for ")
    process.kill()
    assert process.communicate()[0] == ""


def test_an_unknown_topic_is_told_at_once_with_the_nearest_one(
    told: Told, kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic("waited-for-hellos")
    at_broker = ("--bootstrap-server", kafka_zk_cluster.bootstrap)
    at_zookeeper = ("--zookeeper", kafka_zk_cluster.zookeeper_connect)
    for words in (
        ("consume", *at_broker),
        ("consume", "--group", "g", *at_zookeeper),
        ("topics", "describe", *at_broker),
        ("topics", "describe", *at_zookeeper),
        ("topics", "delete", *at_broker),
        ("topics", "delete", *at_zookeeper),
        ("offsets", *at_broker),
        ("groups", "reset-offsets", "--type", "zookeeper", "--group", "g", "--to-latest", *at_zookeeper),
    ):
        said = told(*words, "--topic", "waited-for-helols")
        assert said == f"Error: no topic waited-for-helols; did you mean {topic}?\n", words


def test_records_for_a_partition_that_is_not_there_are_refused_at_once(
    capfd: pytest.CaptureFixture[str], kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """The producer itself would wait for the partition as long as it waits for metadata."""
    topic = make_topic("waited-for-partitions")
    lines = tmp_path / "lines"
    lines.write_text("v\n")
    words = ("--topic", topic, "--file", str(lines), "--bootstrap-server", kafka_zk_cluster.bootstrap)
    assert run(["produce", "--partition", "7", "--producer-property", "max.block.ms=3000", *words]) == 2
    assert f"Error: --partition 7: {topic} has partitions 0..0\n" in capfd.readouterr().err


def test_who_wants_to_wait_for_a_topic_says_so(kafka_zk_cluster: EmbeddedCluster) -> None:
    bootstrap = kafka_zk_cluster.bootstrap
    words = ("consume", "--topic", "awaited", "--wait", "--exit-at-end", "--from-beginning")
    process = start(*words, "--bootstrap-server", bootstrap)
    assert process.stderr
    assert process.stderr.readline().startswith("waiting for topic awaited at ")
    create_topic(bootstrap, "awaited", 1, {})
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors.splitlines()[-1]) == (0, "0 records")


def test_a_new_topic_is_told_where_brokers_create_topics_and_refused_where_they_do_not(
    kafka_zk_cluster: EmbeddedCluster, make_cluster: MakeCluster
) -> None:
    create_topic(kafka_zk_cluster.bootstrap, "waited-for-orders", 1, {})
    created = _produce("waited-for-ordres", kafka_zk_cluster.bootstrap)
    told = "topic waited-for-ordres is new; did you mean waited-for-orders?\n1 records to waited-for-ordres"
    assert without_waiting(created.stderr).startswith(told)
    strict = make_cluster(1, {"auto.create.topics.enable": "false"})
    create_topic(strict.bootstrap, "waited-for-orders", 1, {})
    refused = _produce("waited-for-ordres", strict.bootstrap)
    reason = "the brokers have auto.create.topics.enable=false"
    said = f"Error: no topic waited-for-ordres; did you mean waited-for-orders? ({reason})\n"
    assert (refused.returncode, without_waiting(refused.stderr)) == (1, said)


def without_waiting(said: str) -> str:
    """The output without the notice about slow brokers, which appears only on a busy machine."""
    first, newline, rest = said.partition("\n")
    return rest if newline and first.startswith("waiting for the brokers at ") else said


def _produce(topic: str, bootstrap: str) -> "subprocess.CompletedProcess[str]":
    return kafka_zk("produce", "--topic", topic, "--bootstrap-server", bootstrap, stdin="a\n")


def test_an_unknown_group_is_told_with_the_nearest_one(told: Told, kafka_zk_cluster: EmbeddedCluster) -> None:
    where = ("--zookeeper", kafka_zk_cluster.zookeeper_connect)
    stored = "/consumers/readers/offsets/t/0:1\n"
    _import_offsets(stored, where)
    both = "in ZooKeeper or at the brokers"
    for command, place in (("describe", both), ("delete", both), ("export", "in ZooKeeper")):
        sentence = told("groups", command, "--group", "raeders", *where)
        assert sentence == f"Error: there is no group raeders {place}; did you mean readers?\n"


def _import_offsets(text: str, where: Words) -> Any:
    assert kafka_zk("groups", "import", *where, stdin=text).returncode == 0


def test_an_offset_that_no_partition_has_is_told(
    told: Told, kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, capfd: pytest.CaptureFixture[str]
) -> None:
    topic = make_topic(partitions=2)
    where = ("--bootstrap-server", kafka_zk_cluster.bootstrap)
    words = ("consume", "--topic", topic, "--exit-at-end", *where)
    ranges = f"{topic}-0 has 0 to 0, {topic}-1 has 0 to 0"
    assert told(*words, "--offset", "99") == f"Error: offset 99 is out of range: {ranges}\n"
    _produce(topic, kafka_zk_cluster.bootstrap)
    assert run([*words, "--offset", "1"]) == 0
    shown = capfd.readouterr().err
    assert shown.startswith("offset 1 is out of range in 1 of 2 partitions, only new records are read from them: ")
    assert shown.endswith("\n0 records\n")
