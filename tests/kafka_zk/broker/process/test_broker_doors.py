"""The interfaces of a broker to its environment: an observer of all events, and the machine's time and randomness.

Real sockets and logs, ZooKeeper in memory.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_zk.base.clock import SystemClock
from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.controller.events import ControllerElected, LeadersElected
from kafka_zk.broker.process import client_report
from kafka_zk.broker.process.broker import Broker
from kafka_zk.broker.process.events import ClientsSeen
from kafka_zk.broker.process.machine import Machine
from kafka_zk.broker.replica.events import RoleChanged
from kafka_zk.broker.replica.partition import Role
from kafka_zk.recorder.timeline.event_codec import decode, encode
from kafka_zk.registry.client.events import SessionChanged, WatchFired
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.sim.zookeeper.zookeeper import SimZooKeeper
from tests.kafka_zk.network.harness import LocalReactor

YEAR_2033_MS = 2_000_000_000_000


class FutureClock(SystemClock):
    """The reactor's timers, with a time of day far in the future."""

    def __init__(self, reactor: LocalReactor) -> None:
        super().__init__(reactor)
        self.wall_ms = lambda: YEAR_2033_MS
        self.wall_ns = lambda: YEAR_2033_MS * 1_000_000


class Observed:
    """A broker that leads its cluster and has one topic, and all events that it emitted."""

    def __init__(self, reactor: LocalReactor, folder: Path) -> None:
        self.events: list[Event] = []
        self.epochs_when_bound: list[int] = []
        zookeeper = SimZooKeeper(reactor, delay_ms=(0.0, 0.1))  # type: ignore[arg-type]
        self.client = zookeeper.client("broker")
        keys = {"zookeeper.connect": "in-memory:1", "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(folder)}
        config, _ = KafkaConfig.from_properties(keys)
        broker = Broker(
            replace(Machine.of(reactor), clock=FutureClock(reactor), random=random.Random(7)),
            config,
            self.client,
            pytest.fail,
            observe=self.observe,
            on_bound=lambda parts: self.epochs_when_bound.append(parts.services.broker_epoch()),
        )
        reactor.result_of(broker.start())
        reactor.until(lambda: broker.parts.controller.is_active)
        topics = TopicRegistry(zookeeper.client("tool"))
        reactor.result_of(topics.create_topic("t", {0: [broker.broker_id]}, None, {}))
        reactor.until(lambda: TopicPartition("t", 0) in broker.services.replicas.partitions)
        self.topic_id = reactor.result_of(topics.assignments(["t"]))["t"].topic_id
        self.cluster_id = broker.services.cluster_id
        self._reactor, self._broker = reactor, broker

    def stop(self) -> None:
        self._reactor.result_of(self._broker.stop())
        self._reactor.close()

    def set_quota(self) -> None:
        quotas = self._broker.services.client_quotas
        quotas.quotas.set("users", "alice", {"producer_byte_rate": "1"})
        quotas.changed()

    def wait_for(self, kind: type[Event]) -> Event:
        self._reactor.until(lambda: any(isinstance(event, kind) for event in self.events))
        return self.only(kind)

    def observe(self, event: Event) -> None:
        self.events.append(event)
        raise OSError("the observer's disk is full")

    def only(self, kind: type[Event]) -> Event:
        [event] = [event for event in self.events if isinstance(event, kind)]
        return event


@pytest.fixture
def observed(tmp_path: Path) -> Iterator[Observed]:
    made = Observed(LocalReactor(), tmp_path)
    yield made
    made.stop()


def test_an_observer_hears_of_the_controller_the_replicas_and_the_registry(observed: Observed) -> None:
    """An observer that raises an exception does not affect the broker."""
    tp = TopicPartition("t", 0)
    elected = observed.only(LeadersElected)
    assert isinstance(elected, LeadersElected) and [named for named, _ in elected.leadership] == [tp]
    changed = observed.only(RoleChanged)
    assert isinstance(changed, RoleChanged)
    assert (changed.partition, changed.role, changed.refusal) == (tp, Role.LEADER, None)
    assert {event.actor for event in observed.events} == {"broker-1001", "controller-1001"}
    assert observed.only(ControllerElected) and any(isinstance(event, WatchFired) for event in observed.events)


def test_what_opens_with_the_listeners_is_there_before_the_broker_is_known(observed: Observed) -> None:
    """A broker without an epoch is not registered."""
    assert observed.epochs_when_bound == [-1]


def test_an_observer_hears_of_clients_once_there_are_quotas(
    observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without principals, ACLs and quotas there is nothing to report, so the broker does not examine its
    connections."""
    monkeypatch.setattr(client_report, "INTERVAL_MS", 1)
    observed.set_quota()
    seen = observed.wait_for(ClientsSeen)
    assert isinstance(seen, ClientsSeen) and not seen.throttled
    assert {(each.principal, each.listener) for each in seen.clients} == {("User:ANONYMOUS", "PLAINTEXT")}


def test_everything_that_a_broker_tells_can_be_written_down(observed: Observed) -> None:
    """Not every kind of event happens here; tests/kafka_zk/recorder/timeline/test_event_codec.py has them all."""
    observed.client.disconnect()
    assert any(isinstance(event, SessionChanged) for event in observed.events)
    assert [decode(encode(event)) for event in observed.events] == observed.events


def test_time_and_randomness_come_from_where_the_broker_was_told(observed: Observed, tmp_path: Path) -> None:
    assert {event.time_ms for event in observed.events} == {YEAR_2033_MS}
    again = Observed(LocalReactor(), tmp_path / "again")
    assert (again.cluster_id, again.topic_id) == (observed.cluster_id, observed.topic_id)
    again.stop()
