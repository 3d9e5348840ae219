"""Brokers that were away while there was no controller: who leads afterwards, and who stays in the ISR."""

from typing import Any

import pytest

from kafka_zk.base.turns import after
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.active import ActiveController
from kafka_zk.registry.unclean_starts import read_unclean_starts
from kafka_zk.registry.znodes import topics as znodes
from kafka_zk.registry.znodes.brokers import broker_path
from kafka_zk.registry.znodes.topics import LeaderIsrAndControllerEpoch
from tests.kafka_zk.broker.controller.world import Cluster

TP = TopicPartition("t", 0)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Three brokers; a new controller takes over when all of them are registered."""
    made = Cluster(3)
    take_over = ActiveController.take_over

    async def when_all_are_back(self: ActiveController) -> None:
        while any(made.zookeeper.tree.exists(broker_path(each.broker_id)) is None for each in made.brokers):
            await after(made.scheduler.clock, 0.01)
        await take_over(self)

    monkeypatch.setattr(ActiveController, "take_over", when_all_are_back)
    return made


def bounce_unnoticed(cluster: Cluster, *, unclean_start: bool) -> None:
    """Kill and restart the controller, broker 0."""
    cluster.kill(0)
    cluster.restart(0, unclean_start=unclean_start)
    cluster.settle(3_000)


def state(cluster: Cluster, partition: int = 0) -> LeaderIsrAndControllerEpoch:
    found = cluster.state("t", partition)
    assert found is not None
    return found


def announced(cluster: Cluster) -> dict[int, list[str]]:
    return cluster.scheduler.run(read_unclean_starts(cluster.tool))


@pytest.mark.parametrize(("unclean_start", "isr"), [(False, [0, 1, 2]), (True, [1, 2])])
def test_a_leader_that_was_away_is_replaced(cluster: Cluster, unclean_start: bool, isr: list[int]) -> None:
    """After a clean stop the log is complete, so the broker stays in the ISR, even if it is a Kafka broker, which
    announces nothing.
    """
    cluster.create("t", {0: [0, 1, 2]})
    cluster.settle()
    bounce_unnoticed(cluster, unclean_start=unclean_start)
    assert (state(cluster).leader, state(cluster).isr, state(cluster).leader_epoch) == (1, isr, 1)
    assert {broker.replicas[TP].leader_epoch for broker in cluster.brokers} == {1}
    assert announced(cluster) == {}


def test_a_follower_that_started_uncleanly_leaves_the_isr(cluster: Cluster) -> None:
    cluster.create("t", {0: [1, 0, 2]})
    cluster.settle()
    bounce_unnoticed(cluster, unclean_start=True)
    assert (state(cluster).leader, state(cluster).isr, state(cluster).leader_epoch) == (1, [1, 2], 1)
    assert cluster.brokers[1].replicas[TP].isr == [1, 2]


def test_a_follower_that_was_away_stays_and_nothing_is_written(cluster: Cluster) -> None:
    cluster.create("t", {0: [1, 0, 2]})
    cluster.settle()
    before = state(cluster)
    bounce_unnoticed(cluster, unclean_start=False)
    assert state(cluster) == before


def test_the_only_member_of_an_isr_leads_on_in_a_new_epoch(cluster: Cluster) -> None:
    """The followers truncate their logs to the end of the leader's epoch, so the leader needs a new one."""
    cluster.create("t", {0: [0, 1, 2], 1: [0]})
    cluster.settle()
    alone = state(cluster)
    cluster.set(znodes.state_path("t", 0), znodes.encode_state(LeaderIsrAndControllerEpoch(0, [0], 0, 1)))
    bounce_unnoticed(cluster, unclean_start=True)
    assert (state(cluster).leader, state(cluster).isr, state(cluster).leader_epoch) == (0, [0], alone.leader_epoch + 1)
    assert state(cluster, 1).leader_epoch == 0  # a partition with one replica has no followers
    assert announced(cluster) == {}


def test_an_announcement_that_a_dead_controller_read_is_there_for_the_next(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller that takes over first dies before it writes anything."""
    cluster.create("t", {0: [0, 1, 2]})
    cluster.settle()
    initialized: Any = ActiveController._initialized_replicas
    died: list[int] = []

    async def dies(self: ActiveController) -> Any:
        if not died:
            (broker,) = cluster.active
            died.append(broker.broker_id)
            cluster.kill(broker.broker_id)
        return await initialized(self)

    monkeypatch.setattr(ActiveController, "_initialized_replicas", dies)
    cluster.kill(0)
    cluster.restart(0, unclean_start=True)
    cluster.settle(500)
    cluster.restart(died[0])  # its own stop was clean
    cluster.settle(20_000)
    (other,) = {1, 2} - set(died)
    assert (state(cluster).leader, sorted(state(cluster).isr)) == (other, [1, 2])


def test_a_controller_that_saw_the_broker_go_forgets_the_announcement(cluster: Cluster) -> None:
    cluster.create("t", {0: [0, 1, 2]})
    cluster.settle()
    cluster.kill(1)
    cluster.settle(10_000)
    cluster.restart(1, unclean_start=True)
    asked = cluster.brokers[0].client.counts.copy()
    cluster.settle(3_000)
    assert state(cluster).isr == [0, 2]
    assert announced(cluster) == {}
    writes = cluster.brokers[0].client.counts - asked
    assert writes["multi"] == 1 and not writes["set"] and not writes["create"]  # it only forgets the announcement
