"""Puts the events of a group's members together into rebalances: who stopped for how long, what moved, what it cost.

A rebalance of the group begins when the first member begins one, or when a partition stops; it is over when all members
that began are done and every partition that stopped is delivered again, or nobody is left to do it. Events come in the
order of their times. Pure. Tests: tests/kafka_zk/timeline/test_rebalances.py.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_zk.rebalance.events import (
    DeliveryStarted,
    DeliveryStopped,
    GenerationWritten,
    MemberLeft,
    MemberRegistered,
    OwnershipLost,
    RebalanceFinished,
    RebalanceStarted,
)
from kafka_zk.registry.client import EventType
from kafka_zk.registry.events import Event, WatchFired
from kafka_zk.storage.types import TopicPartition
from kafka_zk.timeline.events import MemberGone, MemberSeen


class Silence(NamedTuple):
    """A partition that nobody delivered for ``silent_ms``, and by whom it was delivered before and after.

    ``noticed``: the member before died; it counts from when that was noticed, not from its last delivery. ``silent_ms``
    is None when nobody took it over, or when it was taken over before the observer noticed anything.
    """

    partition: TopicPartition
    before: str
    after: str | None
    silent_ms: int | None
    noticed: bool


@dataclass(frozen=True, slots=True)
class GroupRebalance:
    """One rebalance of a group. Members are named by their consumer ids."""

    number: int
    began_ms: int
    duration_ms: int
    causes: tuple[str, ...]
    strategy: str
    silences: tuple[Silence, ...]
    first_owners: tuple[TopicPartition, ...]  # delivered for the first time
    untouched_count: int  # delivered all the time
    requests: dict[str, int]  # to ZooKeeper, by member; members that do not count are left out
    notifications: dict[str, int]  # watches that fired, by member

    @property
    def moved(self) -> tuple[Silence, ...]:
        """Those that changed hands."""
        return tuple(each for each in self.silences if each.after is not None and each.after != each.before)


class _Stop(NamedTuple):
    since_ms: int
    before: str
    noticed: bool


@dataclass(slots=True)
class _Round:
    began_ms: int
    requests_before: dict[str, int]
    causes: dict[str, None] = field(default_factory=dict)
    strategy: str = ""
    silences: list[Silence] = field(default_factory=list)
    first_owners: list[TopicPartition] = field(default_factory=list)
    notifications: dict[str, int] = field(default_factory=dict)


class Rebalances:
    """Feed it with ``add``; it answers with a rebalance when one is over."""

    def __init__(self) -> None:
        self._members: set[str] = set()
        self._deliverer: dict[TopicPartition, str] = {}
        self._stopped: dict[TopicPartition, _Stop] = {}
        self._busy: set[str] = set()
        self._requests: dict[str, int] = {}
        self._newcomers: set[str] = set()  # since the last rebalance; all that they asked belongs to the next
        self._generations: dict[int, str] = {}  # why the leader wrote each
        self._round: _Round | None = None
        self._count = 0

    @property
    def in_progress(self) -> bool:
        """Whether a rebalance has begun and is not over."""
        return self._round is not None

    def add(self, event: Event, request_count: int | None = None) -> GroupRebalance | None:
        """Take in an event; ``request_count``: how many requests its member had sent to ZooKeeper until then."""
        match event:
            case MemberRegistered():
                self._members.add(event.actor)
                self._newcomers.add(event.actor)
            case MemberSeen():
                self._members.add(event.consumer_id)
            case GenerationWritten():
                self._generations[event.generation] = event.cause
            case RebalanceStarted():
                current = self._begin(event.time_ms)
                current.causes[self._generations.get(event.generation, event.cause)] = None
                current.strategy = event.strategy or current.strategy
                self._busy.add(event.actor)
            case RebalanceFinished():
                self._busy.discard(event.actor)
            case DeliveryStopped() | OwnershipLost():
                self._stop(event.time_ms, event.actor, event.partitions, noticed=False)
            case DeliveryStarted():
                self._start(event)
            case MemberGone():
                self._gone(event.time_ms, event.consumer_id)
            case MemberLeft():
                self._members.discard(event.actor)
                self._busy.discard(event.actor)
            case WatchFired() if self._round is not None and event.type is not EventType.NONE:
                fired = self._round.notifications
                fired[event.actor] = fired.get(event.actor, 0) + 1
        if request_count is not None:
            self._requests[event.actor] = request_count
        return self._finish(event.time_ms)

    def _begin(self, time_ms: int) -> _Round:
        if self._round is None:
            known = {member: count for member, count in self._requests.items() if member not in self._newcomers}
            self._round = _Round(time_ms, known)
        return self._round

    def _stop(self, time_ms: int, member: str, partitions: tuple[TopicPartition, ...], *, noticed: bool) -> None:
        self._begin(time_ms)
        for tp in partitions:
            if self._deliverer.get(tp) == member:
                del self._deliverer[tp]
                self._stopped[tp] = _Stop(time_ms, member, noticed)

    def _start(self, event: DeliveryStarted) -> None:
        current = self._begin(event.time_ms)
        for tp in event.offsets:
            stop = self._stopped.pop(tp, None)
            if stop is not None:
                silent_ms = event.time_ms - stop.since_ms
                current.silences.append(Silence(tp, stop.before, event.actor, silent_ms, stop.noticed))
            elif tp not in self._deliverer:
                current.first_owners.append(tp)
            elif self._deliverer[tp] != event.actor:  # its death is not known yet
                current.silences.append(Silence(tp, self._deliverer[tp], event.actor, None, True))
            self._deliverer[tp] = event.actor

    def _gone(self, time_ms: int, member: str) -> None:
        self._members.discard(member)
        self._busy.discard(member)
        held = tuple(tp for tp, deliverer in self._deliverer.items() if deliverer == member)
        if held:
            self._begin(time_ms).causes[f"{member} is gone"] = None
            self._stop(time_ms, member, held, noticed=True)

    def _finish(self, time_ms: int) -> GroupRebalance | None:
        current = self._round
        if current is None or self._busy or (self._stopped and self._members):
            return None
        for tp, stop in sorted(self._stopped.items()):  # nobody is left
            current.silences.append(Silence(tp, stop.before, None, None, stop.noticed))
        self._stopped.clear()
        self._newcomers.clear()
        self._round = None
        self._count += 1
        touched = {each.partition for each in current.silences} | set(current.first_owners)
        requests = {
            member: count - current.requests_before.get(member, 0) for member, count in sorted(self._requests.items())
        }
        return GroupRebalance(
            self._count,
            current.began_ms,
            time_ms - current.began_ms,
            tuple(current.causes),
            current.strategy,
            tuple(sorted(current.silences, key=lambda each: each.partition)),
            tuple(sorted(current.first_owners)),
            sum(tp not in touched for tp in self._deliverer),
            {member: count for member, count in requests.items() if count},
            dict(sorted(current.notifications.items())),
        )
