"""Child processes load their modules and wait until their parent is ready."""

import os
import sys
from pathlib import Path

import pytest

from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.embedded.process import ChildProcess
from kafka_zk.embedded.start_gate import StartGate
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper

CHILD = """
import os
from kafka_zk.embedded import start_gate
print("held", start_gate.is_held(), flush=True)
start_gate.wait()
print("open", start_gate.VARIABLE in os.environ, flush=True)
"""


@pytest.fixture
def child(tmp_path: Path) -> ChildProcess:
    return ChildProcess("child", [sys.executable, "-c", CHILD], tmp_path / "log")


def test_a_child_goes_on_when_the_gate_is_opened(child: ChildProcess) -> None:
    gate = StartGate()
    child.start(gate)
    child.wait_until(lambda: "held True" in child.output(), 30, "load")
    assert child.alive
    gate.open()
    assert child._process is not None and child._process.wait(30) == 0
    assert child.output() == "held True\nopen False\n"


def test_a_child_ends_if_the_gate_stays_shut(child: ChildProcess) -> None:
    gate = StartGate()
    child.start(gate)
    gate.abandon()
    assert child._process is not None and child._process.wait(30) == 1
    assert "has ended" in child.output()


def test_without_a_gate_nothing_waits(child: ChildProcess) -> None:
    child.start()
    assert child._process is not None and child._process.wait(30) == 0
    assert child.output() == "held False\nopen False\n"


def test_a_gate_leaves_no_descriptor(child: ChildProcess) -> None:
    before = set(os.listdir("/proc/self/fd"))
    gate = StartGate()
    child.start(gate)
    gate.open()
    child.stop()
    assert set(os.listdir("/proc/self/fd")) == before


def broker_that_runs(code: str, folder: Path) -> BrokerProcess:
    broker = BrokerProcess(folder, 0, 9092, "127.0.0.1:2181", {})
    broker.process.command = [sys.executable, "-c", code]
    return broker


def test_a_gate_whose_child_cannot_be_started_leaves_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    broker = broker_that_runs(CHILD, tmp_path / "file" / "broker")
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(NotADirectoryError):
        broker.load()
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_broker_that_is_stopped_at_its_gate_leaves_no_descriptor_and_starts_again(tmp_path: Path) -> None:
    broker = broker_that_runs(CHILD, tmp_path)
    before = set(os.listdir("/proc/self/fd"))
    broker.load()
    broker.stop()
    assert set(os.listdir("/proc/self/fd")) == before
    broker.start()
    assert broker.process._process is not None and broker.process._process.wait(30) == 0
    assert "held False" in broker.process.output()


def test_a_broker_that_has_ended_at_its_gate_does_not_start(tmp_path: Path) -> None:
    broker = broker_that_runs("print('Error: no such module'); raise SystemExit(70)", tmp_path)
    broker.load()
    assert broker.process._process is not None and broker.process._process.wait(30) == 70
    with pytest.raises(ProcessFailed, match=r"broker 0 ended with exit code 70, saying: Error: no such module"):
        broker.start()


def test_a_cluster_is_not_ready_if_its_broker_ends_at_once(tmp_path: Path) -> None:
    """A wrong key has this effect: the modules are loaded already, so the broker may end before the parent waits for
    it.
    """
    broker = broker_that_runs(
        "from kafka_zk.embedded import start_gate; start_gate.wait(); raise SystemExit(70)", tmp_path
    )
    cluster = EmbeddedCluster(tmp_path, broker_count=1, zookeeper="127.0.0.1:1")
    cluster._loading = [broker]
    broker.load()
    cluster.start_brokers()
    assert broker.process._process is not None and broker.process._process.wait(30) == 70
    with pytest.raises(ProcessFailed, match="broker 0 ended with exit code 70"):
        cluster.wait_ready()


@pytest.mark.integration
def test_brokers_load_while_zookeeper_starts(tmp_path: Path) -> None:
    cluster = EmbeddedCluster(tmp_path, broker_count=2, force_sync=False)
    cluster.start_zookeeper()
    try:
        loading = [broker.pid for broker in cluster._loading]
        assert len(loading) == 2
        assert not (tmp_path / "broker-0" / "server.properties").exists()
        cluster.start_brokers()
        assert [broker.pid for broker in cluster.brokers] == loading
        cluster.wait_ready()
    finally:
        cluster.stop()


@pytest.mark.integration
def test_no_broker_remains_of_a_zookeeper_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    load = BrokerProcess.load

    def and_remember(broker: BrokerProcess) -> None:
        load(broker)
        started.append(broker)

    monkeypatch.setattr(BrokerProcess, "load", and_remember)
    zookeeper = EmbeddedZooKeeper(tmp_path / "zookeeper", config={"tickTime": "no"})
    with pytest.raises(ProcessFailed, match="ZooKeeper ended"):
        EmbeddedCluster(tmp_path, broker_count=1, zookeeper=zookeeper).start()
    assert [broker.alive for broker in started] == [False]
