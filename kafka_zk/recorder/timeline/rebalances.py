"""Combines the events of a group's members into rebalances: cause, silences, moved partitions, requests. Pure.

A group's rebalance begins when a member joins or leaves, a member begins one, or a partition stops. It ends when all
members that began one are done, every stopped partition is delivered again, and nothing more happens for ``QUIET_MS``,
because members and the observer notice a change at different times. A rebalance also ends ``UNANSWERED_MS`` after a
change without any reaction, or after ``STUCK_MS`` if partitions have no member. Owner znodes show the deliveries of
members without a trace. Events arrive in the order of their times.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.events import (
    DeliveryStarted,
    DeliveryStopped,
    GenerationWritten,
    MemberLeft,
    MemberRegistered,
    OwnershipLost,
    RebalanceEvent,
    RebalanceFinished,
    RebalanceStarted,
)
from kafka_zk.recorder.timeline.causes import MemberChange, MemberChanges, other_causes
from kafka_zk.recorder.timeline.deliveries import Deliveries, Silence, together
from kafka_zk.recorder.timeline.events import (
    FIRST_LOOK,
    OBSERVER,
    FirstLook,
    MemberGone,
    MemberSeen,
    OwnersGone,
    OwnersSeen,
)
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import WatchFired
from kafka_zk.registry.znodes.consumers import consumer_of

QUIET_MS = 300
UNANSWERED_MS = 1_500
STUCK_MS = 5_000


class CoordinatedBy(StrEnum):
    ZOOKEEPER = "zookeeper"
    BROKER = "broker"


@dataclass(frozen=True, slots=True)
class GroupRebalance:
    """A finished rebalance. Members are named by consumer id."""

    number: int
    began_ms: int
    duration_ms: int
    members: MemberChanges
    causes: tuple[str, ...]  # changes of members, then other causes
    strategy: str
    silences: tuple[Silence, ...]
    first_owners: dict[TopicPartition, str]  # partition delivered for the first time -> member
    untouched_count: int  # partitions that never stopped
    requests: dict[str, int]  # requests to ZooKeeper or the coordinator by member; omits uncounted members
    notifications: dict[str, int]  # by member: watches that fired, or heartbeats that announced the rebalance
    coordinated_by: CoordinatedBy = CoordinatedBy.ZOOKEEPER

    @property
    def moved(self) -> tuple[Silence, ...]:
        return tuple(each for each in self.silences if each.after is not None and each.after != each.before)

    @property
    def stayed(self) -> tuple[Silence, ...]:
        """Silences of partitions that continued with the same member."""
        return tuple(each for each in self.silences if each.after == each.before)

    @property
    def orphaned(self) -> tuple[Silence, ...]:
        """Silences of partitions that no longer have a member."""
        return tuple(each for each in self.silences if each.after is None)

    @property
    def longest_silence_ms(self) -> int | None:
        """The longest silence of a partition that is delivered again; None if there was no silence, or if it is
        unknown."""
        return max((each.silent_ms for each in self.silences if each.silent_ms is not None), default=None)


@dataclass(slots=True)
class _Round:
    began_ms: int
    last_ms: int
    held: dict[TopicPartition, str]
    requests_before: dict[str, int]
    requests_after: dict[str, int] = field(default_factory=dict)
    members: MemberChange = field(default_factory=MemberChange)
    causes: dict[str | int, None] = field(default_factory=dict)  # an int: a generation, whose reason is the cause
    answered: bool = False  # True if a member has reacted to the last change of members or assignment
    strategy: str = ""
    silences: dict[TopicPartition, list[Silence]] = field(default_factory=dict)
    notifications: dict[str, int] = field(default_factory=dict)


class Rebalances:
    """Call ``add`` with events and ``advance`` with the time; ``advance`` returns a finished rebalance.

    For ZooKeeper groups; see ``broker_group.BrokerGroupRebalances`` for broker-coordinated ones.
    """

    coordinated_by: ClassVar[CoordinatedBy] = CoordinatedBy.ZOOKEEPER

    def __init__(self) -> None:
        self.deliveries = Deliveries()
        self._members: set[str] = set()
        self._former: set[str] = set()  # current and former members
        self.traced: set[str] = set()
        """Members that write traces."""
        self._busy: set[str] = set()
        self._reported_stopped: set[TopicPartition] = set()  # partitions already reported as having no member
        self._requests: dict[str, int] = {}
        self._last_counts: dict[str, int] = {}  # the request count in each member's last event
        self._newcomers: set[str] = set()  # members whose requests count for the next rebalance
        self._generations: dict[int, str] = {}  # generation -> the leader's reason for writing it
        self._round: _Round | None = None
        self._count = 0

    @property
    def in_progress(self) -> bool:
        return self._round is not None

    @property
    def began_ms(self) -> int | None:
        return self._round.began_ms if self._round is not None else None

    @property
    def busy(self) -> tuple[str, ...]:
        """Members that have begun a rebalance and are not done, sorted."""
        return tuple(sorted(self._busy))

    @property
    def members(self) -> tuple[str, ...]:
        """The current members, sorted."""
        return tuple(sorted(self._members))

    def add(self, event: Event, request_count: int | None = None) -> None:
        """``request_count``: requests that the event's member has sent so far."""
        if isinstance(event, RebalanceEvent):
            self.traced.add(event.actor)
            self._of_member(event)
        else:
            self._of_observer(event)
        if request_count is not None:
            self._count_requests(event.actor, request_count)
        if self._round is not None:
            self._round.requests_after |= self._requests

    def _count_requests(self, member: str, count: int) -> None:
        """Count the event's requests; a member that was restarted counts from 0 again."""
        before = self._last_counts.get(member, 0)
        self._requests[member] = self._requests.get(member, 0) + count - (before if count >= before else 0)
        self._last_counts[member] = count

    def advance(self, now_ms: int) -> GroupRebalance | None:
        """A finished rebalance, if nothing more happens before ``now_ms``."""
        if self._round is None or self._awaits_members():
            return None
        unless_stuck_ms = QUIET_MS if self._round.answered else UNANSWERED_MS
        needed_ms = STUCK_MS if self._waits() else unless_stuck_ms
        return self._finish(self._round) if now_ms - self._round.last_ms >= needed_ms else None

    def end(self) -> GroupRebalance | None:
        """A finished rebalance, if nothing more happens at all."""
        over = self._round is not None and not self._awaits_members() and not self._waits()
        return self._finish(self._round) if over and self._round is not None else None

    def _awaits_members(self) -> bool:
        return bool(self._busy)

    def _waits(self) -> bool:
        """True if partitions stopped and members exist that could take them."""
        return bool(self._members) and not self.deliveries.stopped.keys() <= self._reported_stopped

    # -- events of members --

    def _of_member(self, event: RebalanceEvent) -> None:
        match event:
            case MemberRegistered():
                self._came(event.time_ms, event.actor)
            case GenerationWritten():
                self._generations[event.generation] = event.cause
                self._begin(event.time_ms, answers=False if event.moved else None)
            case RebalanceStarted():
                current = self._begin(event.time_ms, answers=True)
                current.causes[event.generation or event.cause] = None
                current.strategy = event.strategy or current.strategy
                self._busy.add(event.actor)
            case RebalanceFinished():
                self._busy.discard(event.actor)
                self._begin(event.time_ms, answers=True)
            case DeliveryStopped():
                self._stop(event.time_ms, event.actor, event.partitions)
            case OwnershipLost():
                self._stop(event.time_ms, event.actor, event.partitions)
                if event.cause == "the session ended":
                    self._gone(event.time_ms, event.actor)
            case DeliveryStarted():
                self._start(event.time_ms, event.actor, event.offsets)
            case MemberLeft():
                self._begin(event.time_ms, answers=False).members.left(event.actor)
                self._members.discard(event.actor)
                self._busy.discard(event.actor)
            case _:
                return

    # -- events of the observer --

    def _of_observer(self, event: Event) -> None:
        match event:
            case FirstLook():
                for member in self._members.difference(event.members):
                    self._forget(event.time_ms, member)
            case MemberSeen() if event.cause == FIRST_LOOK:
                self._members.add(event.consumer_id)
                self._former.add(event.consumer_id)
            case MemberSeen() if event.consumer_id not in self._members:
                self._came(event.time_ms, event.consumer_id)
            case MemberGone():
                self._gone(event.time_ms, event.consumer_id)
            case OwnersSeen() if event.cause == FIRST_LOOK:
                for tp in event.offsets.keys() - self.deliveries.by.keys():
                    self.deliveries.start(event.time_ms, consumer_of(event.owner), tp)
            case OwnersSeen() if consumer_of(event.owner) not in self.traced:
                self._start(event.time_ms, consumer_of(event.owner), event.offsets)
            case OwnersGone() if consumer_of(event.owner) not in self.traced:
                self._stop(event.time_ms, consumer_of(event.owner), event.partitions)
            case WatchFired() if self._round is not None and event.type is not EventType.NONE:
                if event.actor != OBSERVER:
                    fired = self._round.notifications
                    fired[event.actor] = fired.get(event.actor, 0) + 1
            case _:
                return

    # -- the rebalance --

    def _begin(self, time_ms: int, *, answers: bool | None) -> _Round:
        """``answers``: True for a reaction to a change, False for a change."""
        if self._round is None:
            known = {member: count for member, count in self._requests.items() if member not in self._newcomers}
            self._round = _Round(time_ms, time_ms, self.deliveries.before(), known)
        self._round.last_ms = max(self._round.last_ms, time_ms)
        if answers is not None:
            self._round.answered = answers
        return self._round

    def _came(self, time_ms: int, member: str) -> None:
        if member not in self._former:
            self._newcomers.add(member)
        self._busy.discard(member)
        self._begin(time_ms, answers=False).members.came(member, before=member in self._former)
        self._members.add(member)
        self._former.add(member)

    def _gone(self, time_ms: int, member: str) -> None:
        if member not in self._members:
            return
        self._begin(time_ms, answers=False).members.gone(member)
        self._members.discard(member)
        self._busy.discard(member)
        self.deliveries.stop(time_ms, member, self.deliveries.held_by(member), noticed=True)

    def _forget(self, time_ms: int, member: str) -> None:
        self._members.discard(member)
        self._busy.discard(member)
        held = self.deliveries.held_by(member)
        self.deliveries.stop(time_ms, member, held, noticed=True)
        self._reported_stopped.update(held)

    def _stop(self, time_ms: int, member: str, partitions: Iterable[TopicPartition]) -> None:
        held = [tp for tp in partitions if self.deliveries.by.get(tp) == member]
        if held:
            self._begin(time_ms, answers=True)
            self.deliveries.stop(time_ms, member, held, noticed=False)

    def _start(self, time_ms: int, member: str, partitions: Iterable[TopicPartition]) -> None:
        current = self._begin(time_ms, answers=True)
        for tp in partitions:
            self._reported_stopped.discard(tp)
            silence = self.deliveries.start(time_ms, member, tp)
            if silence is not None:
                current.silences.setdefault(tp, []).append(silence)

    def _finish(self, current: _Round) -> GroupRebalance:
        causes = [self._cause(each) for each in current.causes]
        current.members.infer(causes, self._members)
        members = current.members.result(self.traced)
        silences = [together(each) for tp, each in current.silences.items() if tp in current.held]
        for tp, stop in self.deliveries.stopped.items():
            if tp in current.held and tp not in self._reported_stopped:
                silences.append(Silence(tp, stop.before, None, None, stop.noticed))
        self._reported_stopped.update(self.deliveries.stopped)
        if not self._members:
            self.deliveries.stopped.clear()  # without members, no partition can be taken over
            self._reported_stopped.clear()
        first_owners = {tp: by for tp, by in sorted(self.deliveries.by.items()) if tp not in current.held}
        touched = {each.partition for each in silences} | first_owners.keys()
        requests = {
            member: count - current.requests_before.get(member, 0)
            for member, count in sorted(current.requests_after.items())
        }
        self._newcomers.clear()
        self._round = None
        self._count += 1
        return GroupRebalance(
            self._count,
            current.began_ms,
            current.last_ms - current.began_ms,
            members,
            (*members.sentences(), *other_causes(causes, members)),
            current.strategy,
            tuple(sorted(silences, key=lambda each: each.partition)),
            first_owners,
            sum(tp not in touched for tp in self.deliveries.by),
            {member: count for member, count in requests.items() if count},
            dict(sorted(current.notifications.items())),
            self.coordinated_by,
        )

    def _cause(self, cause: str | int) -> str:
        return self._generations.get(cause, f"generation {cause}") if isinstance(cause, int) else cause
