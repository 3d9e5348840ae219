"""The replica state machine: what transitions need from ZooKeeper and send to brokers. Pure.

    NonExistent -> New                          LeaderAndIsr (isNew) to the replica if the partition has a leader
    New -> Online                               nothing: the election has already notified the replica
    Online, Offline, Ineligible -> Online       LeaderAndIsr to the replica
    New, Online, Offline, Ineligible -> Offline StopReplica to it, removal from the ISR, LeaderAndIsr to the others
    Offline -> DeletionStarted                  StopReplica (delete) to it
    DeletionStarted -> DeletionSuccessful       nothing
    DeletionStarted, Offline -> Ineligible      nothing
    DeletionSuccessful -> NonExistent           it leaves the assignment

Only the transition to Offline writes to ZooKeeper: ``stop`` begins it, ``remove_from_isr`` returns the writes, and
``removed_from_isr``, ``was_not_in_isr`` or ``offline_without_leadership`` finish it.

Source: ReplicaStateMachine.scala@3.9. Legality: ``states.REPLICA_TRANSITIONS``.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.context import NO_LEADER, Context, LeadershipInfo, Replica
from kafka_zk.broker.controller.effects import (
    FailedChange,
    Send,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    WriteState,
)
from kafka_zk.broker.controller.partition_state import why_final
from kafka_zk.broker.controller.states import ReplicaEvent, ReplicaState


def initialize(context: Context, partitions: Iterable[TopicPartition]) -> tuple[list[Replica], list[Replica]]:
    """Set the states at failover. Returns the online replicas, then the offline ones.

    Offline replicas are marked ineligible for deletion until their broker is back, because their topic may have to be
    deleted.
    """
    online: list[Replica] = []
    offline: list[Replica] = []
    for replica in context.replicas_of(partitions):
        if context.is_replica_online(replica.broker_id, replica.partition):
            context.replica_states[replica] = ReplicaState.ONLINE
            online.append(replica)
        else:
            context.replica_states[replica] = ReplicaState.DELETION_INELIGIBLE
            offline.append(replica)
    return online, offline


def move(context: Context, replicas: Collection[Replica], event: ReplicaEvent) -> tuple[list[Send], list[FailedChange]]:
    """Apply an event other than TAKE_OFFLINE. Raises IllegalTransition before anything moves."""
    context.require_legal_replicas(replicas, event)
    match event:
        case ReplicaEvent.CREATE:
            return _to_new(context, replicas)
        case ReplicaEvent.BRING_ONLINE:
            return _to_online(context, replicas), []
        case ReplicaEvent.START_DELETION:
            _enter(context, replicas, event.target)
            return [SendStopReplica(replica.broker_id, replica.partition, delete=True) for replica in replicas], []
        case ReplicaEvent.FORGET:
            for replica in replicas:
                assignment = context.assignment(replica.partition).without(replica.broker_id)
                context.assign(replica.partition, assignment)
                context.replica_states.pop(replica, None)
            return [], []
        case ReplicaEvent.COMPLETE_DELETION | ReplicaEvent.DEFER_DELETION:
            _enter(context, replicas, event.target)
            return [], []
        case ReplicaEvent.TAKE_OFFLINE:
            raise AssertionError("Offline may need a change of the ISR: use stop")


def stop(context: Context, replicas: Collection[Replica]) -> tuple[list[Send], list[Replica], list[Replica]]:
    """Begin to take replicas offline. Raises IllegalTransition.

    Returns: requests; replicas that may have to leave an ISR; those whose partition never had a leader or is being
        deleted.
    """
    context.require_legal_replicas(replicas, ReplicaEvent.TAKE_OFFLINE)
    sends: list[Send] = [SendStopReplica(replica.broker_id, replica.partition) for replica in replicas]
    led = [replica for replica in replicas if _has_leadership(context, replica.partition)]
    others = [replica for replica in replicas if not _has_leadership(context, replica.partition)]
    return sends, led, others


def remove_from_isr(
    context: Context, broker_id: int, current: Mapping[TopicPartition, LeadershipInfo | None]
) -> tuple[list[WriteState], list[FailedChange], list[WriteState]]:
    """Remove a broker's replicas from the ISRs in ``current``, the states in ZooKeeper.

    The last member stays, because only it can be elected (cleanly).

    Returns: states to write, failures, states that lack the broker already.
    """
    writes: list[WriteState] = []
    unchanged: list[WriteState] = []
    refused: list[FailedChange] = []
    for tp, info in current.items():
        others = tuple(replica for replica in context.replicas(tp) if replica != broker_id)
        if info is None:
            if tp.topic not in context.topics_to_delete:
                refused.append(FailedChange(tp, "it has no valid state znode"))
        elif broker_id not in info.isr and info.controller_epoch <= context.epoch:
            unchanged.append(WriteState(tp, info, others))
        elif (reason := why_final(context, info)) is not None:
            refused.append(FailedChange(tp, reason))
        else:
            writes.append(WriteState(tp, _without(context, broker_id, info), others))
    return writes, refused, unchanged


def removed_from_isr(context: Context, broker_id: int, written: Sequence[WriteState]) -> list[Send]:
    """Record that ISRs were written without the broker, whose replicas are now Offline."""
    _gone_offline(context, broker_id, written)
    return [
        SendLeaderAndIsr(write.recipients, write.partition)
        for write in written
        if write.partition.topic not in context.topics_to_delete
    ]


def was_not_in_isr(context: Context, broker_id: int, unchanged: Sequence[WriteState]) -> list[Send]:
    """Record that ISRs lacked the broker already; its replicas are now Offline. Only UpdateMetadata is sent, for
    clients."""
    _gone_offline(context, broker_id, unchanged)
    changed = [write.partition for write in unchanged if write.partition.topic not in context.topics_to_delete]
    return [SendUpdateMetadata(None, changed)] if changed else []


def offline_without_leadership(context: Context, replicas: Collection[Replica]) -> list[Send]:
    """Set replicas to Offline that ``stop`` returned because their partitions never had a leader or are being
    deleted."""
    context.require_legal_replicas(replicas, ReplicaEvent.TAKE_OFFLINE)
    _enter(context, replicas, ReplicaState.OFFLINE)
    changed = [r.partition for r in replicas if r.partition.topic not in context.topics_with_deletion_started]
    return [SendUpdateMetadata(None, changed)] if changed else []


def _has_leadership(context: Context, tp: TopicPartition) -> bool:
    """False once a deletion has started, because the state is then no longer read."""
    return tp in context.leadership and tp.topic not in context.topics_with_deletion_started


def _to_new(context: Context, replicas: Collection[Replica]) -> tuple[list[Send], list[FailedChange]]:
    sends: list[Send] = []
    refused: list[FailedChange] = []
    for replica in replicas:
        info = context.leadership.get(replica.partition)
        if info is not None and info.leader == replica.broker_id:
            refused.append(FailedChange(replica.partition, f"replica {replica.broker_id} leads and cannot be new"))
            continue
        context.replica_states[replica] = ReplicaState.NEW
        if info is not None:
            sends.append(SendLeaderAndIsr((replica.broker_id,), replica.partition, is_new=True))
    return sends, refused


def _to_online(context: Context, replicas: Collection[Replica]) -> list[Send]:
    sends: list[Send] = []
    for replica in replicas:
        tp, broker_id = replica
        if context.replica_state(replica) is ReplicaState.NEW:
            context.assign(tp, context.assignment(tp).with_replica(broker_id))
        elif tp in context.leadership:
            sends.append(SendLeaderAndIsr((broker_id,), tp))
        context.replica_states[replica] = ReplicaState.ONLINE
    return sends


def _gone_offline(context: Context, broker_id: int, states: Iterable[WriteState]) -> None:
    replicas = [Replica(write.partition, broker_id) for write in states]
    context.require_legal_replicas(replicas, ReplicaEvent.TAKE_OFFLINE)
    context.leadership.update({write.partition: write.info for write in states})
    _enter(context, replicas, ReplicaState.OFFLINE)


def _enter(context: Context, replicas: Collection[Replica], state: ReplicaState) -> None:
    for replica in replicas:
        context.replica_states[replica] = state


def _without(context: Context, broker_id: int, info: LeadershipInfo) -> LeadershipInfo:
    return LeadershipInfo(
        NO_LEADER if info.leader == broker_id else info.leader,
        info.isr if len(info.isr) == 1 else [member for member in info.isr if member != broker_id],
        info.leader_epoch + 1,
        context.epoch,
        info.leader_recovery_state,
        info.zk_version,
    )
