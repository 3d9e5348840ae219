"""Every example runs, in an environment with the packages that examples/README.md names."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.plugin import MakeCluster, MakeTopic
from tests.fresh_environment import MakeEnvironment
from tests.integration.groups.members import write
from tests.integration.processes import ROOT
from tests.readme import person_environ
from tests.schema_registry import schema_registry

pytestmark = pytest.mark.integration
EXAMPLES = ROOT / "examples"
NEEDED = ("kafka-zk[embedded]",)
TIMEOUT_S = 60
MOST_LINES = 60

RunExample = Callable[..., str]


@pytest.fixture
def run_example(make_environment: MakeEnvironment) -> RunExample:
    """``run_example(name, *arguments)`` runs the example to its end and returns its output."""
    path = make_environment(NEEDED)

    def run(name: str, *arguments: str) -> str:
        command = ["sh" if name.endswith(".sh") else path / "python", EXAMPLES / name, *arguments]
        environ = person_environ(path)
        done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_every_example_is_in_the_list_and_tested() -> None:
    listed = set(re.findall(r"\]\((\w+\.\w+)\)", (EXAMPLES / "README.md").read_text()))
    there = {path.name for path in EXAMPLES.iterdir() if path.is_file()} - {"README.md"}
    assert listed == there
    names = ("test_examples", "test_exactly_once", "test_rebalance_notebook", "test_extract_notebook")
    tested = "".join(path.read_text() for name in names for path in Path(__file__).parents[1].rglob(f"{name}.py"))
    assert all(f'"{name}"' in tested for name in there)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short(path: Path) -> None:
    """Readers use it as a starting point."""
    assert len(path.read_text().splitlines()) <= MOST_LINES


def test_produce_and_read(run_example: RunExample, kafka_zk_cluster: EmbeddedCluster) -> None:
    lines = run_example("produce_and_read.py", kafka_zk_cluster.bootstrap).splitlines()
    assert len(lines) == 12
    assert lines[1] == "offset 0: b'hello 0' [('example', b'yes')]"
    assert lines[-1].endswith("is at offset 0")


def test_twisted_producer(run_example: RunExample, kafka_zk_cluster: EmbeddedCluster) -> None:
    assert run_example("twisted_producer.py", kafka_zk_cluster.bootstrap).count("examples.numbers-0 offset ") == 3


@pytest.mark.parametrize("name", ["at_least_once.py", "at_most_once.py"])
def test_delivery_semantics(
    name: str, run_example: RunExample, kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic
) -> None:
    """Here, each record is processed once over two runs: the second run continues where the first one stopped."""
    topic = make_topic(partitions=2)
    seen: list[str] = []
    for _ in range(2):
        write(kafka_zk_cluster, topic, 2, 3)
        group = f"group-{topic}-{name}"
        seen += run_example(name, kafka_zk_cluster.zookeeper_connect, topic, group, "5").splitlines()
    offsets = sorted(line.split("work on ")[1].split(":")[0] for line in seen)
    assert offsets == sorted(f"{topic}-{partition} offset {offset}" for partition in range(2) for offset in range(6))


@pytest.mark.skipif(not shutil.which("kcat"), reason="kcat is not installed")
def test_with_kcat(run_example: RunExample, kafka_zk_cluster: EmbeddedCluster) -> None:
    shown = run_example("with_kcat.sh", kafka_zk_cluster.bootstrap)
    assert shown == "0 en hello source=kcat\n1 fr bonjour source=kcat\n"


@pytest.mark.embedded
def test_watch_brokers_sees_a_broker_leave_and_come_back(
    make_cluster: MakeCluster, make_environment: MakeEnvironment
) -> None:
    cluster = make_cluster(broker_count=1)
    path = make_environment(NEEDED)
    command = [str(path / "python"), "-u", str(EXAMPLES / "watch_brokers.py"), cluster.zookeeper_connect, "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=person_environ(path)) as watching:
        try:
            assert watching.stdout
            assert watching.stdout.readline().startswith(f"broker 0 is at 127.0.0.1:{cluster.brokers[0].port}")
            cluster.brokers[0].stop()
            assert watching.stdout.readline() == "broker 0 left\n"
            cluster.restart_broker(0)
            assert watching.stdout.readline().startswith("broker 0 is at 127.0.0.1:")
        finally:
            watching.kill()


def test_avro_with_a_schema_registry(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic) -> None:
    """The example runs in the tests' own environment, which has Confluent's client."""
    with schema_registry() as registry:
        where = (kafka_zk_cluster.bootstrap, registry.url, make_topic())
        program = [sys.executable, str(EXAMPLES / "schema_registry.py"), *where]
        done = subprocess.run(program, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "{'id': 1, 'item': 'tea', 'count': 1}\n{'id': 2, 'item': 'milk', 'count': 6}\n"


@pytest.mark.long
def test_the_tests_of_an_example_pass(make_environment: MakeEnvironment) -> None:
    path = make_environment([*NEEDED, "pytest"])
    tests = str(EXAMPLES / "test_with_fixtures.py")
    command = [str(path / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", tests]
    environ = person_environ(path)
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=2 * TIMEOUT_S, check=False)
    assert "3 passed" in done.stdout, done.stdout
