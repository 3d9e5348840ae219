"""The handle of a fault whose brokers may end, restart or not respond. No process is started here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from kafka_zk.embedded import faults
from kafka_zk.embedded.fault_client import BrokerGone, FaultRefused
from kafka_zk.embedded.faults import ClusterFaults, NeverFired
from tests.kafka_zk.testing.runs import run_pytest


class FakeBroker:
    """A broker's process and its API for faults. ``open``: how often each fault has fired, by number."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id, self.pid, self.alive, self.is_paused = broker_id, 100 + broker_id, True, False
        self.open: dict[int, int] = {}
        self.begun_count = 0
        self.is_refusing = False

    def restart(self) -> None:
        self.pid, self.alive = self.pid + 10, True
        self.open.clear()
        self.begun_count = 0

    def stop(self, timeout_s: float) -> None:
        self.alive = False

    def begin(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.is_refusing or self.is_paused:
            raise FaultRefused("refused, or after 30 s")
        self.begun_count += 1
        self.open[self.begun_count] = 0
        return {"id": self.begun_count, "fired": 0}

    def told(self, number: int) -> dict[str, Any]:
        assert not self.is_paused, "the call would wait 30 s"
        if not self.alive:
            raise BrokerGone("connection refused")
        if self.is_refusing or number not in self.open:
            raise FaultRefused(f"there is no GET /faults/{number}")
        return {"id": number, "fired": self.open[number]}

    def end_fault(self, number: int) -> dict[str, Any]:
        told = self.told(number)
        del self.open[number]
        return told


class FakeClient:
    def __init__(self, broker: FakeBroker) -> None:
        self.begin, self.fault, self.end = broker.begin, broker.told, broker.end_fault


class FakeCluster:
    def __init__(self) -> None:
        self.brokers = [FakeBroker(0), FakeBroker(1)]
        self.restarted: list[int] = []

    def restart_broker(self, broker_id: int) -> None:
        self.restarted.append(broker_id)
        self.brokers[broker_id].restart()

    def wait_ready(self) -> None:
        pass


class FromBroker:
    """Methods of FaultClient, called as functions."""

    @staticmethod
    def fault(client: FakeClient, number: int) -> dict[str, Any]:
        return client.fault(number)

    @staticmethod
    def end(client: FakeClient, number: int) -> dict[str, Any]:
        return client.end(number)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    monkeypatch.setattr(faults, "client_of", FakeClient)
    monkeypatch.setattr(faults, "FaultClient", FromBroker)
    yield FakeCluster()
    faults._open.clear()


def faults_of(cluster: FakeCluster) -> ClusterFaults:
    return ClusterFaults(cast(Any, cluster))


def test_a_broker_that_was_restarted_keeps_what_another_fault_began_there(cluster: FakeCluster) -> None:
    with faults_of(cluster).throttle(100) as fault:
        cluster.brokers[1].open[1] = 2
        cluster.brokers[0].restart()
        cluster.brokers[0].begin({})
        assert fault.fired == 2
    assert list(cluster.brokers[0].open) == [1], "the new process's first fault is another one"
    assert not cluster.brokers[1].open


def test_a_fault_whose_count_was_lost_with_its_broker_may_have_fired(cluster: FakeCluster) -> None:
    with faults_of(cluster).throttle(100):
        cluster.brokers[0].alive = False
    with pytest.raises(NeverFired), faults_of(cluster).throttle(100):
        pass  # at the broker that still runs
    assert not faults._open


def test_what_fails_at_one_broker_ends_at_the_others(cluster: FakeCluster) -> None:
    first, second = faults_of(cluster).throttle(100), faults_of(cluster).throttle(100)
    cluster.brokers[1].is_refusing = True
    with pytest.raises(FaultRefused):
        faults.end_all(check=False)
    assert not cluster.brokers[0].open
    cluster.brokers[1].is_refusing = False
    for handle in (first, second):
        handle.end()


def test_a_fault_that_one_broker_refuses_begins_at_none(cluster: FakeCluster) -> None:
    cluster.brokers[1].is_refusing = True
    with pytest.raises(FaultRefused):
        faults_of(cluster).throttle(100)
    assert not cluster.brokers[0].open and not faults._open


def test_no_fault_waits_for_a_paused_broker(cluster: FakeCluster) -> None:
    """A fault for all brokers is refused before it begins at any; a fault for one broker begins at another one."""
    cluster.brokers[1].is_paused = True
    with pytest.raises(FaultRefused, match="no fault can begin at broker 1, which is paused: resume it first"):
        faults_of(cluster).throttle(100)
    assert cluster.brokers[0].begun_count == 0
    moves = faults_of(cluster).leader_moves("t")
    assert list(cluster.brokers[0].open) == [1]
    cluster.brokers[0].is_paused = True
    with pytest.raises(FaultRefused, match="broker 0, which is paused"):
        faults_of(cluster).leader_moves("t")
    moves.end()


def test_the_end_of_a_fault_neither_waits_for_a_paused_broker_nor_restarts_it(cluster: FakeCluster) -> None:
    with faults_of(cluster).disk_full(0):
        cluster.brokers[0].is_paused = True
    assert cluster.restarted == [] and cluster.brokers[0].alive


def test_a_broker_with_a_full_disk_is_restarted_once(cluster: FakeCluster) -> None:
    with faults_of(cluster).disk_full(0):
        cluster.brokers[0].alive = False
    with faults_of(cluster).disk_full(1):
        cluster.brokers[1].restart()
    assert cluster.restarted == [0]


def test_a_fault_does_not_outlive_its_cluster(cluster: FakeCluster) -> None:
    """Otherwise, the end of the test would restart a broker without ZooKeeper."""
    full = faults_of(cluster).disk_full(0)
    fired, silent = faults_of(cluster).throttle(100), faults_of(cluster).throttle(200)
    others = FakeCluster()
    other = faults_of(others).throttle(100)
    cluster.brokers[1].open[1] = 2
    faults.end_with(cast(Any, cluster), is_responding=True)
    for broker in cluster.brokers:
        broker.alive = False
    for handle in (full, fired, silent, other):
        handle.end()
    assert cluster.restarted == [] and not others.brokers[0].open
    assert fired.fired == 2
    with pytest.raises(NeverFired):
        silent.check_fired()


def test_a_fault_may_have_fired_before_its_cluster_was_killed(cluster: FakeCluster) -> None:
    fault = faults_of(cluster).throttle(100)
    faults.end_with(cast(Any, cluster), is_responding=False)
    fault.end()
    fault.check_fired()


def test_a_fault_of_a_fixture_ends_although_its_test_did_not_run(tmp_path: Path) -> None:
    """Otherwise, the next test would have the fault, and fail because it never fired."""
    (tmp_path / "test_two.py").write_text(
        "import pytest\n"
        "from kafka_zk.embedded import faults\n"
        "class Fault:\n"
        "    def end(self): faults._open.remove(self)\n"
        "    def check_fired(self): raise faults.NeverFired('never')\n"
        "@pytest.fixture\n"
        "def fault(): faults._open.append(Fault())\n"
        "@pytest.fixture\n"
        "def broken(fault): raise OSError\n"
        "def test_1(broken): pass\n"
        "def test_2(): assert not faults._open\n"
    )
    assert "1 passed, 1 error" in run_pytest(tmp_path)
