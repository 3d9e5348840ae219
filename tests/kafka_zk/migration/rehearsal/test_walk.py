"""What a walk takes for reached, with processes that do everything at once, and when one of them fails."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from kafka_zk.clients.connection.errors import KafkaTimeoutError
from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.migration.rehearsal import walk
from kafka_zk.migration.rehearsal.controller_log import ControllerLog
from kafka_zk.migration.rehearsal.copied_tree import CopiedTree
from kafka_zk.migration.rehearsal.report import Step
from kafka_zk.migration.rehearsal.stand_in import State
from kafka_zk.registry.client.errors import SessionLost


class Controller:
    node_id = 3000

    def __init__(self, site: "Site") -> None:
        self.log = ControllerLog()
        self._site = site

    def start(self, zookeeper: str | None) -> None:
        self.log.is_waiting = self.log.is_dual_write = True
        self.log.copied_records, self.log.is_finalized = 7, zookeeper is None
        self._site.beat(self._site.broker_ids)

    def stop(self) -> None: ...

    def read_log(self) -> ControllerLog:
        return self.log


class Site:
    """``silent``: brokers that send no heartbeat to a controller that starts. ``errors``: what a method raises."""

    broker_ids = (1, 2)
    connect_string = "zk"
    orders: Mapping[str, int] = {}

    def __init__(self, silent: Iterable[int] = (), errors: Mapping[str, Exception] | None = None) -> None:
        self._silent, self._errors = set(silent), errors or {}
        self._heartbeats = Counter(dict.fromkeys(self.broker_ids, 5))
        self._topics: set[str] = set()
        self.controller = Controller(self)

    def beat(self, broker_ids: Iterable[int]) -> None:
        self._heartbeats.update(set(broker_ids) - self._silent)

    def heartbeats(self) -> dict[int, int]:
        return dict(self._heartbeats)

    def until(self, is_reached: Callable[[ControllerLog], bool], limit_s: float, what: str) -> str:
        return "" if is_reached(self.controller.log) else f"waited for {what}"

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

    def losses(self, expected: Mapping[str, Any]) -> tuple[str, ...]:
        if "losses" in self._errors:
            raise self._errors["losses"]
        return ()

    def are_all(self, state: State, broker_ids: Iterable[int]) -> bool:
        return True

    def refusals(self) -> tuple[str, ...]:
        return ()

    def register(self, broker_ids: Iterable[int]) -> None: ...

    def deregister(self, broker_id: int) -> None: ...

    def stop_broker(self, broker_id: int) -> None: ...

    def start_brokers(self, broker_ids: Iterable[int], *, is_migrating: bool) -> None: ...


def steps(site: Any) -> list[Step]:
    tree = CopiedTree("id", {}, frozenset({1, 2}), frozenset({1, 2}), None)
    return walk._Walk(site, tree, frozenset()).steps(None)


def test_the_way_forward() -> None:
    assert [(step.phase, step.result) for step in steps(Site())] == [
        ("waiting", "ok"), ("copying", "ok"), ("dual write", "ok"), ("brokers moved", "ok"), ("finalised", "ok"),
    ]  # fmt: skip


def test_brokers_that_were_active_before_the_restart_are_not_enough() -> None:
    last = steps(Site(silent={2}))[-1]
    assert (last.phase, last.result) == ("finalised", "not reached")
    assert last.problems == ("waited for heartbeats that the restarted controller confirms",)


@pytest.mark.parametrize("error", [KafkaTimeoutError("no result after 30 s"), ProcessFailed("ZooKeeper ended")])
def test_an_error_ends_the_run_with_a_step(error: Exception) -> None:
    done = steps(Site(errors={"create_topic": error}))
    assert [(step.phase, step.result) for step in done][-2:] == [("copying", "ok"), ("dual write", "not reached")]
    assert done[-1].problems == (str(error),)


def test_an_error_while_the_znodes_are_compared_ends_the_run_with_a_step() -> None:
    (only,) = steps(Site(errors={"losses": SessionLost("it is lost")}))
    assert (only.result, only.problems) == ("not reached", ("it is lost",))
