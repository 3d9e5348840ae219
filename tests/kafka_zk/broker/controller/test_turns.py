"""No turn of the reactor grows with the number of topics that a controller creates, deletes or takes over.

Its broker serves no client during a turn. The test measures a turn by the number of calls of our functions, which is
the same in every run; a call takes about a microsecond.
"""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.znodes.controller import CONTROLLER
from kafka_zk.sim.machine.scheduler import VirtualClock
from kafka_zk.sim.zookeeper.server import Link
from tests.kafka_zk.broker.controller.world import Cluster, Connection, led_by

pytestmark = pytest.mark.slow

PARTITIONS = 2100
MOST_CALLS = 40_000
OTHERS = ("/tests/", "/twisted/", "/json/", "/random.py")


class Turns:
    """Counts the calls in each turn, except those of brokers and ZooKeeper."""

    def __init__(self) -> None:
        self.longest = 0
        self._calls = 0
        self._ours: dict[Any, bool] = {}  # code object -> whether it is counted

    def turn(self, function: Callable[..., object], args: tuple[object, ...]) -> None:
        """The same contract as ``VirtualClock.run_call``."""
        if getattr(function, "__func__", None) in (Link._arrive, Connection._arrive):
            function(*args)
            return
        self._calls = 0
        sys.setprofile(self._called)
        try:
            function(*args)
        finally:
            sys.setprofile(None)
        self.longest = max(self.longest, self._calls)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            code = frame.f_code
            ours = self._ours.get(code)
            if ours is None:
                ours = self._ours[code] = not any(other in code.co_filename for other in OTHERS)
            self._calls += ours


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[Turns]:
    turns = Turns()
    monkeypatch.setattr(VirtualClock, "run_call", staticmethod(turns.turn))
    yield turns
    assert 1000 < turns.longest < MOST_CALLS


def assignment(count: int) -> dict[int, list[int]]:
    return {number: [number % 3, (number + 1) % 3] for number in range(count)}


def test_a_large_topic_is_made_in_turns(cluster: Cluster, turns: Turns) -> None:
    cluster.create("t", assignment(PARTITIONS))
    cluster.settle(5000)
    assert len(led_by(cluster, "t")) == PARTITIONS
    assert all(len(broker.metadata.topics["t"]) == PARTITIONS for broker in cluster.brokers)


def test_many_topics_are_made_in_turns(cluster: Cluster, turns: Turns) -> None:
    for number in range(PARTITIONS // 10):
        cluster.scheduler.start(cluster.topics.create_topic(f"t{number}", assignment(10), None, {}))
    cluster.settle(5000)
    assert all(len(broker.metadata.topics) == PARTITIONS // 10 for broker in cluster.brokers)


def test_a_large_topic_is_deleted_in_turns(cluster: Cluster, turns: Turns) -> None:
    cluster.create("t", assignment(PARTITIONS))
    cluster.settle(5000)
    cluster.delete("t")
    cluster.settle(5000)
    assert all(not broker.replicas and not broker.metadata.topics for broker in cluster.brokers)
    assert not cluster.paths("/brokers/topics/t") and not cluster.paths("/admin/delete_topics/t")


def test_a_deletion_that_a_broker_refuses_is_handled_in_turns(cluster: Cluster, turns: Turns) -> None:
    cluster.create("t", assignment(PARTITIONS))
    cluster.settle(5000)
    refused = [TopicPartition("t", number) for number in range(PARTITIONS)]
    cluster.brokers[1].refusals = dict.fromkeys(refused, ErrorCode.KAFKA_STORAGE_ERROR)
    cluster.delete("t")
    cluster.settle(5000)
    assert cluster.brokers[1].replicas and not cluster.brokers[0].replicas


def test_orders_to_delete_what_is_not_there_are_removed_in_turns(cluster: Cluster, turns: Turns) -> None:
    for number in range(PARTITIONS):
        cluster.scheduler.start(cluster.topics.request_deletion(f"unknown{number}"))
    cluster.settle(5000)
    assert cluster.paths("/admin/delete_topics") == ["/admin/delete_topics"]


def test_a_failover_takes_a_large_cluster_over_in_turns(cluster: Cluster, turns: Turns) -> None:
    cluster.create("large", assignment(PARTITIONS))
    for number in range(PARTITIONS // 10):
        cluster.scheduler.start(cluster.topics.create_topic(f"t{number}", assignment(1), None, {}))
    cluster.settle(5000)
    cluster.scheduler.run(cluster.tool.delete(CONTROLLER))
    cluster.settle(5000)
    assert cluster.controller.is_active and len(led_by(cluster, "large")) == PARTITIONS


def test_a_broker_that_fails_and_comes_back_costs_no_long_turn(cluster: Cluster, turns: Turns) -> None:
    cluster.create("t", assignment(PARTITIONS))
    cluster.settle(5000)
    cluster.kill(1)
    cluster.settle(30_000)
    assert set(led_by(cluster, "t").values()) == {0, 2}
    cluster.restart(1)
    cluster.settle(5000)
    assert len(cluster.brokers[1].replicas) == PARTITIONS * 2 // 3
