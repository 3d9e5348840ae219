"""How long a producer with acks=all waits while a broker stops cleanly, comes back or dies: the longest time between two
acknowledgements of a partition.

Computing takes no time in the simulated world, so what is left is who waits for whom. tests/bench/compare measures the
same on real brokers.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_zk.producer.producer import Producer
from kafka_zk.sim import process
from kafka_zk.sim.clients import make_admin
from kafka_zk.sim.world import SESSION_TIMEOUT_MS, SimBroker, World
from kafka_zk.storage.types import TopicPartition
from tests.bench.compare.load import Gaps

BROKERS = 3
PARTITIONS = 3
TOPIC = "written"
EVERY_S = 0.05
MOST_GAP_S = 0.3
SLOW_DISK_S = (0.5, 0.6)
PROPERTIES = {
    "min.insync.replicas": "2",
    "log.cleaner.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.replication.factor": "1",
}

pytestmark = pytest.mark.integration


class Cluster:
    """Three brokers, a topic with all of them as replicas, and a producer that writes to each partition."""

    def __init__(self, world: World) -> None:
        self.world = world
        for broker_id in range(BROKERS):
            world.broker(broker_id, **{key.replace(".", "_"): value for key, value in PROPERTIES.items()})
        world.start_all()
        world.run(make_admin(world, world.process("admin")).create_topic(TOPIC, PARTITIONS, BROKERS, {}))
        self._producing = world.process("producer")
        self._producer = Producer(
            self._producing,
            connect=world.connect_from(self._producing),
            clock=self._producing,
            bootstrap_servers=world.bootstrap,
            retry_backoff_ms=20,
            retry_backoff_max_ms=50,
            reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=100,
        )
        self._gaps = Gaps(range(PARTITIONS), self._now_s)
        self._send()
        world.run_for(2_000)
        self.gap_s()

    @property
    def _now_s(self) -> float:
        return self.world.now_ms / 1000

    def _send(self) -> None:
        for partition in range(PARTITIONS):
            sent = self._producer.send(TOPIC, b"x", partition=partition)
            sent.addCallback(lambda _, partition=partition: self._gaps.acknowledged(partition, self._now_s))
            sent.addErrback(self.world.failed)
        self._producing.callLater(EVERY_S, self._send)

    def gap_s(self) -> float:
        """The longest since this was asked last."""
        return self._gaps.taken(self._now_s)

    def broker(self, *, is_controller: bool) -> SimBroker:
        """One that leads a partition, as all do."""
        return next(each for each in self.world.brokers.values() if _services(each).controller.is_active is is_controller)

    def until_in_sync(self) -> None:
        self.world.until(lambda: all(map(self._is_in_sync, range(PARTITIONS))))

    def _is_in_sync(self, number: int) -> bool:
        return any(
            partition is not None and partition.is_leader and len(partition.isr) == BROKERS
            for each in self.world.brokers.values()
            if each.is_started
            for partition in [_services(each).replicas.partitions.get(TopicPartition(TOPIC, number))]
        )


def _services(broker: SimBroker) -> Any:
    assert broker.broker is not None
    return broker.broker.services


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with World(seed=22) as world:
        yield Cluster(world)
        assert not world.failures


@pytest.mark.parametrize("is_controller", [False, True])
def test_nobody_waits_for_a_broker_that_stops_cleanly(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, is_controller: bool
) -> None:
    """However long it takes to close its logs: it is registered until that is done."""
    with monkeypatch.context() as slow:
        slow.setattr(process, "THREAD_S", SLOW_DISK_S)
        begun_ms = cluster.world.now_ms
        cluster.world.run(cluster.broker(is_controller=is_controller).stop())
        assert cluster.world.now_ms - begun_ms > SLOW_DISK_S[0] * 1000
    cluster.world.run_for(1_000)
    assert cluster.gap_s() < MOST_GAP_S


def test_a_rolling_restart_leaves_no_gap(cluster: Cluster) -> None:
    for broker in cluster.world.brokers.values():
        cluster.world.run(broker.stop())
        broker.start()
        cluster.world.until(lambda broker=broker: broker.is_started)
        cluster.until_in_sync()
        assert cluster.gap_s() < MOST_GAP_S


@pytest.mark.parametrize("is_controller", [False, True])
def test_after_a_death_it_goes_on_soon_after_the_sessions_end(cluster: Cluster, is_controller: bool) -> None:
    victim = cluster.broker(is_controller=is_controller)
    victim.kill()
    cluster.world.run_for(SESSION_TIMEOUT_MS + 1_000)
    assert cluster.gap_s() < SESSION_TIMEOUT_MS / 1000 + MOST_GAP_S
    victim.start()
    cluster.world.until(lambda: victim.is_started)
    cluster.until_in_sync()
    assert cluster.gap_s() < MOST_GAP_S
