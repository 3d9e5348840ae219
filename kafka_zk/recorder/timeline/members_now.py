"""Each member's current partitions and last event. Pure."""

from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.events import (
    AssignmentCompleted,
    MemberJoined,
    MemberSynced,
    MemberToldToRejoin,
    StaticMemberReturned,
)
from kafka_zk.rebalance.events import Committed, RebalanceEvent
from kafka_zk.recorder.timeline.events import GenerationSeen, MemberGone, MemberSeen, OwnersGone, OwnersSeen
from kafka_zk.recorder.timeline.names import GroupNames, listed
from kafka_zk.recorder.timeline.rebalances import GroupRebalance, Rebalances
from kafka_zk.recorder.timeline.sentences import sentence
from kafka_zk.recorder.timeline.timeline import Told
from kafka_zk.registry.znodes.consumers import consumer_of


class LastEvent(NamedTuple):
    time_ms: int
    sentence: str


class MemberNow(NamedTuple):
    member: str
    partitions: tuple[TopicPartition, ...]
    last: LastEvent | None


class MembersNow:
    """Call ``add`` with every event of the group's timeline."""

    def __init__(self, group_id: str, rebalances: Rebalances) -> None:
        self._names = GroupNames(group_id)
        self._rebalances = rebalances
        self._last: dict[str, LastEvent] = {}
        self._tell_themselves: set[str] = set()
        self._assigned_generation: int | None = None  # of the last AssignmentCompleted

    def add(self, told: Told) -> None:
        """Update the members. Commits are ignored. The observer's events count only for members without a trace."""
        if isinstance(told, GroupRebalance) or isinstance(told.event, Committed):
            return
        event = told.event
        if isinstance(event, AssignmentCompleted):
            self._assigned_generation = event.generation
            for member, tps in event.assignments.items():
                self._last[member] = LastEvent(event.time_ms, f"gets {listed(tps)}")
            return
        if isinstance(event, GenerationSeen):
            if event.generation == self._assigned_generation:
                return  # the coordinator has reported more
            for each in event.members:
                self._last[each.member] = LastEvent(event.time_ms, f"has {listed(each.assigned)}")
            return
        match event:
            case RebalanceEvent():
                member = event.actor
                self._tell_themselves.add(member)
            case MemberSeen() | MemberGone():
                member = event.consumer_id
            case OwnersSeen() | OwnersGone():
                member = consumer_of(event.owner)
            case MemberJoined() | MemberToldToRejoin() | MemberSynced() | StaticMemberReturned():
                member = event.member
            case _:
                return
        if event.actor != member and member in self._tell_themselves:
            return
        said = sentence(event, self._names)
        if said is not None:
            self._last[member] = LastEvent(event.time_ms, str(said))

    def rows(self) -> list[MemberNow]:
        deliveries = self._rebalances.deliveries
        return [
            MemberNow(member, tuple(sorted(deliveries.held_by(member))), self._last.get(member))
            for member in self._rebalances.members
        ]
