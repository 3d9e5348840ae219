"""Reassignments: requested, replaced, cancelled, and continued by another controller.

The znodes at each step are those of a real Kafka 3.9.1 (a move from [2, 1] to [0, 1]).
"""


import pytest
from twisted.internet.defer import ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import reassignment
from kafka_zk.broker.controller.alter_partition import Proposal
from kafka_zk.broker.controller.context import ReplicaAssignment
from kafka_zk.broker.controller.operations import (
    AlterPartition,
    AlterPartitionReassignments,
    ControlledShutdown,
    ControllerOperation,
    ElectLeaders,
    PartitionKey,
)
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.znodes import admin
from tests.kafka_zk.broker.controller.reassigning import TP, alter, catch_up, moved, moving, replicas, state, stored
from tests.kafka_zk.broker.controller.test_alter_partition import propose
from tests.kafka_zk.broker.controller.test_failures import check, heal
from tests.kafka_zk.broker.controller.test_machines import T0, context, info
from tests.kafka_zk.broker.controller.world import Cluster

# -- a move --


def test_a_move_goes_through_kafkas_znodes() -> None:
    cluster = moved()
    topic_id = stored(cluster)["topic_id"]
    assert alter(cluster, {0: [0, 1]}) == {0: 0}
    cluster.settle()
    during = stored(cluster)
    assert during["partitions"] == {"0": [0, 1, 2]}
    assert (during["adding_replicas"], during["removing_replicas"]) == ({"0": [0]}, {"0": [2]})
    assert state(cluster) == (2, [2, 1], 1)
    assert moving(cluster) == {0: ([0, 1, 2], [0], [2])} == moving(cluster, [0, 7])
    assert moving(cluster, [7]) == {}
    told = cluster.brokers[0].replicas[TP]
    assert (told.is_new, told.replicas, told.adding_replicas, told.removing_replicas) == (True, [0, 1, 2], [0], [2])
    assert not cluster.brokers[1].replicas[TP].is_new

    answer = propose(cluster, [2, 1, 0], broker_id=2)
    assert answer.topics[0].partitions[0].error_code == 0
    cluster.settle()
    assert state(cluster) == (0, [1, 0], 3)
    after = stored(cluster)
    assert (after["partitions"], after["adding_replicas"], after["removing_replicas"]) == ({"0": [0, 1]}, {}, {})
    assert after["version"] == 3 and after["topic_id"] == topic_id
    assert moving(cluster) == {} and replicas(cluster) == [0, 1]
    for broker in cluster.brokers:
        known = broker.metadata.topics["t"][0]
        assert (known.leader, known.replicas, known.isr) == (0, [0, 1], [1, 0])
    stops = [request for key, request in cluster.brokers[2].requests if key is ApiKey.STOP_REPLICA]
    assert [each.topic_states[0].partition_states[0].delete_partition for each in stops] == [False, True]
    check(cluster)


def test_a_leader_that_stays_leads_on_under_a_new_epoch() -> None:
    cluster = moved()
    assert alter(cluster, {0: [2, 0]}) == {0: 0}
    propose(cluster, [2, 1, 0], broker_id=2)
    cluster.settle()
    assert state(cluster) == (2, [2, 0], 3)
    assert replicas(cluster) == [0, 2]
    check(cluster)


@pytest.mark.parametrize(
    ("target", "expected"), [([1, 2], (2, [2, 1], 1)), ([2], (2, [2], 2)), ([1], (1, [1], 2))]
)
def test_what_adds_nothing_is_done_at_once(target: list[int], expected: tuple[int, list[int], int]) -> None:
    """The target has another order, or fewer replicas."""
    cluster = moved()
    assert alter(cluster, {0: list(target)}) == {0: 0}
    cluster.settle()
    assert state(cluster) == expected
    assert stored(cluster)["partitions"] == {"0": target}
    assert replicas(cluster) == sorted(target)
    check(cluster)


def test_more_replicas_are_added() -> None:
    cluster = moved()
    alter(cluster, {0: [2, 1, 0]})
    propose(cluster, [2, 1, 0], broker_id=2)
    cluster.settle()
    assert state(cluster) == (2, [2, 1, 0], 2)
    assert moving(cluster) == {}
    check(cluster)


def test_nothing_is_completed_before_the_whole_target_is_in_sync() -> None:
    cluster = moved(5)
    alter(cluster, {0: [3, 4]})
    propose(cluster, [2, 1, 3], broker_id=2)
    cluster.settle()
    assert moving(cluster) == {0: ([3, 4, 2, 1], [3, 4], [2, 1])}
    assert state(cluster) == (2, [2, 1, 3], 1)
    propose(cluster, [2, 1, 3, 4], broker_id=2)
    cluster.settle()
    assert state(cluster)[:2] == (3, [3, 4])
    assert replicas(cluster) == [3, 4]
    check(cluster)


def test_many_partitions_move_at_once() -> None:
    cluster = Cluster(4)
    cluster.create("t", {number: [0, 1] for number in range(50)})
    cluster.settle()
    before = len(cluster.brokers[2].requests)
    targets: dict[int, list[int] | None] = {number: [1, 0] if number % 2 else [2, 1] for number in range(50)}
    assert alter(cluster, targets) == dict.fromkeys(range(50), 0)
    cluster.settle()
    assert len(moving(cluster)) == 25
    assert len(cluster.brokers[2].requests) - before < 20
    assert stored(cluster)["partitions"]["0"] == [2, 1, 0] and stored(cluster)["partitions"]["1"] == [1, 0]
    check(cluster)


def test_one_bad_partition_never_spoils_a_request() -> None:
    cluster = Cluster()
    cluster.create("t", {number: [0, 1] for number in range(9)})
    cluster.settle()
    wanted: dict[int, list[int] | None] = {
        0: [2, 1], 1: [], 2: [1, 1], 3: [-1], 4: [7, 0], 5: None, 9: [1], 10: None, 6: [1],
    }  # fmt: skip
    bad = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert alter(cluster, wanted) == {
        0: 0, 1: bad, 2: bad, 3: bad, 4: bad, 5: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 10: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, 6: 0,
    }  # fmt: skip
    assert alter(cluster, {0: [1]}, "unknown") == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert alter(cluster, {0: [1]}, broker_id=1) == {-1: ErrorCode.NOT_CONTROLLER}
    cluster.settle()
    assert list(moving(cluster)) == [0]


# -- cancelled and replaced --


def test_a_cancelled_move_takes_the_added_replicas_back() -> None:
    cluster = moved()
    alter(cluster, {0: [0, 1]})
    cluster.settle()
    assert alter(cluster, {0: None}) == {0: 0}
    cluster.settle()
    assert moving(cluster) == {} and replicas(cluster) == [1, 2]
    assert stored(cluster)["partitions"] == {"0": [1, 2]}  # the order is lost, as in Kafka
    assert state(cluster)[:2] == (2, [2, 1])
    assert alter(cluster, {0: None}) == {0: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
    check(cluster)


def test_another_target_replaces_the_first() -> None:
    cluster = moved(4)
    alter(cluster, {0: [0, 1]})
    cluster.settle()
    assert alter(cluster, {0: [3, 1]}) == {0: 0}
    cluster.settle()
    assert moving(cluster) == {0: ([3, 1, 2], [3], [2])}
    assert replicas(cluster) == [1, 2, 3]
    propose(cluster, [2, 1, 3], broker_id=2)
    cluster.settle()
    assert state(cluster)[:2] == (3, [1, 3])
    check(cluster)


def test_a_cancelled_move_takes_the_leadership_back() -> None:
    """The first target replica, being the preferred leader, already leads."""
    cluster = moved(5)
    alter(cluster, {0: [3, 4]})
    propose(cluster, [2, 1, 3], broker_id=2)
    cluster.scheduler.run(cluster.controller.carry_out(ElectLeaders([TP], unclean=False)))
    cluster.settle()
    assert state(cluster)[0] == 3
    assert alter(cluster, {0: None}) == {0: 0}
    cluster.settle()
    assert state(cluster)[:2] == (2, [2, 1])
    assert replicas(cluster) == [1, 2]
    check(cluster)


def test_the_last_replica_in_sync_is_not_taken_away() -> None:
    made = context((3, 4, 1, 2), live=(1, 2, 3, 4))
    made.assign(T0, ReplicaAssignment((3, 4, 1, 2), (3, 4), (1, 2)))
    made.leadership[T0] = info(3, [3])
    outcome = reassignment.plan(made, T0, None, needs_live=True)
    assert isinstance(outcome, ApiError) and outcome.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    made.leadership[T0] = info(3, [3, 2])
    assert reassignment.plan(made, T0, None, needs_live=True) == ReplicaAssignment((1, 2))


# -- failures --


def test_a_move_waits_for_a_broker_that_died() -> None:
    cluster = moved()
    cluster.kill(1)
    alter(cluster, {0: [0, 1]})
    propose(cluster, [2, 1, 0], broker_id=2)  # no broker knows yet that 1 is dead
    cluster.settle(10_000)
    cluster.restart(1)
    cluster.settle()
    if moving(cluster):
        propose(cluster, [2, 0, 1], broker_id=2)
        cluster.settle()
    assert state(cluster)[0] in (0, 1)
    assert stored(cluster)["partitions"] == {"0": [0, 1]}
    assert replicas(cluster) == [0, 1]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("completes", [False, True])
def test_a_move_survives_a_failover_in_the_middle(seed: int, completes: bool) -> None:
    """The controller's session ends at some point in phase A or in phase B."""
    cluster = Cluster(4, seed=seed)
    cluster.create("t", {number: [2, 1] for number in range(4)})
    cluster.settle()
    first = cluster.brokers[0]
    targets: dict[TopicPartition, list[int]] = {TopicPartition("t", number): [3, 1] for number in range(4)}
    if completes:
        cluster.scheduler.run(cluster.controller.carry_out(AlterPartitionReassignments(targets)))
        cluster.settle()
        catch_up(cluster, settle=False)
    else:
        order = admin.encode_reassignment(targets)
        cluster.scheduler.run(cluster.tool.create(admin.REASSIGN_PARTITIONS, order))
    cluster.settle(cluster.scheduler.random.uniform(0, 40))
    cluster.zookeeper.expire(first.client)
    cluster.settle(5000)
    catch_up(cluster)
    assert cluster.controller.controller_epoch == 2
    assert {leader for leader, _, _ in (state(cluster, number) for number in range(4))} <= {1, 3}
    assert stored(cluster)["partitions"] == {str(number): [3, 1] for number in range(4)}
    assert stored(cluster)["adding_replicas"] == stored(cluster)["removing_replicas"] == {}
    assert moving(cluster) == {}
    assert cluster.paths(admin.REASSIGN_PARTITIONS) == []
    check(cluster)


# -- beside other changes of the topic --


def test_partitions_that_are_added_meanwhile_stay() -> None:
    cluster = moved()
    alter(cluster, {0: [0, 1]})
    cluster.scheduler.run(cluster.topics.add_partitions("t", {1: [1, 0]}))
    cluster.settle()
    propose(cluster, [2, 1, 0], broker_id=2)
    cluster.settle()
    assert stored(cluster)["partitions"] == {"0": [0, 1], "1": [1, 0]}
    check(cluster)


def test_deletion_waits_for_a_move() -> None:
    cluster = moved()
    alter(cluster, {0: [0, 1]})
    cluster.delete("t")
    cluster.settle()
    assert cluster.paths("/brokers/topics/t")
    propose(cluster, [2, 1, 0], broker_id=2)
    cluster.settle(3000)
    assert cluster.paths("/brokers/topics") == ["/brokers/topics"]
    assert replicas(cluster) == []


# -- everything at once --


def test_moves_elections_and_isr_changes_among_faults(campaign_seed: int) -> None:
    """Whatever happens in between, at the end every move is complete and all brokers agree with ZooKeeper."""
    cluster = Cluster(5, seed=campaign_seed)
    random = cluster.scheduler.random
    cluster.create("t", {number: random.sample(range(5), random.randint(1, 3)) for number in range(6)})
    cluster.settle()
    for _ in range(40):
        broker = random.choice(cluster.brokers)
        number = random.randrange(6)
        target = random.choice([None, random.sample(range(5), random.randint(1, 3))])
        match random.randrange(9):
            case 0 | 1:
                attempt(cluster, AlterPartitionReassignments({TopicPartition("t", number): target}))
            case 2 | 3:
                catch_up_if_possible(cluster)
            case 4:
                attempt(cluster, ElectLeaders([TopicPartition("t", number)], unclean=False))
            case 5:
                cluster.zookeeper.expire(broker.client)
            case 6 if broker.up:
                cluster.kill(broker.broker_id)
            case 7:
                heal(cluster, broker)
            case 8:
                attempt(cluster, ControlledShutdown(broker.broker_id, broker.epoch))
                cluster.zookeeper.expire(broker.client)
        cluster.settle(random.choice([0, 5, 50, 8000]))
    for each in list(cluster.brokers):
        heal(cluster, each)
    cluster.settle(30_000)
    for _ in range(3):
        catch_up_if_possible(cluster)
        cluster.settle(2000)
    assert moving(cluster) == {}
    assert stored(cluster)["adding_replicas"] == stored(cluster)["removing_replicas"] == {}
    for number, assigned in cluster.assignment("t").partitions.items():
        assert sorted(state(cluster, number)[1]) == sorted(assigned)
        holding = [broker.broker_id for broker in cluster.brokers if TopicPartition("t", number) in broker.replicas]
        assert set(assigned) <= set(holding)
    check(cluster)


def attempt(cluster: Cluster, operation: ControllerOperation[object]) -> None:
    """An administrator's request, if there is an active controller; it may fail together with the controller."""
    for broker in cluster.active[:1]:
        ensureDeferred(broker.controller.carry_out(operation)).addErrback(lambda failure: failure.trap(ApiError))


def catch_up_if_possible(cluster: Cluster) -> None:
    for number, assigned in cluster.assignment("t").partitions.items():
        leader, isr, _ = state(cluster, number)
        if len(cluster.active) != 1 or leader < 0 or not cluster.brokers[leader].up:
            continue
        live = [broker_id for broker_id in assigned if broker_id not in isr and cluster.brokers[broker_id].up]
        found = cluster.state("t", number)
        assert found is not None
        proposal = Proposal(found.leader_epoch, (*isr, *live), 0, found.zk_version)
        epoch = cluster.brokers[leader].epoch
        attempt(cluster, AlterPartition(leader, epoch, {PartitionKey("t", number): proposal}))
