"""Plans reassignments and decides when they are complete (KIP-455). Pure.

In both phases, the assignment lists the target's replicas, then the replicas to be removed:

    A   the topic's znode and the leader learn the replicas being added; these fetch until they are in the ISR
    B   the whole target is in the ISR: a target replica leads, other replicas are deleted, the znode is final

Topic znode and partition state contain all that a failover needs. A replaced or cancelled reassignment becomes a
reassignment to another target; replicas that the new target does not need are removed immediately.
Source: KafkaController.onPartitionReassignment, processApiPartitionReassignment@3.9.
"""

from collections.abc import Collection, Sequence

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.context import Context, LeadershipInfo, ReplicaAssignment
from kafka_zk.protocol.errors import ApiError, ErrorCode


def plan(
    context: Context, tp: TopicPartition, target: Sequence[int] | None, *, needs_live: bool
) -> ReplicaAssignment | ApiError:
    """The assignment while moving to ``target`` (None: cancel the move), or why it is rejected.

    ``needs_live``: replicas can only be added on live brokers.
    """
    current = context.assignment(tp)
    if target is None and not current.is_being_reassigned:
        return ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    wanted = current.origin if target is None else target
    problem = _problem(wanted)
    if problem is not None:
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    planned = current.reassign_to(wanted)
    live = {broker_id for broker_id in context.brokers if context.is_live(broker_id)}
    if target is not None and needs_live and not live.issuperset(planned.adding):
        return ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Replica assignment has brokers that are not alive. Replica list: {_listed(planned.adding)}, "
            f"live broker list: {_listed(sorted(live))}",
        )
    if not current.replicas or tp.topic in context.topics_to_delete:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    if unneeded(current, planned) and not _has_leader_without(context, tp, planned.replicas):
        return ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"No in-sync replica would be left among {_listed(planned.replicas)}.",
        )
    return planned


def unneeded(current: ReplicaAssignment, planned: ReplicaAssignment) -> list[int]:
    """Replicas that the previous reassignment was adding and the new one does not need."""
    return [broker_id for broker_id in current.replicas if broker_id not in planned.replicas]


def is_complete(context: Context, tp: TopicPartition, info: LeadershipInfo | None) -> bool:
    """True if phase B can begin according to ``info``, which was just read: all target replicas are in sync, and one of
    them can lead."""
    assignment = context.assignment(tp)
    if info is None:
        return False
    in_sync = [broker_id for broker_id in assignment.target if broker_id in info.isr]
    if assignment.is_being_reassigned and len(in_sync) < len(assignment.target):
        return False
    return any(context.is_replica_online(broker_id, tp) for broker_id in in_sync)


def needs_leader(context: Context, tp: TopicPartition, replicas: Collection[int]) -> bool:
    """True unless the leader is online and among these replicas."""
    info = context.leadership.get(tp)
    return info is None or info.leader not in replicas or not context.is_replica_online(info.leader, tp)


def _has_leader_without(context: Context, tp: TopicPartition, replicas: Collection[int]) -> bool:
    info = context.leadership.get(tp)
    return info is None or any(member in replicas and context.is_replica_online(member, tp) for member in info.isr)


def _problem(target: Sequence[int]) -> str | None:
    if not target:
        return "Empty replica list specified in partition reassignment."
    if len(set(target)) != len(target):
        return f"Duplicate replica ids in partition reassignment replica list: {_listed(target)}"
    if any(broker_id < 0 for broker_id in target):
        return f"Invalid broker id in replica list: {_listed(target)}"
    return None


def _listed(broker_ids: Collection[int]) -> str:
    return f"[{', '.join(map(str, broker_ids))}]"
