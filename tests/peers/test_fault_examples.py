"""The examples of faults in other languages, against a broker process, without containers."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_zk.testing.cluster import Cluster
from tests.peers import foreign_programs
from tests.peers.jars import ORACLE_VERSION, class_path

pytestmark = pytest.mark.peers

EXAMPLES = Path(__file__).parents[2] / "examples" / "containers"
SAID = ["offset 1, the fault fired 1 time", "next offset 2"]
_TIMEOUT_S = 300


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def _said(cluster: Cluster, command: list[str], folder: Path, **environ: str) -> list[str]:
    """The output of the example with the broker, the API and its token, and a topic as its arguments."""
    [broker] = cluster.brokers
    topic = f"orders-{folder.name}"
    arguments = [broker.bootstrap, f"http://127.0.0.1:{broker.faults_port}", broker.faults_token, topic]
    done = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_the_java_example_stores_its_record_once(cluster: Cluster) -> None:
    """Java compiles a single file when it runs it."""
    folder = EXAMPLES / "java"
    assert _said(cluster, ["java", "-cp", class_path(ORACLE_VERSION), "LostAnswer.java"], folder) == SAID


def test_the_go_example_stores_its_record_once(cluster: Cluster, tmp_path: Path) -> None:
    """The example uses the modules of the other Go programs: testcontainers would need a hundred more."""
    folder = tmp_path / "go"
    folder.mkdir()
    for path in (EXAMPLES / "go" / "main.go", EXAMPLES / "go" / "lost_answer.go"):
        shutil.copy(path, folder)
    for name in ("go.mod", "go.sum"):
        shutil.copy(foreign_programs.SOURCES / "franz_go" / name, folder)
    assert _said(cluster, [foreign_programs.go(), "run", "."], folder, GOTOOLCHAIN="local") == SAID


def test_the_node_example_stores_its_record_once(cluster: Cluster) -> None:
    packages = foreign_programs.node_folder("kafkajs") / "node_modules"
    assert _said(cluster, ["node", "lost_answer.js"], EXAMPLES / "node", NODE_PATH=str(packages)) == SAID
