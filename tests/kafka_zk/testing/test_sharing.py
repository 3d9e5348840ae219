"""All workers of pytest-xdist use one cluster with ``--share-cluster``, which ends with the run."""

import os
from pathlib import Path

import pytest

from tests.kafka_zk.testing.runs import run_pytest

pytestmark = pytest.mark.integration

_TEST = """\
import os
from pathlib import Path

import pytest

from kafka_zk import BlockingProducer
from kafka_zk.embedded.errors import EmbeddedError


def test_{number}(kafka_zk_cluster, make_topic):
    topic = make_topic()
    with BlockingProducer(bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:
        assert producer.send(topic, b"a").result().offset == 0
    [broker] = kafka_zk_cluster.brokers
    with pytest.raises(EmbeddedError, match="use make_cluster for faults"):
        kafka_zk_cluster.faults
    Path(__file__).with_suffix(".told").write_text(f"{{broker.pid}} {{os.environ['PYTEST_XDIST_WORKER']}} {{topic}}")
"""


def test_two_workers_share_a_cluster_that_ends_with_the_run(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"test_{number}.py").write_text(_TEST.format(number=number))
    said = run_pytest(tmp_path, "-n", "2", "--dist", "loadfile", "--share-cluster", "-o", "kafka_zk_brokers=1")
    assert "2 passed" in said, said
    pids, workers, topics = zip(*(path.read_text().split() for path in sorted(tmp_path.glob("*.told"))), strict=True)
    assert len(set(pids)) == 1 and len(set(workers)) == 2 and len(set(topics)) == 2
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids[0]), 0)


def test_a_shared_cluster_that_cannot_start_fails_each_test_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_1(kafka_zk_cluster): pass\n")
    keys = "kafka_zk_properties=num.partitions=none"
    said = run_pytest(tmp_path, "-n", "1", "--share-cluster", "-o", "kafka_zk_brokers=1", "-o", keys)
    assert "num.partitions=none" in said and "1 error" in said, said


def test_containers_are_not_shared(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_1(): pass\n")
    assert "--share-cluster starts processes" in run_pytest(tmp_path, "--share-cluster", "--containers")
