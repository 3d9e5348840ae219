"""Combines the events of a broker-coordinated group into rebalances, as ``rebalances`` does for ZooKeeper groups.

A rebalance begins with the group's state PreparingRebalance. It ends when every stopped partition is delivered again,
which in a cooperative group takes two generations. An eager member gives up all partitions before it joins, so they are
silent from its JoinGroup until the assignment; a cooperative member gives up only the partitions that it loses.
Members' own reports of stops and starts (``rebalance.events``) take precedence. Without brokers' events, observed
states and the records of generations are used; a silence then begins when the rebalance was observed. Pure.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.events import (
    AssignmentCompleted,
    CoordinatorEvent,
    Departure,
    JoinCompleted,
    MemberDeparted,
    MemberIdAssigned,
    MemberJoined,
    MemberSynced,
    MemberToldToRejoin,
    RebalancePrepared,
    StaticMemberReturned,
)
from kafka_zk.broker.group.states import GroupState
from kafka_zk.rebalance.events import DeliveryStarted, DeliveryStopped
from kafka_zk.recorder.timeline.events import FIRST_LOOK, GenerationSeen, SeenMember, StateSeen
from kafka_zk.recorder.timeline.rebalances import CoordinatedBy, GroupRebalance, Rebalances

RECORD_MS = 2_000
"""How long to wait for the record of a generation after the group has become stable."""
_REBALANCING = (GroupState.PREPARING_REBALANCE.value, GroupState.COMPLETING_REBALANCE.value)
_WITHOUT_MEMBERS = (GroupState.EMPTY.value, GroupState.DEAD.value)


class BrokerGroupRebalances(Rebalances):
    """Events use short names of members (``member_names``)."""

    coordinated_by: ClassVar[CoordinatedBy] = CoordinatedBy.BROKER

    def __init__(self) -> None:
        super().__init__()
        self._preparing = False  # the group prepares a rebalance, or waits for the assignment
        self._generation = -1  # the generation whose assignment is known
        self._assigned: Mapping[str, tuple[TopicPartition, ...]] = {}
        self._coordinator_reports = False  # True if the coordinator writes traces
        self._seen_in: object = None  # the rebalance in which the last generation's record was seen
        self._record_due_ms: int | None = None  # until this time, wait for the record of a stable group
        self._deliver_themselves: set[str] = set()  # members that report their stops and starts

    def add(self, event: Event, request_count: int | None = None) -> None:
        """Requests are counted from the coordinator's events; ``request_count`` is ignored."""
        if isinstance(event, DeliveryStarted | DeliveryStopped):
            self._deliver_themselves.add(event.actor)
        super().add(event)

    def advance(self, now_ms: int) -> GroupRebalance | None:
        if self._record_due_ms is not None and now_ms < self._record_due_ms:
            return None
        return super().advance(now_ms)

    def _awaits_members(self) -> bool:
        return self._preparing or super()._awaits_members()

    def _of_observer(self, event: Event) -> None:
        if isinstance(event, CoordinatorEvent):
            self._coordinator_reports = True
            self._of_coordinator(event)
        elif isinstance(event, GenerationSeen):
            if event.cause == FIRST_LOOK:
                self._first_look(event)
            elif event.generation > self._generation:
                self._generation_seen(event)
        elif isinstance(event, StateSeen) and not self._coordinator_reports:
            self._state_seen(event)

    # -- events of the coordinator --

    def _of_coordinator(self, event: CoordinatorEvent) -> None:
        match event:
            case MemberIdAssigned():
                self._asked(event.member)
            case MemberJoined():
                self._joined(event)
            case MemberToldToRejoin():
                self._asked(event.member)
                if self._round is not None:
                    told = self._round.notifications
                    told[event.member] = told.get(event.member, 0) + 1
            case RebalancePrepared():
                current = self._begin(event.time_ms, answers=True)
                if not current.members and not current.causes:
                    current.causes[event.cause] = None
                self._preparing = True
                self._busy.update(self._members)
            case JoinCompleted():
                self._begin(event.time_ms, answers=True).strategy = event.protocol
                self._busy.clear()
                self._preparing = bool(event.members)
            case MemberSynced():
                self._asked(event.member)
                if not self._preparing:
                    self._deliver(event.time_ms, {event.member: self._assigned.get(event.member, ())})
            case AssignmentCompleted():
                self._generation = event.generation
                self._assignment_valid(event.time_ms, event.assignments)
            case MemberDeparted():
                self._departed(event)
            case StaticMemberReturned():
                self._begin(event.time_ms, answers=True).members.came(event.member, before=True)
                held = self.deliveries.held_by(event.member)
                self.deliveries.stop(event.time_ms, event.member, held, noticed=True)

    def _joined(self, event: MemberJoined) -> None:
        member = event.member
        self.traced.add(member)
        self._asked(member)
        if event.is_new:
            self._came(event.time_ms, member)
        elif member not in self._deliver_themselves:
            self._stop(event.time_ms, member, set(self.deliveries.held_by(member)).difference(event.owned))
        self._busy.discard(member)

    def _departed(self, event: MemberDeparted) -> None:
        member = event.member
        match event.departure:
            case Departure.LEFT:
                self._asked(member)
                self._begin(event.time_ms, answers=False).members.left(member)
                self._members.discard(member)
                self.deliveries.stop(event.time_ms, member, self.deliveries.held_by(member), noticed=False)
            case Departure.SESSION_ENDED:
                self._gone(event.time_ms, member)
            case Departure.DROPPED:
                self.traced.discard(member)  # the member's session has not ended
                self._gone(event.time_ms, member)
                self._begin(event.time_ms, answers=False).causes[f"{member} {event.cause}"] = None
        self._busy.discard(member)

    def _assignment_valid(self, time_ms: int, assignments: Mapping[str, tuple[TopicPartition, ...]]) -> None:
        self._preparing = False
        self._busy.clear()
        self._assigned = assignments
        self._begin(time_ms, answers=True)
        for member in self._without_reports(assignments):
            self._stop(time_ms, member, set(self.deliveries.held_by(member)).difference(assignments[member]))
        self._deliver(time_ms, assignments)

    def _deliver(self, time_ms: int, assignments: Mapping[str, tuple[TopicPartition, ...]]) -> None:
        for member in self._without_reports(assignments):
            if new := [tp for tp in assignments[member] if self.deliveries.by.get(tp) != member]:
                self._start(time_ms, member, new)

    def _without_reports(self, members: Iterable[str]) -> list[str]:
        return [member for member in members if member not in self._deliver_themselves]

    def _asked(self, member: str) -> None:
        self._requests[member] = self._requests.get(member, 0) + 1

    # -- events of the observer --

    def _first_look(self, event: GenerationSeen) -> None:
        present = {each.member: each.assigned for each in event.members}
        for member in self._members.difference(present):
            self._forget(event.time_ms, member)
        self._members.update(present)
        self._former.update(present)
        for member, assigned in present.items():
            for tp in assigned:
                self.deliveries.start(event.time_ms, member, tp)

    def _state_seen(self, event: StateSeen) -> None:
        if event.state in _REBALANCING:
            self._begin(event.time_ms, answers=True)
            self._preparing = True
            return
        self._preparing = False
        if self._round is not None and self._round is not self._seen_in:
            self._record_due_ms = event.time_ms + RECORD_MS
        if event.state in _WITHOUT_MEMBERS:
            for member in tuple(self._members):
                self._gone(event.time_ms, member)

    def _generation_seen(self, event: GenerationSeen) -> None:
        self._generation = event.generation
        self._record_due_ms = None
        self._seen_in = current = self._begin(event.time_ms, answers=True)
        current.strategy = event.protocol
        present = {each.member: each for each in event.members}
        stopped_ms = min(current.began_ms, event.joined_ms) if event.joined_ms >= 0 else current.began_ms
        for member in self._members.difference(present):
            self._gone(stopped_ms, member)
        for member in present.keys() - self._members:
            self._came(event.time_ms, member)
        for member in self._without_reports(present):
            self._stop(stopped_ms, member, _given_back(self.deliveries.held_by(member), present[member]))
        self._assignment_valid(event.time_ms, {member: each.assigned for member, each in present.items()})


def _given_back(held: tuple[TopicPartition, ...], seen: SeenMember) -> set[TopicPartition]:
    return set(held).difference(seen.owned)
