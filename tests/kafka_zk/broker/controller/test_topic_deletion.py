"""Which topics can be deleted: the plan for each combination of replica states."""

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import topic_deletion
from kafka_zk.broker.controller.context import Context, Replica, ReplicaAssignment
from kafka_zk.broker.controller.states import ReplicaState
from kafka_zk.broker.controller.topic_deletion import DeletionPlan
from tests.kafka_zk.broker.controller.test_machines import T0, broker, context

ONLINE, OFFLINE = ReplicaState.ONLINE, ReplicaState.OFFLINE
STARTED, SUCCESSFUL, INELIGIBLE = (
    ReplicaState.DELETION_STARTED,
    ReplicaState.DELETION_SUCCESSFUL,
    ReplicaState.DELETION_INELIGIBLE,
)


def ordered(*states: ReplicaState, ineligible: bool = False) -> Context:
    made = context(tuple(range(1, len(states) + 1)))
    made.topics_to_delete = {"t"}
    made.topics_ineligible_for_deletion = {"t"} if ineligible else set()
    made.replica_states = {Replica(T0, broker_id): state for broker_id, state in enumerate(states, 1)}
    return made


@pytest.mark.parametrize(
    ("states", "ineligible", "plan"),
    [
        ((ONLINE, ONLINE), False, DeletionPlan([], [], ["t"])),
        ((ONLINE, ONLINE), True, DeletionPlan([], [], [])),
        ((STARTED, SUCCESSFUL), False, DeletionPlan([], [], [])),
        ((STARTED, INELIGIBLE), True, DeletionPlan([], [], [])),
        ((SUCCESSFUL, INELIGIBLE), True, DeletionPlan([], [Replica(T0, 2)], [])),
        ((SUCCESSFUL, INELIGIBLE), False, DeletionPlan([], [Replica(T0, 2)], ["t"])),
        ((SUCCESSFUL, OFFLINE), False, DeletionPlan([], [], ["t"])),
        ((SUCCESSFUL, SUCCESSFUL), True, DeletionPlan(["t"], [], [])),
        ((), False, DeletionPlan(["t"], [], [])),
    ],
)
def test_plan(states: tuple[ReplicaState, ...], ineligible: bool, plan: DeletionPlan) -> None:
    assert topic_deletion.plan(ordered(*states, ineligible=ineligible)) == plan


def test_a_topic_that_is_being_reassigned_waits() -> None:
    made = context()
    made.assign(T0, ReplicaAssignment((1, 2), (2,), ()))
    topic_deletion.enqueue(made, ["t"])
    assert topic_deletion.plan(made) == DeletionPlan([], [], [])
    topic_deletion.resume(made, ["t"])
    assert topic_deletion.plan(made).start == ["t"]


def test_after_a_failover_a_topic_with_a_dead_replica_waits() -> None:
    made = context(live=(1, 2))
    topic_deletion.enqueue_at_failover(made, ["t"])
    assert made.topics_ineligible_for_deletion == {"t"}
    made.brokers[3] = broker(3)
    topic_deletion.resume(made, ["t"])
    assert topic_deletion.plan(made).start == ["t"]


def test_dead_replicas_are_set_aside_and_deleted_ones_left_alone() -> None:
    made = ordered(OFFLINE, SUCCESSFUL, OFFLINE)
    del made.brokers[3]
    replicas = topic_deletion.replicas_to_delete(made, ["t"])
    assert (replicas.live, replicas.dead) == ([Replica(T0, 1)], [Replica(T0, 3)])
    assert made.topics_ineligible_for_deletion == {"t"}


def test_a_deletion_begins_once() -> None:
    made = ordered(ONLINE)
    assert topic_deletion.begin(made, ["t"]) == ["t"]
    assert topic_deletion.begin(made, ["t"]) == []


def test_a_forgotten_topic_leaves_no_trace() -> None:
    made = ordered(SUCCESSFUL)
    made.offline_dirs = {1: {T0, TopicPartition("u", 0)}}
    made.topic_ids["t"] = "x"
    made.remove_topic("t")
    assert made.offline_dirs == {1: {TopicPartition("u", 0)}}
    assert not any((made.topics, made.topic_ids, made.assignments, made.replica_states, made.topics_to_delete))
