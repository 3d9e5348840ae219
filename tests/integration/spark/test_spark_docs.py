"""The commands of docs/how-to/spark.md that need no other cluster. Shell commands run until Spark starts, and Python
code runs to its end. tests/soak/test_documented_tables.py runs those with jars from Maven Central.
"""

import ast
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.embedded.cluster import EmbeddedCluster
from tests.documented import ZOOKEEPER, Block, blocks
from tests.integration.processes import ROOT
from tests.integration.spark.sessions import spark  # noqa: F401
from tests.integration.spark.test_spark_extraction import write
from tests.schema_registry import schema_registry

pytestmark = pytest.mark.integration
PAGE = "docs/how-to/spark.md"
REGISTRY, METRICS_PORT = "http://127.0.0.1:8081", "9404"
TIMEOUT_S = 120


def command_of_airflow(text: str) -> str:
    """The command of an Airflow operator, with the end of the interval in Airflow's format."""
    [call] = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)][:1]
    [template] = [each.value for each in call.keywords if each.arg == "bash_command"]
    command: str = ast.literal_eval(template)
    return command.replace("{{ data_interval_end.isoformat() }}", "2026-11-23T06:00:00+00:00")


def command_of_kubernetes(text: str) -> str:
    return shlex.join(yaml.safe_load(text)["containers"][0]["command"])


COMMAND_OF: dict[str, Callable[[str], str]] = {
    "spark-airflow": command_of_airflow,
    "spark-kubernetes": command_of_kubernetes,
}
ENDED_BY_SIGNALS = ("spark-every", "spark-kubernetes")


@pytest.fixture
def topic(kafka_zk_cluster: EmbeddedCluster) -> str:
    """The page's topic, which is empty, so that Spark is not started."""
    with BlockingAdmin(bootstrap_servers=kafka_zk_cluster.bootstrap) as admin:
        if "flights" not in admin.list_topics():
            admin.create_topic("flights", partitions=2)
    return "flights"


def documented(name: str) -> Block:
    [block] = [each for each in blocks(PAGE) if each.mark == name]
    return block


def started(
    name: str, cluster: EmbeddedCluster, folder: Path, registry: str = "", more: str = "", **environ: str
) -> "subprocess.Popen[str]":
    """Start a documented command with the test's addresses and folders. ``more``: additional options."""
    text = COMMAND_OF.get(name, str)(documented(name).text)
    elsewhere = {
        ZOOKEEPER: cluster.zookeeper_connect, "zk:2181": cluster.zookeeper_connect, REGISTRY: registry,
        f"port {METRICS_PORT}": "port 0", "group lake": f"group {name}",
        "hdfs://lake": str(folder), "/data/": f"{folder}/",
    }  # fmt: skip
    for theirs, here in elsewhere.items():
        text = text.replace(theirs, here)
    if name in ENDED_BY_SIGNALS:
        text = f"exec {text}"  # so that signals reach the command
    command = folder / "kafka-zk"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m kafka_zk "$@"\n')
    command.chmod(0o755)
    own = {"PYTHONPATH": str(ROOT), **environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.Popen(["sh", "-ec", f"{text.rstrip()} {more}"], cwd=folder, env={**os.environ, **own}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip


RUNS = [f"spark-{name}" for name in ("extract", "registry", "s3", "delta", "iceberg", "cron", "airflow", "backfill")]


@pytest.mark.parametrize("name", RUNS)
def test_a_run_with_nothing_new_ends_well(
    name: str, kafka_zk_cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    with schema_registry() as registry:
        running = started(name, kafka_zk_cluster, tmp_path, registry.url)
        out, told = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 0, told
    assert "lag 0 before, 0 after" in told or json.loads(out)["lag_after"] == 0


def test_a_table_of_each_topic_with_nothing_new_ends_well(
    kafka_zk_cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    running = started("spark-topic-pattern", kafka_zk_cluster, tmp_path)
    out, told = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 0, told
    rows = [line.split(None, 4) for line in out.splitlines()]
    assert [row[1:3] + row[4:] for row in rows if row[0] == topic] == [[f"./lake/{topic}", "0", "nothing new"]]


def test_the_status_of_a_group_that_has_extracted_nothing(
    kafka_zk_cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    """Without offsets, the topic must be given."""
    running = started("spark-status", kafka_zk_cluster, tmp_path, more=f"--topic {topic}")
    out, told = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 0, told
    assert out.splitlines()[-1] == "lag 0", told


@pytest.mark.parametrize("name", ENDED_BY_SIGNALS)
def test_rounds_end_with_sigterm(
    name: str, kafka_zk_cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    running = started(name, kafka_zk_cluster, tmp_path)
    try:
        assert running.stdout and running.stderr
        first = json.loads(running.stdout.readline())
        running.send_signal(signal.SIGTERM)
        out, told = running.communicate(timeout=TIMEOUT_S)
    finally:
        running.kill()
    assert (first["round"], first["outcome"], first["lag_after"]) == (1, "idle", 0)
    assert running.returncode == 0 and out == "", told
    assert "metrics at port" in told and "stopped by SIGTERM" in told


@pytest.mark.spark
@pytest.mark.parametrize("name", ["spark-notebook", "spark-read"])
def test_python_in_a_notebook(
    name: str,
    spark: Any,  # noqa: F811
    kafka_zk_cluster: EmbeddedCluster,
    tmp_path: Path,
) -> None:
    with BlockingAdmin(bootstrap_servers=kafka_zk_cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=2)
    write(kafka_zk_cluster, name, [b"%d" % number for number in range(10)])
    text = documented(name).elsewhere(kafka_zk_cluster.bootstrap, kafka_zk_cluster.zookeeper_connect).text
    for theirs, here in {'"flights"': f'"{name}"', 'target="lake"': f'target="{tmp_path}/lake"'}.items():
        text = text.replace(theirs, here)
    found: dict[str, Any] = {}
    exec(text, found)
    frame = found["flights"] if name == "spark-read" else spark.read.parquet(f"{tmp_path}/lake")
    assert sorted(int(row.value) for row in frame.collect()) == list(range(10))
