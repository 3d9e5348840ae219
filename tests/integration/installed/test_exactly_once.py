"""Each program of docs/explanation/exactly-once.md fails only in the ways that its guarantee allows.

``exactly_once_zookeeper.py`` imports "fenced_producers.py".
"""

import os
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path

import pytest

from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from tests.integration.installed import exactly_once

pytestmark = [pytest.mark.integration, pytest.mark.long]

COUNT = 50
PORTION = 10  # the number of records per step of examples/delivery.py
TIMEOUT_S = 120


@pytest.fixture
def names(kafka_zk_cluster: EmbeddedCluster) -> tuple[str, str, str]:
    """A source with three partitions, a target, and a group."""
    name = f"exact-{uuid.uuid4().hex[:8]}"
    exactly_once.make_topics(kafka_zk_cluster.bootstrap, f"{name}-in", f"{name}-out", 3)
    return f"{name}-in", f"{name}-out", name


def deliver(mode: str, bootstrap: str, names: tuple[str, str, str], *die: str) -> int:
    command = [sys.executable, str(exactly_once.EXAMPLES / "delivery.py"), mode, bootstrap, *names, "8", *die]
    environment = {**os.environ, "PYTHONPATH": str(exactly_once.EXAMPLES.parent)}
    return subprocess.run(command, env=environment, timeout=TIMEOUT_S, check=False).returncode


@pytest.mark.parametrize(
    ("mode", "lost", "twice"), [("at-most-once", PORTION, 0), ("at-least-once", 0, PORTION), ("exactly-once", 0, 0)]
)
def test_a_program_that_dies_at_the_worst_moment(
    kafka_zk_cluster: EmbeddedCluster, names: tuple[str, str, str], mode: str, lost: int, twice: int
) -> None:
    """At most once loses a portion, at least once writes it twice, and exactly once writes each record once."""
    bootstrap, (source, target, _) = kafka_zk_cluster.bootstrap, names
    with BlockingProducer(bootstrap_servers=bootstrap) as producer:
        for number in range(COUNT):
            producer.send(source, b"r%d" % number)
    assert deliver(mode, bootstrap, names, "die") == 1
    assert deliver(mode, bootstrap, names) == 0
    found = exactly_once.seen(bootstrap, target, 3)
    times = Counter(found[b"R%d" % number] for number in range(COUNT))
    assert times == +Counter({0: lost, 1: COUNT - lost - twice, 2: twice})


@pytest.mark.one_in(2)
@pytest.mark.parametrize("example", ["exactly_once.py", "exactly_once_zookeeper.py"])
def test_exactly_once_under_kills(
    kafka_zk_cluster: EmbeddedCluster, names: tuple[str, str, str], tmp_path: Path, example: str
) -> None:
    """Two members are killed while they work; one is paused until the other considers it dead, and resumes."""
    bootstrap, (source, target, group) = kafka_zk_cluster.bootstrap, names
    command_of = exactly_once.command_of(example, bootstrap, kafka_zk_cluster.zookeeper_connect, source, target, group)
    exactly_once.run_under_kills(
        exactly_once.Members(command_of, tmp_path),
        bootstrap=bootstrap, source=source, target=target, partition_count=3, group=group,
        seed=3, kills=2, pause_s=8.0,
    )  # fmt: skip
