"""Elections that administrators order, and the automatic return of leaderships."""

from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.config import ControllerConfig
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.znodes import admin
from tests.kafka_zk.broker.controller.test_alter_partition import propose
from tests.kafka_zk.broker.controller.world import Cluster

PREFERRED, UNCLEAN = 0, 1


def elect(
    cluster: Cluster, partitions: list[int] | None, kind: int = PREFERRED, version: int = 2, **other: Any
) -> dict[int, int]:
    """Partition of t -> error code."""
    cls = codec.request(ApiKey.ELECT_LEADERS)
    wanted = None if partitions is None else [cls.TopicPartitions(topic="t", partitions=partitions)]
    request = cls(election_type=kind, topic_partitions=wanted, timeout_ms=other.pop("timeout_ms", 1000))
    answer = cluster.ask(ApiKey.ELECT_LEADERS, version, request, **other)
    results = [each for topic in answer.replica_election_results for each in topic.partition_result]
    return {each.partition_id: each.error_code for each in results}


def leaders(cluster: Cluster, count: int = 1) -> list[tuple[int, list[int], int]]:
    """Leader, ISR and leader epoch of t's partitions."""
    states = cluster.states("t", range(count))
    return [(state.leader, state.isr, state.leader_epoch) for state in states if state is not None]


def away(cluster: Cluster, broker_id: int = 2) -> None:
    """The broker stops cleanly and comes back, and its follower replicas catch up."""
    cluster.scheduler.run(cluster.controller.handle_controlled_shutdown(broker_id, -1))
    cluster.zookeeper.expire(cluster.brokers[broker_id].client)
    cluster.settle(3000)


@pytest.mark.parametrize("version", range(3))
def test_preferred_leaders_come_back_when_they_are_in_the_isr(version: int) -> None:
    cluster = Cluster()
    cluster.create("t", {0: [2, 0], 1: [0, 2], 2: [2]})
    cluster.settle()
    away(cluster)
    assert leaders(cluster)[0] == (0, [0], 1)
    unavailable = {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, 1: ErrorCode.ELECTION_NOT_NEEDED}
    assert elect(cluster, [0, 1], version=version) == unavailable
    assert propose(cluster, [0, 2]).topics[0].partitions[0].error_code == 0
    assert elect(cluster, [0, 9, 0], version=version) == {0: 0, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert leaders(cluster)[0] == (2, [0, 2], 2)
    assert [broker.metadata.topics["t"][0].leader for broker in cluster.active] == [2]
    assert elect(cluster, [0], version=version) == {0: ErrorCode.ELECTION_NOT_NEEDED}


def test_of_all_partitions_only_those_with_an_election_are_answered() -> None:
    cluster = Cluster()
    cluster.create("t", {0: [2, 0], 1: [0, 2]})
    cluster.settle()
    assert elect(cluster, None) == {}
    away(cluster)
    propose(cluster, [0, 2])
    cluster.settle()
    assert elect(cluster, None) == {0: 0}


def test_an_unclean_election_takes_whoever_lives() -> None:
    cluster = Cluster()
    cluster.create("t", {0: [2, 1], 1: [0, 1]})
    cluster.settle()
    cluster.kill(1)
    cluster.settle(10_000)
    cluster.kill(2)
    cluster.settle(10_000)
    assert elect(cluster, [0], UNCLEAN) == {0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    cluster.restart(1)
    cluster.settle()
    assert leaders(cluster)[0][:2] == (-1, [2])
    assert elect(cluster, [0, 1], UNCLEAN) == {0: 0, 1: ErrorCode.ELECTION_NOT_NEEDED}
    assert leaders(cluster)[0][:2] == (1, [1])
    state = cluster.state("t")
    assert state is not None and state.leader_recovery_state == 1


def test_other_brokers_and_other_kinds_of_elections_are_refused() -> None:
    cluster = Cluster()
    cluster.create("t", {0: [2, 0]})
    cluster.settle()
    assert elect(cluster, [0], broker_id=1) == {0: ErrorCode.NOT_CONTROLLER}
    assert elect(cluster, [0], 7) == {0: ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize("failover", [False, True])
def test_an_order_in_zookeeper_is_carried_out_and_goes(failover: bool) -> None:
    """The request is the znode that 0.8's kafka-preferred-replica-election writes. It is carried out even if the
    controller dies before reading it.
    """
    cluster = Cluster()
    cluster.create("t", {0: [2, 0], 1: [2, 0]})
    cluster.settle()
    away(cluster)
    propose(cluster, [0, 2])
    tps = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("gone", 0)]
    cluster.scheduler.run(cluster.tool.create(admin.PREFERRED_REPLICA_ELECTION, admin.encode_partitions(tps)))
    if failover:
        cluster.zookeeper.expire(cluster.brokers[0].client)
    cluster.settle(5000)
    assert leaders(cluster)[0][0] == 2
    assert cluster.paths(admin.PREFERRED_REPLICA_ELECTION) == []


def test_an_order_that_cannot_be_understood_goes_too() -> None:
    cluster = Cluster()
    cluster.scheduler.run(cluster.tool.create(admin.PREFERRED_REPLICA_ELECTION, b"{"))
    cluster.settle()
    assert cluster.paths(admin.PREFERRED_REPLICA_ELECTION) == []


def test_leaderships_go_back_by_themselves() -> None:
    """If other brokers lead more than the configured percentage of the partitions that prefer this broker, the broker
    regains leadership of those for which it is in the ISR.
    """
    cluster = Cluster(config=ControllerConfig(leader_imbalance_check_interval_seconds=20))
    cluster.create("t", {number: [2, 0] for number in range(10)})
    cluster.settle()
    away(cluster)
    cluster.settle(10_000)
    assert {leader for leader, _, _ in leaders(cluster, 10)} == {0}
    propose(cluster, [0, 2])
    cluster.settle(21_000)
    assert [leader for leader, _, _ in leaders(cluster, 2)] == [2, 0]


def test_a_small_imbalance_stays() -> None:
    cluster = Cluster(config=ControllerConfig(leader_imbalance_check_interval_seconds=20))
    cluster.create("t", {number: [2] if number else [2, 0] for number in range(10)})
    cluster.settle()
    away(cluster)
    propose(cluster, [0, 2])
    cluster.settle(25_000)
    assert leaders(cluster) == [(0, [0, 2], 1)]


def test_what_unclean_elections_are_allowed_for_gets_a_leader_at_once() -> None:
    cluster = Cluster()
    cluster.create("t", {0: [2, 1]})
    cluster.settle()
    cluster.kill(1)
    cluster.settle(10_000)
    cluster.kill(2)
    cluster.settle(10_000)
    cluster.restart(1)
    cluster.settle(20_000)
    assert leaders(cluster)[0][:2] == (-1, [2])
    cluster.controller.allow_unclean_elections(by_default=True)
    cluster.settle()
    assert leaders(cluster)[0][:2] == (1, [1])
