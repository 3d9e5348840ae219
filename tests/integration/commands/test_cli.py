"""The tools against a running cluster."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_zk.cli.main import run
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.plugin import MakeTopic
from tests.integration.processes import wait_for

pytestmark = pytest.mark.integration

Run = Callable[..., str]


@pytest.fixture
def cli(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run a command that must succeed; returns its stdout."""

    def command(*arguments: str | Path) -> str:
        code = run([str(argument) for argument in arguments])
        captured = capfdbinary.readouterr()
        assert code == 0, captured.err.decode()
        return captured.out.decode()

    return command


@pytest.fixture
def failing(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run a command that must fail; returns its only sentence."""

    def command(*arguments: str | Path) -> str:
        assert run([str(argument) for argument in arguments]) == 1
        lines = capfdbinary.readouterr().err.decode().splitlines()
        (sentence,) = [line for line in lines if not line.startswith("waiting for ")]
        return sentence

    return command


@pytest.fixture
def server(kafka_zk_cluster: EmbeddedCluster) -> tuple[str, str]:
    return ("--bootstrap-server", kafka_zk_cluster.bootstrap)


@pytest.mark.parametrize("way", ["--bootstrap-server", "--zookeeper"])
def test_a_topic_is_created_described_listed_and_deleted(way: str, cli: Run, kafka_zk_cluster: EmbeddedCluster) -> None:
    address = kafka_zk_cluster.bootstrap if way == "--bootstrap-server" else kafka_zk_cluster.zookeeper_connect
    topic = f"made-through{way.replace('-', '_')}"
    arguments = ("--topic", topic, "--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=60000")
    assert cli("topics", "create", *arguments, way, address) == f"Created topic {topic}.\n"
    assert cli("topics", "create", *arguments, way, address, "--if-not-exists") == f"Topic {topic} exists.\n"
    # As in Kafka, the broker that is asked may learn of the topic after the controller has answered.
    wait_for(lambda: topic in cli("topics", "list", way, address).splitlines(), "the topic in the list")
    described = json.loads(cli("topics", "describe", "--topic", topic, way, address, "--json"))[0]
    if way == "--zookeeper":  # through a broker, the command does not ask for configurations
        assert described["configs"] == {"retention.ms": "60000"}
    assert [len(partition["replicas"]) for partition in described["partitions"]] == [1, 1]
    text = cli("topics", "describe", "--topic", topic, way, address)
    assert text.startswith(f"Topic: {topic}\tTopicId: {described['topic_id']}\tPartitionCount: 2\t")
    assert cli("topics", "delete", "--topic", topic, way, address) == f"Topic {topic} is marked for deletion.\n"


@pytest.mark.parametrize("way", ["--bootstrap-server", "--zookeeper"])
def test_what_is_not_possible_is_refused(way: str, failing: Run, kafka_zk_cluster: EmbeddedCluster) -> None:
    address = kafka_zk_cluster.bootstrap if way == "--bootstrap-server" else kafka_zk_cluster.zookeeper_connect
    counts = ("--partitions", "1", "--replication-factor")
    assert "eplication" in failing("topics", "create", "--topic", "many", *counts, "9", way, address)
    shred = ("--config", "cleanup.policy=shred")
    assert "cleanup.policy" in failing("topics", "create", "--topic", "shred", *counts, "1", *shred, way, address)


def test_lines_go_in_and_come_back_with_keys_headers_and_null(
    cli: Run, server: tuple[str, str], make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    lines = tmp_path / "lines"
    lines.write_text("h:1\ta\tone\nNULL\tb\tNULL\n")
    parsing = [f"--property={text}" for text in ("parse.headers=true", "parse.key=true", "null.marker=NULL")]
    options = ("--header", "all=x", "--compression-codec", "lz4")
    cli("produce", "--topic", topic, "--file", lines, *parsing, *options, *server)
    printing = [f"--property=print.{part}=true" for part in ("key", "offset", "headers")]
    shown = cli("consume", "--topic", topic, "--from-beginning", "--max-messages", "2", *printing, *server)
    assert shown == "Offset:0\tall:x,h:1\ta\tone\nOffset:1\tall:x\tb\tnull\n"


def test_consume_starts_where_it_is_told_and_stops_at_the_end(
    cli: Run, server: tuple[str, str], make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    lines = tmp_path / "lines"
    lines.write_text("0\n1\n2\n3\n")
    report = json.loads(cli("produce", "--topic", topic, "--file", lines, "--partition", "1", "--json", *server))
    assert report == {"topic": topic, "records": 4, "partitions": {"1": {"records": 4, "first": 0, "last": 3}}}
    assert cli("consume", "--topic", topic, "--partition", "1", "--offset", "2", "--exit-at-end", *server) == "2\n3\n"
    record = json.loads(
        cli("consume", "--topic", topic, "--offset", "earliest", "--max-messages", "1", "--json", *server)
    )
    assert (record["partition"], record["offset"], record["value"], record["key"]) == (1, 0, "0", None)
    later = str(record["timestamp"] + 3_600_000)
    assert cli("consume", "--topic", topic, "--from-timestamp", later, "--exit-at-end", *server) == ""
    assert cli("consume", "--topic", topic, "--timeout-ms", "50", *server) == ""


def test_offsets_are_those_of_the_log_and_of_a_time(
    cli: Run, server: tuple[str, str], make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    lines = tmp_path / "lines"
    lines.write_text("a\nb\n")
    cli("produce", "--topic", topic, "--file", lines, "--partition", "0", *server)
    rows = json.loads(cli("offsets", "--topic", topic, "--time", "0", "--json", *server))
    assert [(row["partition"], row["earliest"], row["latest"], row["at_time"]) for row in rows] == [
        (0, 0, 2, 0),
        (1, 0, 0, None),
    ]
    assert cli("offsets", "--topic", topic, *server).splitlines()[1].split() == [topic, "0", "0", "2", "2"]


def test_dump_log_shows_every_batch_and_verifies(
    cli: Run, server: tuple[str, str], make_topic: MakeTopic, kafka_zk_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    topic = make_topic()
    lines = tmp_path / "lines"
    lines.write_text("a\nb\nc\n")
    cli("produce", "--topic", topic, "--file", lines, *server)
    (folder,) = kafka_zk_cluster.data_dir.glob(f"broker-*/data/{topic}-0")
    files = {
        Path(each["file"]).suffix: each["rows"] for each in json.loads(cli("dump-log", folder, "--verify", "--json"))
    }
    batches = files[".log"]
    assert batches[0]["baseOffset"] == 0
    assert batches[-1]["lastOffset"] == 2
    assert sum(batch["count"] for batch in batches) == 3
    assert all(batch["isvalid"] and batch["size"] > 61 and batch["baseTimestamp"] > 0 for batch in batches)
    log = folder / f"{0:020d}.log"
    assert "| offset: 1 " in cli("dump-log", "--files", log, "--print-data-log")
    damaged = tmp_path / log.name
    damaged.write_bytes(log.read_bytes()[:-1] + b"\xff")
    run(["dump-log", str(damaged)])
    assert run(["dump-log", "--verify", str(damaged)]) == 1


def test_znodes_name_the_broker_behind_a_session(cli: Run, kafka_zk_cluster: EmbeddedCluster) -> None:
    shown = cli("znodes", "--zookeeper", kafka_zk_cluster.zookeeper_connect)
    assert any(line.startswith("  controller  {") and " of broker " in line for line in shown.splitlines())
    nodes = json.loads(cli("znodes", "/brokers/ids", "--json", "--zookeeper", kafka_zk_cluster.zookeeper_connect))
    assert [node["path"] for node in nodes] == ["/brokers/ids", *(f"/brokers/ids/{number}" for number in range(3))]
    assert len({node["ephemeralOwner"] for node in nodes[1:]}) == 3
