"""The producers that ``kafka-zk up`` runs."""

from pathlib import Path

import pytest

from kafka_zk.cli.cluster import workload
from kafka_zk.cli.cluster.workload import MOST_PRODUCERS, Workload
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.control_socket import ActionRefused


class _Process:
    def __init__(self, *_: object) -> None:
        self.alive = False
        self.pid = 1
        self.exit_code: int | None = None

    def start(self) -> None:
        self.alive = True

    def stop(self) -> None:
        self.alive, self.exit_code = False, 0

    def terminate(self) -> None:
        """The producer continues for some time."""

    def describe_end(self) -> str:
        return "it ended"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[_Process]:
    found: list[_Process] = []

    def process(*_: object) -> _Process:
        found.append(_Process())
        return found[-1]

    monkeypatch.setattr(workload, "ChildProcess", process)
    monkeypatch.setattr(Workload, "_make_topic", lambda self, topic: None)
    return found


def _produce(asked: Workload, topic: str, rate: int = 5) -> None:
    asked.actions["produce"]({"action": "produce", "topic": topic, "rate": rate})


def test_a_producer_that_ended_by_itself_makes_room(started: list[_Process], tmp_path: Path) -> None:
    asked = Workload(EmbeddedCluster(tmp_path, zookeeper="127.0.0.1:1"))
    for number in range(MOST_PRODUCERS):
        _produce(asked, f"t{number}")
    with pytest.raises(ActionRefused, match="already running"):
        _produce(asked, "another")
    started[0].alive = False
    _produce(asked, "another")
    assert started[-1].alive


def test_a_producer_goes_on_if_its_new_rate_is_refused(
    started: list[_Process], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Workload, topic: str) -> None:
        raise ActionRefused(f"no broker runs for {topic}")

    asked = Workload(EmbeddedCluster(tmp_path, zookeeper="127.0.0.1:1"))
    _produce(asked, "t")
    monkeypatch.setattr(Workload, "_make_topic", refuse)
    with pytest.raises(ActionRefused):
        _produce(asked, "t", 10)
    assert started[0].alive
    assert [each["rate"] for each in asked.description()["producers"]] == [5]
    _produce(asked, "t", 0)
    assert not started[0].alive


def test_a_member_that_leaves_is_waited_for_at_the_end(started: list[_Process], tmp_path: Path) -> None:
    asked = Workload(EmbeddedCluster(tmp_path, zookeeper="127.0.0.1:1"))
    asked.actions["join"]({"action": "join", "group": "board", "topic": "t", "name": "anna"})
    asked.actions["leave"]({"action": "leave", "member": "board/anna"})
    assert started[0].alive and not asked.description()["members"]
    asked.stop()
    assert not started[0].alive
