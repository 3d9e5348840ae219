"""Each program of docs/tutorials/clients.md runs alone, in an environment with the packages that its first line
installs.

The blocks of the Java tools, Go and Node.js are run by tests/peers/test_client_programs.py.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from tests.documented import Block, block, programs
from tests.fresh_environment import MakeEnvironment
from tests.readme import person_environ

pytestmark = pytest.mark.integration

PAGE = "docs/tutorials/clients.md"
TIMEOUT_S = 60


def run_alone(program: Block, command: list[str | Path], cluster: EmbeddedCluster, path: Path | None) -> str:
    """Run the program with a topic that no other program has written to."""
    program = program.elsewhere(cluster.bootstrap.partition(",")[0], cluster.zookeeper_connect)
    text = program.text.replace("greetings", f"greetings-{abs(hash(program.text))}")
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, env=person_environ(path), timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("program", programs(PAGE), ids=lambda it: re.findall(r"(?:from|import) ([\w.]+)", it.text)[0])
def test_each_program_writes_and_reads_a_record_alone(
    program: Block, kafka_zk_cluster: EmbeddedCluster, make_environment: MakeEnvironment
) -> None:
    path = make_environment(program.requirements)
    shown = run_alone(program, [path / "python", "-W", "ignore", "-"], kafka_zk_cluster, path)
    assert "b'hello'" in shown


@pytest.mark.skipif(not shutil.which("kcat"), reason="kcat is not installed")
def test_kcat_writes_and_reads_a_record_alone(kafka_zk_cluster: EmbeddedCluster) -> None:
    assert "hello" in run_alone(block("kcat"), ["sh", "-e"], kafka_zk_cluster, None).splitlines()
