"""The output of ``kafka-zk up``, its end, and the data that it keeps."""

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import NamedTuple

import pytest

from kafka_zk.embedded.ports import free_ports
from tests.integration.processes import (
    COMMAND,
    ENVIRON,
    kafka_zk,
    kafka_zk_json,
    on_terminal,
    running,
    start,
    wait_for,
    wait_for_end,
)

pytestmark = pytest.mark.integration


class Up(NamedTuple):
    process: "Popen[str]"
    zookeeper_pid: int
    broker_pids: list[int]
    bootstrap: str
    zookeeper: str

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; return the exit code and stderr without the notices of waits."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, "".join(line for line in errors.splitlines(True) if not is_notice(line))

    def complaint(self) -> str:
        """The next line of stderr that is not the notice of a wait."""
        assert self.process.stderr
        return next(line for line in self.process.stderr if not is_notice(line))


def is_notice(line: str) -> bool:
    return line.startswith("waiting for ")


def read_up(process: "Popen[str]", broker_count: int, port: int) -> Up:
    """Check the exact lines of stdout, up to "ready"."""
    assert process.stdout
    first = process.stdout.readline()
    zookeeper = re.fullmatch(r"zookeeper pid (\d+)\n", first)
    assert zookeeper, first or process.communicate()[1]
    pids = []
    for number in range(broker_count):
        line = process.stdout.readline()
        broker = re.fullmatch(rf"broker {number} pid (\d+) port {port + number}\n", line)
        assert broker, line or process.communicate()[1]
        pids.append(int(broker[1]))
    addresses = ",".join(f"127.0.0.1:{port + number}" for number in range(broker_count))
    last = process.stdout.readline()
    ready = re.fullmatch(rf"ready bootstrap=({re.escape(addresses)}) zookeeper=(127\.0\.0\.1:\d+)\n", last)
    assert ready, last or process.communicate()[1]
    return Up(process, int(zookeeper[1]), pids, ready[1], ready[2])


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def up_two(tmp_path: Path) -> Iterator[Up]:
    """Two brokers on neighbouring ports."""
    port = next(p for p in range(20_000, 30_000, 7) if all(_free(p + n) for n in range(2)))
    zookeeper_port = free_ports(1)[0]
    process = start("up", "--brokers", "2", "--port", str(port), "--data", tmp_path / "data",
                    "--zookeeper-port", str(zookeeper_port))  # fmt: skip
    try:
        yield read_up(process, 2, port)
    finally:
        process.kill()
        process.communicate()


def _free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def test_sigterm_stops_every_process_and_ends_with_0(up_two: Up) -> None:
    assert kafka_zk_json("topics", "list", "--bootstrap-server", up_two.bootstrap) == []
    code, errors = up_two.end()
    assert (code, errors) == (0, "")
    assert not any(running(pid) for pid in (up_two.zookeeper_pid, *up_two.broker_pids))


def test_a_closed_terminal_stops_every_process_cleanly(tmp_path: Path, port: int) -> None:
    """The terminal sends SIGHUP; from then on, writes to it fail."""
    arguments = ("up", "--brokers", "1", "--port", str(port), "--data", tmp_path, "--zookeeper-port",
                 str(free_ports(1)[0]))  # fmt: skip
    with on_terminal(*arguments) as terminal:
        terminal.read_until("ready")
        children = [int(found) for found in re.findall(r" pid (\d+)", terminal.text)]
        assert terminal.hang_up() == 0
    assert len(children) == 2 and not any(running(child) for child in children)
    assert (tmp_path / "broker-0" / "data" / ".kafka_cleanshutdown").exists()


@pytest.mark.long
def test_a_broker_that_dies_is_told_and_the_others_go_on(up_two: Up) -> None:
    """The message may quote the broker's log, and contains the command that starts it again."""
    os.kill(up_two.broker_pids[1], signal.SIGKILL)
    said = re.fullmatch(
        r"broker 1 ended with signal SIGKILL(?P<quote>, saying: .*)? \(log: .*/broker-1/broker\.log\); "
        r"to start it again: kafka-zk (?P<command>broker .*/broker-1/server\.properties)\n",
        up_two.complaint(),
    )
    assert said
    assert kafka_zk_json("topics", "list", "--bootstrap-server", up_two.bootstrap) == []
    again = start(*said["command"].split())
    try:
        wait_for(lambda: "1" in _brokers(up_two), "broker 1 in ZooKeeper")
    finally:
        again.terminate()
        again.communicate(timeout=60)
    code, _ = up_two.end(signal.SIGINT)
    assert code == 0


def _brokers(up: Up) -> set[str]:
    nodes = kafka_zk_json("znodes", "/brokers/ids", "--zookeeper", up.zookeeper)
    return {Path(node["path"]).name for node in nodes}


@pytest.mark.long
def test_partitions_that_no_running_broker_holds_are_told(up_two: Up, tmp_path: Path) -> None:
    where = ("--bootstrap-server", up_two.bootstrap)
    assert kafka_zk("topics", "create", "--topic", "t", "--replica-assignment", "0,1,1", *where).returncode == 0
    assert up_two.end()[0] == 0
    up = read_up(*_up_one(tmp_path / "data"))
    told = "2 partitions have no leader (t-1, t-2): the replicas are on broker 1, which is not running"
    assert up.complaint() == f"{told}; start them with --brokers 2\n"
    assert up.end()[0] == 0


def _up_one(data: Path) -> tuple["Popen[str]", int, int]:
    port, zookeeper_port = free_ports(2)
    words = ("--brokers", "1", "--port", str(port), "--zookeeper-port", str(zookeeper_port), "--data", data)
    return start("up", *words), 1, port


def test_a_cluster_that_commands_do_not_find_by_default_says_what_helps(tmp_path: Path) -> None:
    """Another cluster has ZooKeeper's port."""
    _check_export(_up_beside_another(tmp_path))


def _up_beside_another(folder: Path) -> Up:
    """Start ``up`` beside another cluster. The port may belong to another test or to a cluster that is just ending, so
    this retries.
    """
    while True:
        port = free_ports(1)[0]
        with _taken(2181):
            up = read_up(start("up", "--brokers", "1", "--port", str(port), "--data", folder), 1, port)
        if not up.zookeeper.endswith(":2181"):
            return up
        up.end()


@contextlib.contextmanager
def _taken(port: int) -> Iterator[None]:
    """Hold the port, unless another process has it."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            held.enter_context(socket.create_server(("127.0.0.1", port)))
        yield


def _check_export(up: Up) -> None:
    try:
        assert up.complaint().startswith("port 2181 is in use, perhaps by another cluster: ")
        assert up.process.stdout
        assert up.process.stdout.readline() == "other commands find this cluster, in any terminal, after:\n"
        export = up.process.stdout.readline()
        assert export == f"export KAFKA_ZK_ZOOKEEPER={up.zookeeper} KAFKA_ZK_BOOTSTRAP={up.bootstrap}\n"
        for words, shown in (("topics create --topic t", "Created topic t."), ("znodes /brokers/topics", "t  {"),
                             ("offsets", "t"), ("groups list", "GROUP"), ("topics list", "t"),
                             ("consume --topic t --exit-at-end --json", ""),
                             ("consume --topic t --group g --timeout-ms 10", "")):  # fmt: skip
            done = subprocess.run(f"{export} {shlex.join(COMMAND)} {words}", shell=True, check=False, env=ENVIRON,
                                  capture_output=True, text=True)  # fmt: skip
            assert (done.returncode, shown in done.stdout) == (0, True), (words, done)
    finally:
        assert up.end()[0] == 0


def test_help_names_the_variables_that_stand_for_addresses() -> None:
    for words in (("topics", "list"), ("produce",), ("consume",), ("offsets",)):
        assert "env var: KAFKA_ZK_BOOTSTRAP" in _help(*words)
    for words in (("groups", "list"), ("consume",), ("watch",), ("znodes",)):
        assert "env var: KAFKA_ZK_ZOOKEEPER" in _help(*words)
    assert "an option wins over its variable" in _help()


def _help(*words: str) -> str:
    return " ".join(kafka_zk(*words, "--help").stdout.split())


def test_nothing_outlives_an_up_that_was_killed(up_two: Up) -> None:
    up_two.process.kill()
    wait_for_end(up_two.zookeeper_pid, *up_two.broker_pids)


@pytest.mark.long
def test_the_same_data_again_continue(tmp_path: Path, port: int) -> None:
    arguments = ("up", "--brokers", "1", "--port", str(port), "--data", tmp_path, "--zookeeper-port",
                 str(free_ports(1)[0]))  # fmt: skip
    up = read_up(start(*arguments), 1, port)
    where = ("--bootstrap-server", up.bootstrap)
    assert kafka_zk("topics", "create", "--topic", "kept", *where).returncode == 0
    assert kafka_zk("produce", "--topic", "kept", *where, stdin="one\ntwo\n").returncode == 0
    assert up.end()[0] == 0
    up = read_up(start(*arguments), 1, port)
    done = kafka_zk("consume", "--topic", "kept", "--from-beginning", "--exit-at-end", *where)
    assert done.stdout == "one\ntwo\n", done.stderr
    assert kafka_zk("produce", "--topic", "kept", *where, stdin="three\n").returncode == 0
    assert kafka_zk_json("offsets", "--topic", "kept", *where)[0]["latest"] == 3
    assert up.end()[0] == 0


def test_a_crashed_cluster_comes_back_with_its_data(tmp_path: Path, port: int) -> None:
    arguments = ("up", "--brokers", "1", "--port", str(port), "--data", tmp_path, "--zookeeper-port",
                 str(free_ports(1)[0]))  # fmt: skip
    up = read_up(start(*arguments), 1, port)
    where = ("--bootstrap-server", up.bootstrap)
    assert kafka_zk("produce", "--topic", "kept", *where, stdin="one\ntwo\n").returncode == 0
    up.process.kill()
    up.process.communicate()
    wait_for_end(up.zookeeper_pid, *up.broker_pids)
    up = read_up(start(*arguments), 1, port)
    done = kafka_zk("consume", "--topic", "kept", "--from-beginning", "--exit-at-end", *where)
    assert done.stdout == "one\ntwo\n", done.stderr
    assert up.end()[0] == 0


def test_a_taken_port_and_a_directory_in_use_are_one_sentence_each(up_two: Up, tmp_path: Path) -> None:
    taken_port = up_two.bootstrap.split(",")[0].split(":")[1]
    done = kafka_zk("up", "--brokers", "1", "--port", taken_port)
    assert (done.returncode, done.stderr) == (
        1,
        f"Error: port {taken_port} is in use; choose other ports with --port\n",
    )
    done = kafka_zk("up", "--brokers", "1", "--port", "0", "--data", tmp_path / "data")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: another cluster is running in ")


def test_a_given_zookeeper_is_used_and_left_alone(up_two: Up, tmp_path: Path) -> None:
    process = start("up", "--brokers", "1", "--port", "0", "--json", "--zookeeper", f"{up_two.zookeeper}/other")
    assert process.stdout
    assert '"broker"' in process.stdout.readline()
    assert '"registered"' in process.stdout.readline()
    assert f'"zookeeper": "{up_two.zookeeper}/other"' in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) is not None
    assert process.returncode == 0
    assert running(up_two.zookeeper_pid)
