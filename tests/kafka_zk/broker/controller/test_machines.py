"""The pure state machines: the legality table, and the effects of each change."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from kafka_zk.base.state_machine import IllegalTransition
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import partition_state, replica_state
from kafka_zk.broker.controller.context import Context, LeadershipInfo, LiveBroker, Replica, ReplicaAssignment
from kafka_zk.broker.controller.effects import (
    CreateState,
    FailedChange,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    WriteState,
)
from kafka_zk.broker.controller.partition_state import ElectionStrategy
from kafka_zk.broker.controller.states import (
    PARTITION_TRANSITIONS,
    REPLICA_TRANSITIONS,
    PartitionEvent,
    PartitionState,
    ReplicaEvent,
    ReplicaState,
)
from kafka_zk.registry.znodes.brokers import BrokerInfo, EndPoint

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
EPOCH = 7


def broker(broker_id: int) -> LiveBroker:
    endpoint = EndPoint("PLAINTEXT", "PLAINTEXT", f"host{broker_id}", 9092)
    return LiveBroker(BrokerInfo.of(broker_id, (endpoint,)), 100 + broker_id)


def context(assignment: tuple[int, ...] = (1, 2, 3), live: tuple[int, ...] = (1, 2, 3)) -> Context:
    """Epoch 7, topic t with partition 0."""
    made = Context(EPOCH, 5)
    made.brokers = {broker_id: broker(broker_id) for broker_id in live}
    made.topics = {"t"}
    made.assign(T0, ReplicaAssignment(assignment))
    return made


def info(leader: int, isr: list[int], leader_epoch: int = 3, version: int = 9, controller_epoch: int = 6) -> Any:
    return LeadershipInfo(leader, isr, leader_epoch, controller_epoch, 0, version)


# -- legality --


@pytest.mark.parametrize("event", PartitionEvent)
@pytest.mark.parametrize("state", PartitionState)
def test_illegal_partition_changes_raise_and_change_nothing(state: PartitionState, event: PartitionEvent) -> None:
    made = context()
    made.assign(T1, ReplicaAssignment((1,)))
    made.partition_states = {T0: state, T1: next(iter(PARTITION_TRANSITIONS[event]))}
    before = copy.deepcopy(vars(made))
    legal = state in PARTITION_TRANSITIONS[event]
    assert made.split_legal_partitions([T0], event) == (([T0], []) if legal else ([], [T0]))
    if legal:
        return
    with pytest.raises(IllegalTransition, match=f"t-0: {event.value} in {state.value}"):
        if event is PartitionEvent.BRING_ONLINE:
            partition_state.elect(made, ElectionStrategy.OFFLINE, {T1: info(1, [1]), T0: info(1, [1])})
        else:
            partition_state.move(made, [T1, T0], event)
    assert vars(made) == before


@pytest.mark.parametrize("event", ReplicaEvent)
@pytest.mark.parametrize("state", ReplicaState)
def test_illegal_replica_changes_raise_and_change_nothing(state: ReplicaState, event: ReplicaEvent) -> None:
    made = context()
    one, two = Replica(T0, 1), Replica(T0, 2)
    made.replica_states = {one: next(iter(REPLICA_TRANSITIONS[event])), two: state}
    before = copy.deepcopy(vars(made))
    if state in REPLICA_TRANSITIONS[event]:
        return
    with pytest.raises(IllegalTransition, match=f"t-0 on 2: {event.value} in {state.value}"):
        if event is ReplicaEvent.TAKE_OFFLINE:
            replica_state.stop(made, [one, two])
        else:
            replica_state.move(made, [one, two], event)
    assert vars(made) == before


def test_the_tables_are_kafkas() -> None:
    partition = {(old.name, new.name) for row in PARTITION_TRANSITIONS.values() for old, new in row.items()}
    assert partition == {
        ("NON_EXISTENT", "NEW"),
        *((old, new) for old in ("NEW", "ONLINE", "OFFLINE") for new in ("ONLINE", "OFFLINE")),
        ("OFFLINE", "NON_EXISTENT"),
    }
    replica = {(old.name, new.name) for row in REPLICA_TRANSITIONS.values() for old, new in row.items()}
    assert replica == {
        ("NON_EXISTENT", "NEW"),
        *((o, n) for o in ("NEW", "ONLINE", "OFFLINE", "DELETION_INELIGIBLE") for n in ("ONLINE", "OFFLINE")),
        ("OFFLINE", "DELETION_STARTED"),
        ("OFFLINE", "DELETION_INELIGIBLE"),
        ("DELETION_STARTED", "DELETION_INELIGIBLE"),
        ("DELETION_STARTED", "DELETION_SUCCESSFUL"),
        ("DELETION_SUCCESSFUL", "NON_EXISTENT"),
    }


def test_each_event_is_listed_and_leads_to_one_state_and_each_state_is_led_to() -> None:
    assert set(PARTITION_TRANSITIONS) == set(PartitionEvent) and set(REPLICA_TRANSITIONS) == set(ReplicaEvent)
    rows: list[Mapping[Any, Any]] = [*PARTITION_TRANSITIONS.values(), *REPLICA_TRANSITIONS.values()]
    for row in rows:
        assert len(set(row.values())) == 1
    assert {event.target for event in PartitionEvent} == set(PartitionState)
    assert {event.target for event in ReplicaEvent} == set(ReplicaState)


# -- partitions --


def test_a_new_partition_is_created_with_its_live_replicas() -> None:
    made = context(live=(2, 3))
    made.partition_states[T0] = PartitionState.NEW
    creates, refused = partition_state.create_leadership(made, [T0])
    assert (creates, refused) == ([CreateState(T0, LeadershipInfo(2, [2, 3], 0, EPOCH))], [])
    assert T0 not in made.leadership and made.partition_state(T0) is PartitionState.NEW
    assert partition_state.established(made, creates[0], 0) == SendLeaderAndIsr((2, 3), T0, is_new=True)
    assert made.partition_state(T0) is PartitionState.ONLINE
    assert made.leadership[T0] == LeadershipInfo(2, [2, 3], 0, EPOCH, 0, 0)


def test_a_new_partition_without_live_replica_stays_new() -> None:
    made = context(live=())
    made.partition_states[T0] = PartitionState.NEW
    creates, (refused,) = partition_state.create_leadership(made, [T0])
    assert creates == [] and refused.partition == T0 and "[1, 2, 3]" in refused.reason
    assert made.partition_state(T0) is PartitionState.NEW


@pytest.mark.parametrize(
    ("strategy", "live", "current", "leader", "isr", "recipients"),
    [
        (ElectionStrategy.OFFLINE, (2, 3), info(1, [1, 2, 3]), 2, [2, 3], (2, 3)),
        (ElectionStrategy.PREFERRED, (1, 2, 3), info(2, [2, 1]), 1, [2, 1], (1, 2, 3)),
        (ElectionStrategy.REASSIGN, (1, 2, 3), info(1, [1, 2, 3]), 2, [1, 2, 3], (2, 3)),
        (ElectionStrategy.CONTROLLED_SHUTDOWN, (1, 2, 3), info(1, [1, 3]), 3, [3], (1, 2, 3)),
    ],
)
def test_elections_write_the_next_epoch_and_tell_kafkas_recipients(
    strategy: ElectionStrategy,
    live: tuple[int, ...],
    current: LeadershipInfo,
    leader: int,
    isr: list[int],
    recipients: tuple[int, ...],
) -> None:
    made = context(live=live)
    made.partition_states[T0] = PartitionState.OFFLINE
    if strategy is ElectionStrategy.REASSIGN:
        made.assign(T0, ReplicaAssignment((2, 3, 1), (3,), (1,)))
    if strategy is ElectionStrategy.CONTROLLED_SHUTDOWN:
        made.shutting_down = {1}
    writes, refused = partition_state.elect(made, strategy, {T0: current})
    assert (writes, refused) == ([WriteState(T0, LeadershipInfo(leader, isr, 4, EPOCH, 0, 9), recipients)], [])
    assert made.leadership == {}
    assert partition_state.established(made, writes[0], 10) == SendLeaderAndIsr(recipients, T0)
    assert made.leadership[T0].zk_version == 10


def test_an_unclean_leader_recovers() -> None:
    made = context(live=(2, 3))
    made.partition_states[T0] = PartitionState.OFFLINE
    writes, _ = partition_state.elect(made, ElectionStrategy.OFFLINE, {T0: info(-1, [1])}, unclean_topics=["t"])
    assert writes[0].info == LeadershipInfo(2, [2], 4, EPOCH, partition_state.RECOVERING, 9)
    assert partition_state.topics_without_live_isr(made, {T0: info(-1, [1])}) == ["t"]
    by_order, _ = partition_state.elect(made, ElectionStrategy.OFFLINE_UNCLEAN, {T0: info(-1, [1])})
    assert by_order == writes


@pytest.mark.parametrize(
    ("current", "reason"),
    [
        (None, "it has no valid state znode"),
        (info(1, [1], leader_epoch=2**31 - 1), "its leader epoch 2147483647 is the largest possible one"),
        (info(1, [1], controller_epoch=EPOCH + 1), "a controller with epoch 8 has already written its state"),
        (info(-1, [9]), "no leader can be elected (offline), ISR [9]"),
    ],
)
def test_elections_that_are_not_possible_leave_the_partition(current: LeadershipInfo | None, reason: str) -> None:
    made = context()
    made.partition_states[T0] = PartitionState.OFFLINE
    assert partition_state.elect(made, ElectionStrategy.OFFLINE, {T0: current}) == ([], [FailedChange(T0, reason)])
    assert made.partition_state(T0) is PartitionState.OFFLINE


def test_states_after_a_failover() -> None:
    made = context(live=(1,))
    made.assign(T1, ReplicaAssignment((2,)))
    made.assign(TopicPartition("u", 0), ReplicaAssignment((1,)))
    made.leadership = {T0: info(1, [1]), T1: info(2, [2])}
    partition_state.initialize(made, made.partitions())
    assert made.partition_states == {
        T0: PartitionState.ONLINE,
        T1: PartitionState.OFFLINE,
        TopicPartition("u", 0): PartitionState.NEW,
    }
    assert partition_state.electable(made) == [T1, TopicPartition("u", 0)]
    made.topics_to_delete = {"u"}
    assert partition_state.electable(made) == [T1]
    online, offline = replica_state.initialize(made, made.partitions())
    assert online == [Replica(T0, 1), Replica(TopicPartition("u", 0), 1)]
    assert offline == [Replica(T0, 2), Replica(T0, 3), Replica(T1, 2)]
    assert made.replica_state(Replica(T1, 2)) is ReplicaState.DELETION_INELIGIBLE


# -- replicas --


def test_a_new_replica_is_told_to_follow_but_never_to_lead() -> None:
    made = context()
    made.leadership[T0] = info(1, [1])
    sends, refused = replica_state.move(made, [Replica(T0, 1), Replica(T0, 2)], ReplicaEvent.CREATE)
    assert sends == [SendLeaderAndIsr((2,), T0, is_new=True)]
    assert refused == [FailedChange(T0, "replica 1 leads and cannot be new")]
    assert made.replica_states == {Replica(T0, 2): ReplicaState.NEW}


def test_a_new_replica_enters_the_assignment_when_online() -> None:
    made = context((1, 2))
    made.replica_states[Replica(T0, 3)] = ReplicaState.NEW
    assert replica_state.move(made, [Replica(T0, 3)], ReplicaEvent.BRING_ONLINE) == ([], [])
    assert made.replicas(T0) == (1, 2, 3)


def test_a_replica_that_comes_back_is_told_who_leads() -> None:
    made = context()
    made.leadership[T0] = info(1, [1])
    made.replica_states[Replica(T0, 2)] = ReplicaState.OFFLINE
    assert replica_state.move(made, [Replica(T0, 2)], ReplicaEvent.BRING_ONLINE) == ([SendLeaderAndIsr((2,), T0)], [])


@pytest.mark.parametrize(
    ("before", "leader", "isr"),
    [
        (info(1, [1, 2, 3]), 1, [1, 3]),
        (info(2, [1, 2, 3]), -1, [1, 3]),
        (info(2, [2]), -1, [2]),  # the last one stays
    ],
)
def test_an_offline_replica_leaves_the_isr(before: LeadershipInfo, leader: int, isr: list[int]) -> None:
    made = context()
    replica = Replica(T0, 2)
    made.leadership[T0], made.replica_states[replica] = before, ReplicaState.ONLINE
    assert replica_state.stop(made, [replica]) == ([SendStopReplica(2, T0)], [replica], [])
    writes, refused, unchanged = replica_state.remove_from_isr(made, 2, {T0: before})
    assert (writes, unchanged, refused) == (
        [WriteState(T0, LeadershipInfo(leader, isr, 4, EPOCH, 0, 9), (1, 3))],
        [],
        [],
    )
    assert made.replica_state(replica) is ReplicaState.ONLINE
    assert replica_state.removed_from_isr(made, 2, writes) == [SendLeaderAndIsr((1, 3), T0)]
    assert made.replica_state(replica) is ReplicaState.OFFLINE and made.leadership[T0] is writes[0].info


def test_a_replica_outside_the_isr_needs_no_write_and_deleted_topics_no_message() -> None:
    made = context()
    made.leadership[T0], made.replica_states[Replica(T0, 2)] = info(1, [1]), ReplicaState.ONLINE
    made.topics_to_delete = {"t"}
    writes, _, unchanged = replica_state.remove_from_isr(made, 2, {T0: info(1, [1])})
    assert writes == [] and unchanged == [WriteState(T0, info(1, [1]), (1, 3))]
    assert replica_state.was_not_in_isr(made, 2, unchanged) == []
    assert replica_state.remove_from_isr(made, 2, {T0: None}) == ([], [], [])


def test_replicas_of_a_partition_that_was_never_led_just_go() -> None:
    made = context()
    made.replica_states[Replica(T0, 2)] = ReplicaState.NEW
    sends, led, others = replica_state.stop(made, [Replica(T0, 2)])
    assert led == [] and sends == [SendStopReplica(2, T0)]
    assert replica_state.offline_without_leadership(made, others) == [SendUpdateMetadata(None, [T0])]
    assert made.replica_state(Replica(T0, 2)) is ReplicaState.OFFLINE


def test_deletion_stops_with_delete_and_ends_outside_the_assignment() -> None:
    made = context((1, 2))
    replica = Replica(T0, 2)
    made.replica_states[replica] = ReplicaState.OFFLINE
    sends, _ = replica_state.move(made, [replica], ReplicaEvent.START_DELETION)
    assert sends == [SendStopReplica(2, T0, delete=True)]
    replica_state.move(made, [replica], ReplicaEvent.COMPLETE_DELETION)
    assert replica_state.move(made, [replica], ReplicaEvent.FORGET) == ([], [])
    assert made.replicas(T0) == (1,) and made.replica_states == {}


# -- assignments (KIP-455) --


def test_reassignment_keeps_everybody_until_it_is_done() -> None:
    moving = ReplicaAssignment((2, 1)).reassign_to([0, 1])
    assert moving == ReplicaAssignment((0, 1, 2), (0,), (2,))
    assert (moving.target, moving.origin, moving.is_being_reassigned) == ((0, 1), (1, 2), True)
    assert moving.reassign_to(moving.origin) == ReplicaAssignment((1, 2))
    assert not ReplicaAssignment((2, 1)).is_being_reassigned
