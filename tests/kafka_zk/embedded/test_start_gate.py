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
