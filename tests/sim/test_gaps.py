"""How long a producer with acks=all waits while a broker stops cleanly, restarts or dies.

This is the longest time between two acknowledgements. Other partitions are idle, so that followers' fetches wait.

Computing takes no time in the simulated world, so only waiting counts. tests/bench/compare measures the same on real
brokers.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.producer.producer import Producer
from kafka_zk.sim.world.clients import make_admin
from kafka_zk.sim.world.world import SESSION_TIMEOUT_MS, SimBroker, World
from tests.bench.compare.load import Gaps

BROKERS = 3
TOPIC, PARTITIONS = "t", 3
EVERY_S = 0.02
MOST_GAP_S = 0.3
SLOW_DISK_S = (0.5, 0.6)
PROPERTIES = {
    "auto.leader.rebalance.enable": "false",
    "log.cleaner.enable": "false",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "1",
}

pytestmark = pytest.mark.integration


class Cluster:
    """Three brokers, and a topic of which each broker leads one partition and follows the others."""

    def __init__(self, world: World) -> None:
        self.world = world
        for broker_id in range(BROKERS):
            world.broker(broker_id, **{key.replace(".", "_"): value for key, value in PROPERTIES.items()})
        world.start_all()
        world.run(make_admin(world, world.process("admin")).create_topic(TOPIC, PARTITIONS, BROKERS, {}))
        self.until_in_sync()
        self._process = world.process("producer")
        self._producer = Producer(
            self._process,
            connect=world.connect_from(self._process),
            clock=self._process,
            bootstrap_servers=world.bootstrap,
            retry_backoff_ms=20,
            retry_backoff_max_ms=50,
            reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=100,
        )

    @property
    def _now_s(self) -> float:
        return self.world.now_ms / 1000

    def write_to_what_is_led_by(self, leader: SimBroker) -> None:
        """Write to the partition that this broker leads, from now on."""
        self._partition = next(tp.partition for tp in _tps() if _leads(leader, tp))
        self._gaps = Gaps([self._partition], self._now_s)
        self._send()
        self.world.run_for(1_000)
        self.gap_s()

    def _send(self) -> None:
        def acknowledged(_: object) -> None:
            self._gaps.acknowledged(self._partition, self._now_s)

        self._producer.send(TOPIC, b"x", partition=self._partition).addCallbacks(acknowledged, self.world.failed)
        self._process.callLater(EVERY_S, self._send)

    def gap_s(self) -> float:
        """The longest gap since the last call, in seconds."""
        return self._gaps.taken(self._now_s)

    def broker(self, *, is_controller: bool) -> SimBroker:
        return next(
            each for each in self.world.brokers.values() if _services(each).controller.is_active is is_controller
        )

    def until_in_sync(self) -> None:
        self.world.until(lambda: all(any(_leads_all(broker, tp) for broker in self._running) for tp in _tps()))

    @property
    def _running(self) -> list[SimBroker]:
        return [broker for broker in self.world.brokers.values() if broker.is_started]


def _tps() -> list[TopicPartition]:
    return [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]


def _services(broker: SimBroker) -> Any:
    assert broker.broker is not None
    return broker.broker.services


def _leads(broker: SimBroker, tp: TopicPartition) -> bool:
    partition = _services(broker).replicas.partitions.get(tp)
    return partition is not None and bool(partition.is_leader)


def _leads_all(broker: SimBroker, tp: TopicPartition) -> bool:
    return _leads(broker, tp) and len(_services(broker).replicas.partitions[tp].isr) == BROKERS


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with World(seed=22) as world:
        yield Cluster(world)
        assert not world.failures


@pytest.mark.parametrize("is_controller", [False, True])
def test_nobody_waits_for_a_broker_that_stops_cleanly(cluster: Cluster, is_controller: bool) -> None:
    """Producers do not wait, however long the broker takes to close its logs; it stays registered until then."""
    stopping = cluster.broker(is_controller=is_controller)
    cluster.write_to_what_is_led_by(stopping)
    begun_ms = cluster.world.now_ms
    assert stopping.process is not None
    stopping.process.thread_s = SLOW_DISK_S
    cluster.world.run(stopping.stop())
    assert cluster.world.now_ms - begun_ms > SLOW_DISK_S[0] * 1000
    cluster.world.run_for(500)
    assert cluster.gap_s() < MOST_GAP_S


def test_a_rolling_restart_leaves_no_gap(cluster: Cluster) -> None:
    cluster.write_to_what_is_led_by(cluster.world.brokers[0])
    for broker in cluster.world.brokers.values():
        cluster.world.run(broker.stop())
        broker.start()
        cluster.world.until(partial(getattr, broker, "is_started"))
        cluster.until_in_sync()
    assert cluster.gap_s() < MOST_GAP_S


@pytest.mark.parametrize("is_controller", [False, True])
def test_after_a_death_it_goes_on_soon_after_the_sessions_end(cluster: Cluster, is_controller: bool) -> None:
    victim = cluster.broker(is_controller=is_controller)
    cluster.write_to_what_is_led_by(victim)
    victim.kill()
    cluster.world.run_for(SESSION_TIMEOUT_MS + 1_000)
    assert cluster.gap_s() < SESSION_TIMEOUT_MS / 1000 + MOST_GAP_S
    victim.start()
    cluster.world.until(lambda: victim.is_started)
    cluster.until_in_sync()
    assert cluster.gap_s() < MOST_GAP_S
