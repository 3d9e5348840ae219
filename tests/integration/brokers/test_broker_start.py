"""How a broker finds its id and its folders, and what it logs when it cannot start."""

import errno
import os
import signal
import socket
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.ports import free_ports
from kafka_zk.storage.manager.meta_properties import read_meta_properties
from kafka_zk.testing.clients import create_topic
from kafka_zk.testing.zookeeper import Chroot
from tests.integration.processes import wait_for

pytestmark = pytest.mark.integration

MakeBroker = Callable[[Mapping[str, str]], BrokerProcess]


@pytest.fixture
def make_broker(zookeeper: Chroot, tmp_path: Path) -> Iterator[MakeBroker]:
    """A broker process of its own in the test's chroot; the first broker has the id 0."""
    made: list[BrokerProcess] = []

    def make(properties: Mapping[str, str]) -> BrokerProcess:
        folder = tmp_path / f"broker-{len(made)}"
        broker = BrokerProcess(folder, len(made), free_ports(1)[0], zookeeper.connect_string, properties)
        made.append(broker)
        return broker

    yield make
    for broker in made:
        broker.stop()


def serving(broker: BrokerProcess) -> set[int]:
    """Start a broker, and return the brokers in its metadata once it serves."""
    broker.start()
    view = wait_for(lambda: (seen := broker.view()) and seen.broker_ids and seen, "an answer")
    found: set[int] = view.broker_ids
    return found


def test_a_broker_without_an_id_takes_one_from_zookeeper_and_keeps_it(make_broker: MakeBroker) -> None:
    """The first id is reserved.broker.max.id + 1, and meta.properties keeps it across restarts."""
    broker = make_broker({"broker.id": "-1"})
    assert serving(broker) == {1001}
    assert broker.stop() == 0
    meta = read_meta_properties(str(broker.log_dir))
    assert meta is not None and meta.broker_id == 1001
    assert serving(broker) == {1001}
    assert serving(make_broker({"broker.id": "-1"})) == {1001, 1002}


def test_partitions_are_spread_over_the_log_directories(make_broker: MakeBroker, tmp_path: Path) -> None:
    """Each new partition goes to the directory with the fewest partitions. After a restart, all are still there."""
    folders = [tmp_path / "one", tmp_path / "two"]
    broker = make_broker({"log.dirs": ",".join(map(str, folders))})
    serving(broker)
    create_topic(broker.bootstrap, "t", 4, {})
    assert [len(list(folder.glob("t-*"))) for folder in folders] == [2, 2]
    assert broker.stop() == 0
    serving(broker)
    with BlockingProducer(bootstrap_servers=broker.bootstrap) as producer:
        assert [producer.send("t", b"x", partition=number).result(20).offset for number in range(4)] == [0] * 4


def test_a_log_directory_that_cannot_be_used_is_left_out(make_broker: MakeBroker, tmp_path: Path) -> None:
    """The other directories stay in use; if none is left, the broker logs the reason and ends."""
    good, bad = tmp_path / "good", tmp_path / "bad"
    bad.write_text("a file where a folder should be")
    broker = make_broker({"log.dirs": f"{bad},{good}"})
    serving(broker)
    assert str(bad) in (broker.folder / "broker.log").read_text()
    hopeless = make_broker({"log.dirs": str(bad)})
    hopeless.start()
    wait_for(lambda: not hopeless.alive, "the end")
    assert hopeless.stop() == 1
    log = (hopeless.folder / "broker.log").read_text()
    assert str(bad) in log and "Traceback" not in log


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"zookeeper.connect": "127.0.0.1:1", "zookeeper.connection.timeout.ms": "500"}, "127.0.0.1:1"),
        ({"zookeeper.connect": "h1:1/c,h2:1/c"}, "zookeeper.connect"),
        ({"listeners": "PLAINTEXT://192.0.2.1:9092"}, "192.0.2.1"),
        ({"num.partitions": "none"}, "num.partitions"),
        ({"authorizer.class.name": "org.example.Authorizer"}, "authorizer.class.name"),
    ],
)
def test_what_keeps_a_broker_from_starting_is_said_in_one_sentence(
    make_broker: MakeBroker, properties: Mapping[str, str], said: str
) -> None:
    """The exit code is 1, there is no traceback, and nothing stays behind."""
    broker = make_broker(properties)
    broker.start()
    wait_for(lambda: not broker.alive, "the end")
    assert broker.stop() != 0
    log = (broker.folder / "broker.log").read_text()
    assert said in log.strip().splitlines()[-1]
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("choice", "said", "exit_code"),
    [("0", "this broker runs as pure Python: KAFKA_ZK_NATIVE is 0", 0), ("yes", "must be one of 0, 1, require", 1)],
)
@pytest.mark.embedded
def test_a_broker_says_whether_the_native_module_runs(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch, choice: str, said: str, exit_code: int
) -> None:
    monkeypatch.setenv("KAFKA_ZK_NATIVE", choice)
    broker = make_broker({})
    broker.start()
    log = broker.folder / "broker.log"
    wait_for(lambda: said in log.read_text(), said)
    if exit_code:
        wait_for(lambda: not broker.alive, "the broker ends by itself")
    assert broker.stop() == exit_code
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize("reached", ["", "logs opened", "started"])
def test_a_broker_that_is_stopped_while_it_starts_ends_cleanly(make_broker: MakeBroker, reached: str) -> None:
    """The signal may come at any point of the start; in the first case, it comes before Python itself runs."""
    broker = make_broker({})
    broker.start()
    log = broker.folder / "broker.log"
    wait_for(lambda: not reached or reached in log.read_text(), reached)
    assert broker.stop() in (0, *(() if reached else (-signal.SIGTERM,)))
    assert "Traceback" not in log.read_text()


@pytest.mark.embedded
def test_a_broker_whose_terminal_is_closed_ends_cleanly(make_broker: MakeBroker) -> None:
    """SIGHUP acts like SIGTERM: the broker closes its session at once and flushes the logs."""
    broker = make_broker({})
    serving(broker)
    os.kill(broker.pid, signal.SIGHUP)
    wait_for(lambda: not broker.alive, "the end")
    assert broker.process.exit_code == 0
    assert (broker.log_dir / ".kafka_cleanshutdown").exists()


@pytest.mark.embedded
def test_a_broker_under_nohup_outlives_the_terminal(make_broker: MakeBroker) -> None:
    broker = make_broker({})
    broker.process.command[:0] = ["/usr/bin/env", "nohup"]
    serving(broker)
    os.kill(broker.pid, signal.SIGHUP)
    create_topic(broker.bootstrap, "t", 1, {})
    assert broker.stop() == 0


@pytest.mark.embedded
@pytest.mark.parametrize(("option", "refused"), [((), True), (("--metrics-host", "0.0.0.0"), False)])
def test_metrics_are_served_where_the_listener_is_unless_asked(
    make_broker: MakeBroker, option: tuple[str, ...], refused: bool
) -> None:
    """127.0.0.2 also belongs to this machine, but the broker's configuration does not name it."""
    broker, port = make_broker({}), free_ports(1)[0]
    broker.process.command += ["--metrics-port", str(port), *option]
    serving(broker)
    wait_for(lambda: "metrics are served" in broker.process.output(), "the line in the log")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        assert b"\nkafka_zk_reactor_longturns_total " in answer.read()
    with socket.socket() as elsewhere:
        assert (elsewhere.connect_ex(("127.0.0.2", port)) == errno.ECONNREFUSED) is refused
