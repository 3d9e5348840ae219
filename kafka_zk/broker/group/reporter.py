"""Tells observers what happened in the groups of this broker."""

from typing import Any

from kafka_zk.base.events import EventSource
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group import events
from kafka_zk.broker.group.requests import (
    AssignmentDone,
    GenerationBegan,
    GroupEvent,
    MemberIdGiven,
    MemberJoins,
    MemberRemoved,
    MemberSyncs,
    MemberTold,
    RebalanceBegan,
    StaticMemberReplaced,
)
from kafka_zk.protocol.consumer_protocol import read_assignment, read_subscription
from kafka_zk.protocol.errors import ProtocolError


class GroupReporter:
    """Of one coordinator; ``tell`` is what it wants for ``tell``. Costs next to nothing while nobody observes."""

    def __init__(self, source: EventSource) -> None:
        self._source = source

    def tell(self, group_id: str, event: GroupEvent) -> None:
        """Tell the observer, in the words of ``kafka_zk.broker.group.events``."""
        if not self._source.observed:
            return
        emit = self._emit
        match event:
            case RebalanceBegan():
                emit(events.RebalancePrepared, group_id, event.generation_id, cause=event.reason)
            case MemberIdGiven():
                emit(events.MemberIdAssigned, group_id, event.member_id, cause="a new member needs an id")
            case MemberJoins(member, is_new):
                who = (member.member_id, is_new, member.group_instance_id, owned_partitions(member.metadata))
                emit(events.MemberJoined, group_id, *who, cause="joins" if is_new else "joins again")
            case MemberTold():
                emit(events.MemberToldToRejoin, group_id, event.member_id, cause="rebalance in progress")
            case GenerationBegan():
                generation = (event.generation_id, event.protocol_name or "", event.leader, event.member_ids)
                emit(events.JoinCompleted, group_id, *generation, cause="all members joined, or their time is over")
            case MemberSyncs():
                emit(events.MemberSynced, group_id, event.member_id, cause="SyncGroup")
            case AssignmentDone():
                partitions = {member: assigned_partitions(each) for member, each in event.assignments.items()}
                emit(events.AssignmentCompleted, group_id, event.generation_id, partitions, cause="the leader assigned")
            case MemberRemoved():
                emit(events.MemberDeparted, group_id, event.member_id, event.departure, cause=event.reason)
            case StaticMemberReplaced(instance_id, old, new):
                emit(events.StaticMemberReturned, group_id, instance_id, old, new, cause="static member returns")

    def _emit(self, kind: type[events.CoordinatorEvent], *fields: Any, cause: str) -> None:
        self._source.emit(kind, *fields, cause=cause)


def owned_partitions(metadata: bytes) -> tuple[TopicPartition, ...]:
    """What a consumer owns as it joins, sorted; nothing where this is no consumer's metadata."""
    try:
        return tuple(sorted(read_subscription(metadata).owned))
    except ProtocolError:
        return ()


def assigned_partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    """What a consumer is assigned, sorted; nothing where this is no consumer's assignment."""
    try:
        return tuple(sorted(read_assignment(assignment)))
    except ProtocolError:
        return ()
