"""Tells observers what happened in the groups of this broker."""

from kafka_zk.base.events import EventSource
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.events import AssignmentCompleted, MemberJoined
from kafka_zk.broker.group.requests import Happened
from kafka_zk.protocol.consumer_protocol import read_assignment, read_subscription
from kafka_zk.protocol.errors import ProtocolError


class GroupReporter:
    """Of one coordinator; ``tell`` is what it wants for ``tell``. Costs next to nothing without an observer."""

    def __init__(self, source: EventSource) -> None:
        self._source = source

    def tell(self, group_id: str, happened: Happened) -> None:
        """Tell the observer, with partitions in the place of the bytes that clients sent."""
        if not self._source.observed:
            return
        kind, cause, fields = happened
        if kind is MemberJoined:
            *member, metadata = fields
            fields = (*member, owned_partitions(metadata))
        elif kind is AssignmentCompleted:
            generation, assignments = fields
            fields = generation, {member: assigned_partitions(each) for member, each in assignments.items()}
        self._source.emit(kind, group_id, *fields, cause=cause)


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
