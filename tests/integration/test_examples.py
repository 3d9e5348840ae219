"""Every example runs."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.plugin import MakeCluster, MakeTopic
from tests.integration.groups import write
from tests.integration.processes import ENVIRON, ROOT

pytestmark = pytest.mark.integration
EXAMPLES = ROOT / "examples"
TIMEOUT_S = 60


def run_example(name: str, *arguments: str) -> str:
    """Run it to its end and return what it printed."""
    command = ["sh" if name.endswith(".sh") else sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRON, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_in_the_list_and_tested() -> None:
    listed = set(re.findall(r"\]\((\w+\.\w+)\)", (EXAMPLES / "README.md").read_text()))
    there = {path.name for path in EXAMPLES.iterdir() if path.is_file()} - {"README.md"}
    assert listed == there
    tested = Path(__file__).read_text()
    assert all(f'"{name}"' in tested for name in there)


def test_produce_and_read(kafka_zk_cluster: EmbeddedCluster) -> None:
    lines = run_example("produce_and_read.py", kafka_zk_cluster.bootstrap).splitlines()
    assert len(lines) == 12
    assert lines[1] == "offset 0: b'hello 0' [('example', b'yes')]"
    assert lines[-1].endswith("is at offset 0")


def test_twisted_producer(kafka_zk_cluster: EmbeddedCluster) -> None:
    assert run_example("twisted_producer.py", kafka_zk_cluster.bootstrap).count("examples.numbers-0 offset ") == 3


@pytest.mark.parametrize("name", ["at_least_once.py", "at_most_once.py"])
def test_delivery_semantics(name: str, kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic) -> None:
    """Each record is worked on once here, also over two runs: the second one goes on where the first one stopped."""
    topic = make_topic(partitions=2)
    seen: list[str] = []
    for _ in range(2):
        write(kafka_zk_cluster, topic, 2, 3)
        group = f"group-{topic}-{name}"
        seen += run_example(name, kafka_zk_cluster.zookeeper_connect, topic, group, "5").splitlines()
    offsets = sorted(line.split("work on ")[1].split(":")[0] for line in seen)
    assert offsets == sorted(f"{topic}-{partition} offset {offset}" for partition in range(2) for offset in range(6))


@pytest.mark.skipif(not shutil.which("kcat"), reason="kcat is not installed")
def test_with_kcat(kafka_zk_cluster: EmbeddedCluster) -> None:
    shown = run_example("with_kcat.sh", kafka_zk_cluster.bootstrap)
    assert shown == "0 en hello source=kcat\n1 fr bonjour source=kcat\n"


@pytest.mark.embedded
def test_watch_brokers_sees_a_broker_leave_and_come_back(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(broker_count=1)
    command = [sys.executable, str(EXAMPLES / "watch_brokers.py"), cluster.zookeeper_connect, "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRON) as watching:
        try:
            assert watching.stdout
            assert watching.stdout.readline().startswith(f"broker 0 is at 127.0.0.1:{cluster.brokers[0].port}")
            cluster.brokers[0].stop()
            assert watching.stdout.readline() == "broker 0 left\n"
            cluster.restart_broker(0)
            assert watching.stdout.readline().startswith("broker 0 is at 127.0.0.1:")
        finally:
            watching.kill()


def test_the_tests_of_an_example_pass() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "kafka_zk.testing.plugin"]
    if "kafka_zk" in _installed_plugins():
        del command[-2:]
    target = str(EXAMPLES / "test_with_fixtures.py")
    done = subprocess.run([*command, target], capture_output=True, text=True, env=ENVIRON, timeout=120, check=False)
    assert "3 passed" in done.stdout, done.stdout


def _installed_plugins() -> set[str]:
    from importlib.metadata import entry_points

    return {entry.name for entry in entry_points(group="pytest11")}
