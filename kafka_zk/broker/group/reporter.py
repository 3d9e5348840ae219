"""Reports events of this broker's groups to observers."""

from kafka_zk.base.events import EventSource
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.events import AssignmentCompleted, MemberJoined
from kafka_zk.broker.group.requests import Happened
from kafka_zk.protocol.consumer_protocol import read_assignment, read_subscription
from kafka_zk.protocol.errors import ProtocolError


class GroupReporter:
    """Pass ``report`` to a ``GroupCoordinator``. Without observers, a call costs almost nothing."""

    def __init__(self, source: EventSource) -> None:
        self._source = source

    def report(self, group_id: str, happened: Happened) -> None:
        """Report an event; decodes the partitions in the clients' bytes."""
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
    """Partitions that a joining consumer owns, sorted; empty if this is not consumer metadata."""
    try:
        return tuple(sorted(read_subscription(metadata).owned))
    except ProtocolError:
        return ()


def assigned_partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    """Partitions assigned to a consumer, sorted; empty if this is not a consumer assignment."""
    try:
        return tuple(sorted(read_assignment(assignment)))
    except ProtocolError:
        return ()
