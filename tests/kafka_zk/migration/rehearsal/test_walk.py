"""When a walk counts a phase as reached, with fake processes that do everything at once, and with one that fails."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from kafka_zk.clients.connection.errors import KafkaTimeoutError
from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.migration.mode import Mode
from kafka_zk.migration.phase import Phase
from kafka_zk.migration.rehearsal import walk
from kafka_zk.migration.rehearsal.controller_log import ControllerLog
from kafka_zk.migration.rehearsal.copied_tree import CopiedTree
from kafka_zk.migration.rehearsal.report import Step
from kafka_zk.registry.client.errors import SessionLost

BROKER_IDS = (1, 2)


class Controllers:
    def __init__(self, fleet: "Fleet") -> None:
        self.log = ControllerLog()
        self._fleet = fleet

    def __str__(self) -> str:
        return "controller 3000"

    def start(self, zookeeper: str | None) -> None:
        self.log.is_waiting = self.log.is_dual_write = True
        self.log.copied_records, self.log.is_finalized = 7, zookeeper is None
        self._fleet.beat()

    def stop(self) -> None: ...

    def read_log(self) -> ControllerLog:
        return self.log


class Fleet:
    """``silent``: brokers that send no heartbeat to a controller that starts. ``stuck``: brokers that do not stop.
    ``modes``: the modes in which each broker was started, in order.
    """

    def __init__(self, silent: Iterable[int] = (), *, are_real: bool = False, stuck: Iterable[int] = ()) -> None:
        self.are_real = are_real
        self.modes: dict[int, list[Mode]] = {broker_id: [] for broker_id in BROKER_IDS}
        self._silent, self._stuck = set(silent), set(stuck)
        self._heartbeats = Counter(dict.fromkeys(BROKER_IDS, 5))

    def beat(self) -> None:
        self._heartbeats.update(set(BROKER_IDS) - self._silent)

    def heartbeats(self) -> dict[int, int]:
        return {} if self.are_real else dict(self._heartbeats)

    def start(self, broker_id: int, mode: Mode) -> None:
        self.modes[broker_id].append(mode)

    def has_started(self, broker_id: int) -> bool:
        return True

    def is_active(self, broker_id: int) -> bool:
        return True

    def leave(self, broker_id: int, to: Mode) -> None: ...

    def has_left(self, broker_id: int) -> bool:
        return broker_id not in self._stuck

    def refusals(self) -> tuple[str, ...]:
        return ("broker 1 logs: an error",) if self._stuck else ()


class Site:
    """``errors``: what a method raises."""

    broker_ids = BROKER_IDS
    connect_string = "zk"
    orders: Mapping[str, int] = {}
    client = None

    def __init__(self, fleet: Fleet | None = None, errors: Mapping[str, Exception] | None = None) -> None:
        self._errors = errors or {}
        self._topics: set[str] = set()
        self.fleet = fleet or Fleet()
        self.controllers = Controllers(self.fleet)

    def until(self, is_reached: Callable[[ControllerLog], bool], limit_s: float, what: str) -> str:
        return "" if is_reached(self.controllers.log) else f"waited for {what}"

    def create_topic(self, name: str) -> str:
        if "create_topic" in self._errors:
            raise self._errors["create_topic"]
        self._topics.add(name)
        return ""

    def delete_topic(self, name: str) -> str:
        self._topics.clear()
        return ""

    def exists(self, path: str) -> bool:
        return bool(self._topics)

    def delete(self, path: str) -> None: ...

    def losses(self, expected: Mapping[str, Any]) -> tuple[str, ...]:
        if "losses" in self._errors:
            raise self._errors["losses"]
        return ()


def steps(site: Any, back_from: Phase | None = None) -> list[Step]:
    tree = CopiedTree("id", {}, frozenset({1, 2}), frozenset({1, 2}), None)
    return walk._Walk(site, tree, frozenset()).steps(back_from)


def test_the_way_forward() -> None:
    assert [(step.phase, step.result) for step in steps(Site())] == [
        ("waiting", "ok"), ("copying", "ok"), ("dual write", "ok"), ("brokers moved", "ok"), ("finalised", "ok"),
    ]  # fmt: skip


def test_brokers_that_were_active_before_the_restart_are_not_enough() -> None:
    last = steps(Site(Fleet(silent={2})))[-1]
    assert (last.phase, last.result) == ("finalised", "not reached")
    assert last.problems == ("waited for heartbeats that the restarted controllers confirm",)


@pytest.mark.parametrize("error", [KafkaTimeoutError("no result after 30 s"), ProcessFailed("ZooKeeper ended")])
def test_an_error_ends_the_run_with_a_step(error: Exception) -> None:
    done = steps(Site(errors={"create_topic": error}))
    assert [(step.phase, step.result) for step in done][-2:] == [("copying", "ok"), ("dual write", "not reached")]
    assert done[-1].problems == (str(error),)


def test_an_error_while_the_znodes_are_compared_ends_the_run_with_a_step() -> None:
    (only,) = steps(Site(errors={"losses": SessionLost("it is lost")}))
    assert (only.result, only.problems) == ("not reached", ("it is lost",))


def test_stand_ins_are_restarted_in_each_mode() -> None:
    fleet = Fleet()
    steps(Site(fleet))
    assert fleet.modes[2] == [Mode.ZOOKEEPER, Mode.MIGRATION, Mode.KRAFT]


def test_real_brokers_return_to_zookeeper_and_stand_ins_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "traps", lambda client: [])
    for are_real, last in ((True, [Mode.MIGRATION, Mode.ZOOKEEPER]), (False, [Mode.KRAFT, Mode.MIGRATION])):
        fleet = Fleet(are_real=are_real)
        done = steps(Site(fleet), Phase.BROKERS_MOVED)
        assert [step.result for step in done[-2:]] == ["ok", "ok"] and fleet.modes[1][-2:] == last


def test_a_broker_that_does_not_stop_ends_the_run_with_what_it_logs() -> None:
    done = steps(Site(Fleet(are_real=True, stuck={2})))
    assert (done[-1].phase, done[-1].result) == ("copying", "not reached")
    assert done[-1].problems == ("broker 2 cannot stop: waited for broker 2", "broker 1 logs: an error")
