"""The leader updates the group's assignment and reserves the partitions of absent static members. Pure.

The next assignment starts from the one in ZooKeeper, so a new leader continues where the old one stopped. If there is
no usable one (a new group, or one that ran a strategy without a leader), the leader reads the owners once. While the
group runs a strategy without a leader, the leader writes that strategy's name, so that no member mistakes an old
assignment for the current one.

An assignment is advice. A paused leader, or two members that both believe that they lead, may cause extra moves but no
harm, because a write depends on the version that was read. So only one of two writes succeeds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.assignment import Assignment, GroupSnapshot, consumer_of, group_snapshot
from kafka_zk.rebalance.effects import Effect, Note, ReadOwners, SetTimer, WriteAssignment
from kafka_zk.rebalance.events import StaticMemberAway
from kafka_zk.rebalance.group_strategy import AssignmentStrategy
from kafka_zk.rebalance.group_view import GroupView
from kafka_zk.registry.znodes.consumers import ConsumerRegistration
from kafka_zk.registry.znodes.group_assignment import GroupAssignment

TIMER = "static members"


class Proposal(NamedTuple):
    """``moved``: number of partitions that change hands."""

    assignment: GroupAssignment
    moved: int


class Leadership:
    """Inactive while this member does not lead. Call ``work`` after every change."""

    def __init__(self) -> None:
        self._busy = False  # a write or a read of owners is in progress
        self._owners: Assignment | None = None  # read once, if no usable assignment is written
        self._deadlines: dict[str, float] = {}  # absent static member -> when its partitions are released, in ms
        self._suspended_ms: float | None = None  # when the connection broke; None: connected
        self._proposal: Proposal | None = None  # the proposal that is being written
        self._refused: Proposal | None = None  # the last proposal that ZooKeeper refused

    def owners_read(self, owners: Assignment) -> None:
        self._busy, self._owners = False, owners

    def settled(self, *, refused: bool) -> Proposal:
        """Record the end of a write, and return its proposal. ``refused``: ZooKeeper will never accept it."""
        proposal, self._proposal = self._proposal, None
        assert proposal is not None
        self._busy, self._owners = False, None
        self._refused = proposal if refused else None
        return proposal

    def suspended(self, now_ms: float) -> None:
        """Pause the deadlines until ``resumed``, because the leader cannot see members return."""
        if self._suspended_ms is None:
            self._suspended_ms = now_ms

    def resumed(self, now_ms: float) -> None:
        """Connected again in the same session. (In a new session, the leader restarts the deadlines.)"""
        if self._suspended_ms is not None:
            away_ms, self._suspended_ms = now_ms - self._suspended_ms, None
            self._deadlines = {name: deadline_ms + away_ms for name, deadline_ms in self._deadlines.items()}

    def work(self, view: GroupView, now_ms: float, cause: str) -> Iterator[Effect]:
        """The effects needed now. Raises InvalidTopicFilter if a member's regular expression cannot be parsed."""
        strategy = view.strategy
        if not view.leads or strategy is None:
            self._deadlines.clear()
            self._owners = None
            return
        if self._busy or self._suspended_ms is not None or view.assignment_version is None:
            return
        if strategy.by_leader:
            yield from self._assign(view, strategy, now_ms, cause)
        elif view.written() is not None:
            yield from self._write(view, GroupAssignment(0, strategy.name, view.consumer_id, {}), 0)

    def _assign(self, view: GroupView, strategy: AssignmentStrategy, now_ms: float, cause: str) -> Iterator[Effect]:
        if view.members is None or view.partitions is None:
            return
        written = view.written()
        if written is None and self._owners is None:
            self._busy = True
            yield ReadOwners(frozenset(view.partitions))
            return
        previous = written.assignment if written is not None else self._owners or {}
        registrations = {name: member.registration for name, member in view.members.items()}
        away = dict(self._away(registrations, written))
        yield from self._count_down(away, now_ms, view.consumer_id, cause)
        kept = {name: timeout_ms for name, timeout_ms in away.items() if now_ms < self._deadlines[name]}
        known = written.capacities if written is not None else {}
        places = {name: _place_of(name, previous, known.get(name)) for name in kept}
        snapshot = group_snapshot(
            {**registrations, **places},
            view.partitions,
            previous,
            exclude_internal_topics=view.exclude_internal_topics,
        )
        static = {**_static_members(registrations), **kept}
        capacities = {name: each for name, each in snapshot.capacities.items() if name in static}
        stands = bool(kept) and written is not None and _stands(written, strategy.name, capacities, snapshot)
        assignment = previous if stands else strategy.assignor.assign(snapshot)
        content = GroupAssignment(0, strategy.name, view.consumer_id, assignment, static, capacities)
        if written is not None and _is_same(content, written):
            return
        moved = sum(previous.get(partition, thread) != thread for partition, thread in assignment.items())
        yield from self._write(view, content, moved)

    def _write(self, view: GroupView, content: GroupAssignment, moved: int) -> Iterator[Effect]:
        assert view.assignment_version is not None
        generation = 1 if view.assignment is None else view.assignment.generation + 1
        proposal = Proposal(replace(content, generation=generation), moved)
        if proposal != self._refused:
            self._busy, self._proposal = True, proposal
            yield WriteAssignment(proposal.assignment, view.assignment_version)

    def _away(
        self, present: Mapping[str, ConsumerRegistration], written: GroupAssignment | None
    ) -> Iterator[tuple[str, int]]:
        for name, timeout_ms in sorted(written.static_members.items()) if written is not None else ():
            if name not in present:
                yield name, timeout_ms

    def _count_down(self, away: Mapping[str, int], now_ms: float, consumer_id: str, cause: str) -> Iterator[Effect]:
        """Deadlines start when members leave, and end when they return."""
        for name in sorted(self._deadlines.keys() - away.keys()):
            del self._deadlines[name]
        for name in sorted(away.keys() - self._deadlines.keys()):
            deadline_ms = self._deadlines[name] = now_ms + away[name]
            yield Note(StaticMemberAway(int(now_ms), consumer_id, cause, 0, name, int(deadline_ms)))
        waiting = [deadline_ms for deadline_ms in self._deadlines.values() if deadline_ms > now_ms]
        if waiting:
            yield SetTimer(TIMER, min(waiting))


def _stands(written: GroupAssignment, strategy: str, capacities: Mapping[str, int], snapshot: GroupSnapshot) -> bool:
    """True if nothing but the absence of static members can have changed: each partition has a thread that may read it,
    and no member is new.

    The place of an absent member may have fewer topics and streams than its registration had, so a strategy might move
    partitions away now, and back when the member returns.
    """
    if (written.strategy, written.capacities) != (strategy, capacities):
        return False
    partitions = {TopicPartition(topic, number) for topic, each in snapshot.partitions.items() for number in each}
    if partitions != written.assignment.keys():
        return False
    members = {consumer_of(thread) for threads in snapshot.threads.values() for thread in threads}
    known = {consumer_of(thread) for thread in written.assignment.values()} | written.static_members.keys()
    return members <= known and all(
        thread in snapshot.threads[partition.topic] for partition, thread in written.assignment.items()
    )


def _is_same(content: GroupAssignment, written: GroupAssignment) -> bool:
    """True if they differ at most in the leader and the generation."""
    return replace(content, leader=written.leader, generation=written.generation) == written


def _static_members(registrations: Mapping[str, ConsumerRegistration]) -> dict[str, int]:
    return {
        name: registration.instance_timeout_ms or 0
        for name, registration in registrations.items()
        if registration.instance_id is not None
    }


def _place_of(name: str, previous: Mapping[TopicPartition, str], capacity: int | None) -> ConsumerRegistration:
    """A registration with the absent member's capacity and number of streams, so that the member keeps its partitions
    but gets no new topic.
    """
    streams: dict[str, int] = {}
    for partition, thread in previous.items():
        if consumer_of(thread) == name:
            number = int(thread.rpartition("-")[2])
            streams[partition.topic] = max(streams.get(partition.topic, 0), number + 1)
    return ConsumerRegistration(streams, capacity=capacity)
