"""The commands of docs/spark.md that need no cluster of others: as they stand there, up to where Spark would start."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_zk.client.blocking_admin import BlockingAdmin
from kafka_zk.embedded.cluster import EmbeddedCluster
from tests.documented import Block, blocks
from tests.integration.processes import ROOT
from tests.schema_registry import schema_registry

pytestmark = pytest.mark.integration
PAGE = "docs/spark.md"
REGISTRY, METRICS_PORT = "http://127.0.0.1:8081", "9404"
TIMEOUT_S = 120


@pytest.fixture
def topic(kafka_zk_cluster: EmbeddedCluster) -> str:
    """The topic of the page. Nothing is in it, so that no Spark is started."""
    with BlockingAdmin(bootstrap_servers=kafka_zk_cluster.bootstrap) as admin:
        if "flights" not in admin.list_topics():
            admin.create_topic("flights", partitions=2)
    return "flights"


def started(name: str, cluster: EmbeddedCluster, folder: Path, registry: str = "") -> "subprocess.Popen[str]":
    [block] = [each for each in blocks(PAGE) if each.mark == name]
    text = Block(*block).elsewhere(cluster.bootstrap, cluster.zookeeper_connect).text
    elsewhere = {REGISTRY: registry, f"port {METRICS_PORT}": "port 0", "group lake": f"group {name}"}
    for documented, here in elsewhere.items():
        text = text.replace(documented, here)
    if name == "spark-every":
        text = f"exec {text}"  # so that signals reach it
    command = folder / "kafka-zk"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m kafka_zk "$@"\n')
    command.chmod(0o755)
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.Popen(["sh", "-ec", text], cwd=folder, env=environ, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)  # fmt: skip


@pytest.mark.parametrize("name", ["spark-registry", "spark-cron"])
def test_a_run_with_nothing_new_ends_well(
    name: str, kafka_zk_cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    with schema_registry() as registry:
        running = started(name, kafka_zk_cluster, tmp_path, registry.url)
        out, told = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 0, told
    assert "lag 0 before, 0 after" in told or json.loads(out)["lag_after"] == 0


def test_rounds_end_with_sigterm(kafka_zk_cluster: EmbeddedCluster, topic: str, tmp_path: Path) -> None:
    running = started("spark-every", kafka_zk_cluster, tmp_path)
    try:
        assert running.stdout and running.stderr
        first = json.loads(running.stdout.readline())
        running.send_signal(signal.SIGTERM)
        out, told = running.communicate(timeout=TIMEOUT_S)
    finally:
        running.kill()
    assert (first["round"], first["outcome"], first["lag_after"]) == (1, "idle", 0)
    assert running.returncode == 0 and out == "", told
    assert "metrics at port" in told and "stopped after a round" in told
