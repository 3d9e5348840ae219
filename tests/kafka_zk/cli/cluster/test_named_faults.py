"""The output of ``kafka-zk break faults`` and ``end-faults`` about brokers that do not respond."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kafka_zk.cli.cluster import named_faults
from kafka_zk.cli.cluster.running_cluster import RunningCluster
from kafka_zk.embedded.fault_client import FaultRefused
from kafka_zk.embedded.fault_token import FAULTS_FILE
from kafka_zk.embedded.ports import free_ports


@pytest.mark.parametrize("command", [named_faults.faults, named_faults.end_faults])
def test_a_broker_that_does_not_respond_is_named(
    command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broker-0").mkdir()
    address = {"port": free_ports(1)[0], "token": "0123456789abcdef"}
    (tmp_path / "broker-0" / FAULTS_FILE).write_text(json.dumps(address))
    cluster = RunningCluster(tmp_path / "socket", {"data": str(tmp_path), "brokers": [{"id": 0}]})
    monkeypatch.setattr(named_faults, "find_cluster", lambda data, zookeeper: cluster)
    done = CliRunner().invoke(command, [])
    assert done.exit_code == 0
    assert "broker 0 does not respond" in " ".join(done.stderr.split())


class Brokers:
    """Two brokers whose APIs are simulated by ``clients``; ``ended``: the faults that were ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *states: str) -> None:
        self.fired, self.refusal = 0, ""
        self.begun: list[int] = []
        self.ended: list[int] = []
        brokers = [{"id": number, "state": state} for number, state in enumerate(states)]
        cluster = RunningCluster(tmp_path / "socket", {"data": str(tmp_path), "brokers": brokers})
        monkeypatch.setattr(named_faults, "find_cluster", lambda data, zookeeper: cluster)
        clients = {number: Client(self, number) for number in range(len(states))}
        monkeypatch.setattr(named_faults, "_clients", lambda cluster: clients)


class Client:
    def __init__(self, brokers: Brokers, number: int) -> None:
        self._brokers, self._number = brokers, number

    def begin(self, request: dict[str, object]) -> dict[str, object]:
        if self._brokers.refusal and self._number == 1:
            raise FaultRefused(self._brokers.refusal)
        self._brokers.begun.append(self._number)
        return {"id": self._number + 1, "fired": self._brokers.fired, **request}

    def end(self, number: int) -> None:
        self._brokers.ended.append(number)


THROTTLE, MOVE = ["throttle", "ms=1"], ["leader_moves", "topic=t", "partition=0"]


@pytest.mark.parametrize(("fired", "said"), [(0, "0 times"), (1, "1 time\n"), (2, "2 times")])
def test_it_says_how_often_a_fault_has_fired(
    fired: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Brokers(monkeypatch, tmp_path, "running").fired = fired
    assert f"has fired {said}" in CliRunner().invoke(named_faults.fault, THROTTLE).output


def test_a_fault_that_one_broker_refuses_begins_at_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(monkeypatch, tmp_path, "running", "running")
    brokers.refusal = "100 faults are open"
    done = CliRunner().invoke(named_faults.fault, THROTTLE)
    assert isinstance(done.exception, FaultRefused)
    assert (brokers.begun, brokers.ended) == ([0], [1])


@pytest.mark.parametrize(("states", "begun"), [(("paused", "running"), [1]), (("running", "paused"), [0])])
def test_a_fault_waits_for_no_paused_broker(
    states: tuple[str, str], begun: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Brokers(monkeypatch, tmp_path, *states)
    done = CliRunner().invoke(named_faults.fault, THROTTLE)
    assert done.exit_code != 0 and f"broker {states.index('paused')} is paused: kafka-zk break resume" in done.output
    assert not brokers.begun
    assert CliRunner().invoke(named_faults.fault, MOVE).exit_code == 0
    assert brokers.begun == begun, "one broker carries out the fault"


def test_only_a_function_can_intercept(tmp_path: Path) -> None:
    done = CliRunner().invoke(named_faults.fault, ["intercept", "port=1"])
    assert done.exit_code == 2 and "'intercept' is not one of" in done.output
