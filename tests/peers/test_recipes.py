"""Applications of public reports, in examples/recipes: each fails as reported, and works with its fix."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafka_zk import BlockingReader, TopicPartition
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing import MakeTopic
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
    assert running.stdin is not None and running.stdout is not None, "the process has no pipes"
    running.stdin.write(line + "\n")
    return running.stdout.readline().strip()


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
