"""Applications of public reports, in examples/recipes: each fails as reported, and works with its fix."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from kafka_zk import BlockingAdmin, BlockingProducer, BlockingReader, TopicPartition
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.interception import Exchange
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.testing import MakeCluster, MakeTopic
from tests.fresh_environment import clean_environ
from tests.peers.python_environments import python_with

pytestmark = pytest.mark.peers

RECIPES = Path(__file__).resolve().parents[2] / "examples" / "recipes"
END_TIMEOUT_S = 60


@contextmanager
def application(python: Path, recipe: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A running recipe, which is killed at the end of the block."""
    command = [str(python), str(RECIPES / recipe), *arguments]
    running = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=clean_environ()
    )
    with running:
        yield running
        running.kill()


def answer(running: subprocess.Popen[str], line: str) -> str:
    assert running.stdin is not None, "the process has no pipes"
    running.stdin.write(line + "\n")
    return line_of(running)


def line_of(running: subprocess.Popen[str]) -> str:
    """The next line of the recipe's output. An AssertionError says that the recipe has ended."""
    assert running.stdout is not None, "the process has no pipes"
    line = running.stdout.readline()
    assert line, "the recipe has ended"
    return line.strip()


def await_coordinator(bootstrap: str, group: str) -> None:
    """Returns when the topic of offsets exists and the group's coordinator has loaded it."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.committed([confluent_kafka.TopicPartition(group, 0)], timeout=END_TIMEOUT_S)
    consumer.close()


@pytest.mark.parametrize(("style", "afterwards"), [("keep", "refused"), ("replace", "sent")])
def test_aiokafka_1017(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, style: str, afterwards: str
) -> None:
    """Only a new producer sends again after OUT_OF_ORDER_SEQUENCE_NUMBER."""
    topic, python = make_topic(), python_with("aiokafka==0.10.0")
    with application(python, "aiokafka_1017.py", kafka_zk_cluster.bootstrap, topic, style) as running:
        assert answer(running, "a") == "sent"
        with kafka_zk_cluster.faults.out_of_order_sequence(topic=topic):
            assert answer(running, "b") == "refused"
        assert [answer(running, each) for each in "cde"] == [afterwards] * 3


@pytest.mark.parametrize(
    ("version", "style", "is_left_open"), [("2.14.0", "close", True), ("2.14.0", "abort", False), ("", "close", False)]
)
def test_confluent_2329(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, version: str, style: str, is_left_open: bool
) -> None:
    """The version that the tests use aborts when it closes. While the transaction is open, the last stable offset stays
    0.
    """
    topic = make_topic()
    python = python_with(f"confluent-kafka=={version}") if version else Path(sys.executable)
    with application(python, "confluent_2329.py", kafka_zk_cluster.bootstrap, topic, style) as running:
        assert running.wait(END_TIMEOUT_S) == 0
    tp = TopicPartition(topic, 0)
    with BlockingReader(bootstrap_servers=kafka_zk_cluster.bootstrap, isolation_level="read_committed") as reader:
        assert (reader.end_offsets([tp])[tp] == 0) == is_left_open


@pytest.mark.weekly  # it installs a version of confluent-kafka
@pytest.mark.parametrize(
    ("in_flight", "stored"), [("5", [b"a", b"a", b"b", b"c"]), ("1", [b"a", b"b", b"c"])], ids=["five", "one"]
)
def test_librdkafka_4953(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, in_flight: str, stored: list[bytes]
) -> None:
    """As if the leader lost its partition after it appended the first record, and led again from the third request on.
    """
    topic, python = make_topic(), python_with("confluent-kafka==2.16.1")
    rejection: list[Any] = []
    requests = count(1)

    def reject_the_second(_: Exchange) -> Any:
        return rejection[0] if next(requests) == 2 else None

    def append_and_reject(exchange: Exchange) -> None:
        if not rejection:
            [answered] = exchange.response.responses
            answered.partition_responses[0].error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            rejection.append(exchange.response)

    fault = kafka_zk_cluster.faults.intercept(reject_the_second, append_and_reject, api="Produce", topic=topic)
    with fault, application(python, "librdkafka_4953.py", kafka_zk_cluster.bootstrap, topic, in_flight) as running:
        assert running.wait(END_TIMEOUT_S) == 0
    tp = TopicPartition(topic, 0)
    with BlockingReader(bootstrap_servers=kafka_zk_cluster.bootstrap) as reader:
        reader.assign({tp: 0})
        records = [record for batch in reader.batches(until=reader.end_offsets([tp])) for record in batch]
    assert [record.value for record in records] == stored


@pytest.mark.weekly  # it installs a version of confluent-kafka
@pytest.mark.parametrize(("refusals", "outcome"), [(2, "committed"), (3, "stuck")])
def test_librdkafka_5456(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, refusals: int, outcome: str
) -> None:
    """The group's coordinator, and all brokers, are available all the time."""
    topic, python = make_topic(), python_with("confluent-kafka==2.16.1")
    await_coordinator(kafka_zk_cluster.bootstrap, topic)
    fault = kafka_zk_cluster.faults.error(
        "FindCoordinator", "COORDINATOR_NOT_AVAILABLE", refusals, group=topic, client_id=f"{topic}-client"
    )
    with fault, application(python, "librdkafka_5456.py", kafka_zk_cluster.bootstrap, topic) as running:
        assert line_of(running) == outcome
        assert fault.fired == refusals


@pytest.mark.weekly
def test_librdkafka_5456_after_a_kill(make_cluster: MakeCluster, make_topic: MakeTopic) -> None:
    """The only replica of the group's offsets is on a broker that was killed. The other broker coordinates the
    transaction.
    """
    offsets, transactions = "offsets.topic", "transaction.state.log"
    cluster = make_cluster(
        2,
        {
            f"{offsets}.num.partitions": "1",
            f"{offsets}.replication.factor": "1",
            f"{transactions}.num.partitions": "1",
            f"{transactions}.replication.factor": "2",
            f"{transactions}.min.isr": "1",
        },
    )
    topic, python = make_topic(cluster=cluster), python_with("confluent-kafka==2.16.1")
    await_coordinator(cluster.bootstrap, topic)
    with application(python, "librdkafka_5456.py", cluster.bootstrap, topic) as running:
        assert line_of(running) == "committed"
    with BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        [partition] = admin.describe_topics(["__consumer_offsets"])["__consumer_offsets"].partitions
    cluster.brokers[partition.leader].kill()
    with application(python, "librdkafka_5456.py", cluster.bootstrap, topic) as running:
        assert line_of(running) == "stuck"


@pytest.mark.weekly  # it installs FastStream
@pytest.mark.parametrize(("version", "afterwards"), [("0.5.3", ["stopped"]), ("0.5.4", ["b", "c"])])
def test_faststream_1414(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, version: str, afterwards: list[str]
) -> None:
    """The commit of the second record fails, because the group loses the member. Only 0.5.4 reads the record again."""
    topic, python = make_topic(), python_with(f"faststream[kafka]=={version}", "pydantic==2.7.1")
    with (
        BlockingProducer(bootstrap_servers=kafka_zk_cluster.bootstrap) as producer,
        application(python, "faststream_1414.py", kafka_zk_cluster.bootstrap, topic) as running,
    ):
        producer.send(topic, b"a")
        assert line_of(running) == "a"
        with kafka_zk_cluster.faults.rebalance_amid_commit(topic):
            producer.send(topic, b"b")
            assert line_of(running) == "b"
            assert line_of(running) == afterwards[0]
        producer.send(topic, b"c")
        assert [line_of(running) for _ in afterwards[1:]] == afterwards[1:]


@pytest.mark.weekly  # it installs Faust
@pytest.mark.parametrize(
    ("actors", "until", "after_restart"), [("2", "committed 3", "began d"), ("1", "began slow", "began slow")]
)
def test_faust_606(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, actors: str, until: str, after_restart: str
) -> None:
    """Two actors lose the record that is not finished. The restarted member waits for the session of the killed one."""
    topic, python = make_topic(), python_with("faust-streaming==0.10.22", "mode-streaming==0.3.5", "aiokafka==0.10.0")
    arguments = (python, "faust_606.py", kafka_zk_cluster.bootstrap, topic, actors)
    with BlockingProducer(bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:
        for value in (b"slow", b"b", b"c"):
            producer.send(topic, value)
        with application(*arguments) as running:
            while line_of(running) != until:
                pass
        producer.send(topic, b"d")
        with application(*arguments) as running:
            assert line_of(running) == after_restart
