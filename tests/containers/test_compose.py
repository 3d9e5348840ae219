"""The compose files: valid, and their services serve, started from images that were built here."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.ports import can_listen
from kafka_zk.embedded.probe import ask_broker
from kafka_zk.testing.clients import create_topic
from tests.containers import images
from tests.integration.processes import wait_for
from tests.peers import jars

# One worker: the files publish fixed ports.
pytestmark = [pytest.mark.containers, pytest.mark.xdist_group("compose")]

DOCKER = images.ROOT / "docker"
BROKERS = "127.0.0.1:19092,127.0.0.1:19093,127.0.0.1:19094"
PORTS = (19092, 19093, 19094)
PUBLISHED = (*PORTS, 29092, 29093)
TIMEOUT_S = 180


def compose_command() -> list[str]:
    """The plugin of current Docker versions, or Debian's program of the first generation."""
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0
    return ["docker", "compose"] if plugin else [shutil.which("docker-compose") or "docker-compose"]


class Compose:
    """One compose file under a project name of its own."""

    def __init__(self, file: str, environ: Mapping[str, str]) -> None:
        self._command = [*compose_command(), "-p", Path(file).stem.replace("-", ""), "-f", str(DOCKER / file)]
        self._environ = {**os.environ, **environ}

    def run(self, *arguments: str) -> str:
        command = [*self._command, *arguments]
        done = subprocess.run(
            command, env=self._environ, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def environ(zookeeper_image: str, broker_image: str) -> dict[str, str]:
    return {"ZOOKEEPER_IMAGE": zookeeper_image, "KAFKA_ZK_IMAGE": broker_image}


@pytest.fixture
def up(request: pytest.FixtureRequest, environ: dict[str, str]) -> Iterator[Compose]:
    """The services of the file that the test is parametrized with."""
    file, more = request.param
    compose = Compose(file, {**environ, **{name: images.kafka_image(version) for name, version in more.items()}})
    with (images.CACHE / "compose.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wait_for(lambda: all(map(can_listen, PUBLISHED)), "the ports of the last test", TIMEOUT_S)
        try:
            compose.run("up", "--detach", "--no-build")
            yield compose
        finally:
            compose.run("down", "--volumes", "--timeout", "10")


@pytest.mark.parametrize("file", ["compose.yml", "compose-ensemble.yml", "compose-peers.yml"])
def test_a_compose_file_is_valid_as_users_have_it(file: str) -> None:
    """Without any variable set, it uses the public images."""
    assert "latest" not in Compose(file, {}).run("config")


def knows(port: int, broker_ids: set[int]) -> bool:
    view = ask_broker("127.0.0.1", port)
    return view is not None and view.broker_ids == broker_ids and (view.controller_id in broker_ids)


def round_trip(bootstrap: str, topic: str) -> None:
    with BlockingProducer(bootstrap_servers=bootstrap) as producer:
        written = producer.send(topic, b"through containers").result()
    with BlockingReader(bootstrap_servers=bootstrap) as reader:
        reader.assign({TopicPartition(topic, written.partition): written.offset})
        assert wait_for(lambda: reader.poll(1_000), "the record")[0].value == b"through containers"


def healthy(compose: Compose, service: str) -> bool:
    container = compose.run("ps", "-q", service).strip()
    command = ["docker", "inspect", "--format", "{{.State.Health.Status}}", container]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    return shown.stdout.strip() == "healthy"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("up", [("compose.yml", {}), ("compose-ensemble.yml", {})], indirect=True, ids=lambda up: up[0])
def test_three_brokers_come_up_healthy_and_serve(up: Compose) -> None:
    for port in PORTS:
        wait_for(partial(knows, port, {0, 1, 2}), f"the broker at {port}", TIMEOUT_S)
    for number in range(3):
        wait_for(partial(healthy, up, f"kafka-{number}"), f"health of kafka-{number}", TIMEOUT_S)
    create_topic(BROKERS, "composed", 3, {})
    round_trip(BROKERS, "composed")
    user = up.run("exec", "-T", "kafka-0", "id", "-un")
    assert user.strip() == "kafka", "the process does not run as root"


PEERS = {"KAFKA_3_9_IMAGE": jars.ORACLE_VERSION, "KAFKA_4_IMAGE": jars.NEWEST_VERSION}


@pytest.mark.weekly
@pytest.mark.parametrize("up", [("compose-peers.yml", PEERS)], indirect=True, ids=["compose-peers.yml"])
def test_ours_answers_beside_apache_kafka_with_zookeeper_and_with_kraft(up: Compose) -> None:
    for port in (19092, 29092):
        wait_for(partial(knows, port, {0}), f"the broker at {port}", TIMEOUT_S)
    wait_for(lambda: ask_broker("127.0.0.1", 29093), "the KRaft broker", TIMEOUT_S)
    for port in (19092, 29092, 29093):
        bootstrap = f"127.0.0.1:{port}"
        with BlockingAdmin(bootstrap_servers=bootstrap) as admin:
            admin.create_topic("compared", 2, 1, {})
        round_trip(bootstrap, "compared")
