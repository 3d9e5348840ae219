"""C: signals, ports and the first lines of output."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from kafka_zk.embedded.health import Health, probe
from kafka_zk.embedded.ports import LOCALHOST, free_port
from tests.attack.cluster import wait_for
from tests.attack.siege import Siege
from tests.integration.processes import start, wait_for_end

pytestmark = [pytest.mark.attack, pytest.mark.embedded]

LISTEN = "0A"


@pytest.fixture
def run() -> Iterator[Callable[..., "Popen[str]"]]:
    """``run(*arguments)``: start ``kafka-zk``; processes that still run at the end are killed."""
    started: list[Popen[str]] = []

    def run(*arguments: str | Path) -> "Popen[str]":
        started.append(start(*arguments))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()


def test_a_closed_terminal_stops_a_broker_cleanly(siege: Siege) -> None:
    victim = siege.victim

    def attack() -> None:
        os.kill(victim.broker.pid, signal.SIGHUP)
        wait_for(lambda: not victim.broker.alive, "the broker ends")
        assert victim.broker.process.exit_code == 0, victim.broker.process.describe_end()
        assert (victim.log_dir / ".kafka_cleanshutdown").exists(), "the stop was not clean"

    siege("C SIGHUP to a broker", attack, waits=False)


def test_a_closed_terminal_stops_up_cleanly(siege: Siege, run: Callable[..., "Popen[str]"], tmp_path: Path) -> None:
    connect = siege.victim.zookeeper_connect + "/up"

    def attack() -> None:
        up = run("up", "--brokers", "1", "--port", "0", "--data", tmp_path, "--zookeeper", connect)
        assert up.stdout
        line = up.stdout.readline()  # broker 0 pid 123 port 456
        broker_pid = int(line.split()[3])
        assert up.stdout.readline().startswith("ready")
        up.send_signal(signal.SIGHUP)
        _, errors = up.communicate(timeout=20)
        wait_for_end(broker_pid)
        assert up.returncode == 0, f"up ended with {up.returncode}: {errors}"
        assert (tmp_path / "broker-0" / "data" / ".kafka_cleanshutdown").exists(), "the broker's stop was not clean"

    siege("C SIGHUP to kafka-zk up", attack, waits=False)


def test_metrics_are_served_where_the_broker_listens(make_siege: Callable[..., Siege]) -> None:
    port = free_port()
    siege = make_siege(arguments=("--metrics-port", str(port)))

    def attack() -> None:
        with socket.create_connection((LOCALHOST, port), 5):
            pass
        addresses = _listening(port)
        assert addresses == {LOCALHOST}, f"the metrics are served on {', '.join(sorted(addresses))}"

    siege("C where metrics are served", attack)


def _listening(port: int) -> set[str]:
    """The local addresses on which a server listens at a port."""
    found = set()
    for family, table in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            local, _, state = line.split()[1:4]
            address, _, number = local.partition(":")
            if state == LISTEN and int(number, 16) == port:
                words = [bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8)]
                found.add(socket.inet_ntop(family, b"".join(words)))
    return found


def test_zookeeper_starts_without_a_stack_trace(siege: Siege, run: Callable[..., "Popen[str]"], tmp_path: Path) -> None:
    """The zoo.cfg is the shortest that ZooKeeper accepts."""
    port = free_port()
    (tmp_path / "data").mkdir()
    (tmp_path / "zoo.cfg").write_text(f"dataDir={tmp_path / 'data'}\nclientPort={port}\n")

    def attack() -> None:
        server = run("zookeeper", tmp_path / "zoo.cfg")
        try:
            wait_for(lambda: probe(port).health is Health.SERVING, "ZooKeeper answers", 20)
        finally:
            server.terminate()
            output, errors = server.communicate(timeout=20)
        lines = (output + errors).splitlines()
        traces = [line for line in lines if line.startswith("\tat ") or "Exception" in line]
        assert not traces, f"{len(traces)} lines of stack traces, such as {traces[0]}"

    siege("C kafka-zk zookeeper's output", attack, waits=False)
