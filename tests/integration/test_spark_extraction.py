"""``kafka-zk extract`` with a real Spark, as a person runs it; tests/soak/test_extraction_kill.py kills it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.producer.blocking import BlockingProducer
from kafka_zk.testing.plugin import MakeTopic
from tests.integration.processes import ROOT, kafka_zk
from tests.integration.spark import LOCAL, SMALL

pytestmark = pytest.mark.integration


def extract(cluster: EmbeddedCluster, topic: str, target: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    conf = [f"--conf={name}={value}" for name, value in SMALL.items()]
    command = [sys.executable, "-m", "kafka_zk", "extract", "--zookeeper", cluster.zookeeper_connect, "--group", "lake",
               "--topic", topic, "--to", str(target), "--master", "local[1]", *conf, *more]  # fmt: skip
    environ = {**os.environ, **LOCAL, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=400, check=False)


def test_extract_as_a_person_runs_it(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic(partitions=2)
    with BlockingProducer(None, bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:
        for number in range(20):
            producer.send(topic, b'{"a": %d, "b": "x"}' % number, key=b"k", partition=number % 2)
        producer.flush()
    planned = extract(kafka_zk_cluster, topic, tmp_path / "lake", "--dry-run", "--json")
    assert json.loads(planned.stdout)["dry_run"] is True, planned.stderr
    assert not (tmp_path / "lake").exists()
    done = extract(kafka_zk_cluster, topic, tmp_path / "lake", "--decode", "json", "--schema", "a INT, b STRING",
                   "--partition-by", "b", "--format", "json", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["records"], [each["lag_after"] for each in report["partitions"]]) == (20, [0, 0])
    lines = [json.loads(line) for path in (tmp_path / "lake").glob("range=*/b=x/*.json") for line in path.open()]
    assert sorted(line["a"] for line in lines) == list(range(20))
    assert {(line["key"], line["topic"]) for line in lines} == {("k", topic)}


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (("--decode", "json", "--schema", "a STRNG"), "STRNG"),
        (("--partition-by", "nope"), "there is no column nope"),
        (("--to", "FILE"), "is a file, not a folder"),
    ],
)
def test_what_only_spark_can_judge_is_one_sentence_too(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path, more: tuple[str, ...], sentence: str
) -> None:
    """Exit code 2, nothing of Spark's own log, and nothing begun: no folder."""
    file = tmp_path / "file"
    file.touch()
    arguments = [str(file) if each == "FILE" else each for each in more]
    done = extract(kafka_zk_cluster, make_topic(), tmp_path / "lake", *arguments)
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr and "WARN" not in done.stderr
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(("zookeeper", "sentence"), [("127.0.0.1:1", "no ZooKeeper server"), ("", "there is no topic")])
def test_what_is_not_there_is_told_before_spark_starts(
    kafka_zk_cluster: EmbeddedCluster, tmp_path: Path, zookeeper: str, sentence: str
) -> None:
    address = zookeeper or kafka_zk_cluster.zookeeper_connect
    done = kafka_zk("extract", "--zookeeper", address, "--group", "g", "--topic", "nowhere", "--to", tmp_path / "lake",
                    timeout_s=200)  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {sentence}") and done.stderr.count("\n") == 1
