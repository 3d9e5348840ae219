"""The assignors of Kafka's consumer.

Pure. ``rebalance``'s assignors do the work, with one thread per member. As in Kafka, static members come first, sorted
by group.instance.id, then the others, sorted by member id.

Source: AbstractPartitionAssignor, RangeAssignor, RoundRobinAssignor, CooperativeStickyAssignor.java@3.9, without racks.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol.consumer_protocol import Subscription
from kafka_zk.rebalance.assignment import Assignment, GroupSnapshot
from kafka_zk.rebalance.range import RangeAssignor
from kafka_zk.rebalance.sticky import StickyAssignor


class GroupMemberSubscription(NamedTuple):
    member_id: str
    group_instance_id: str | None
    subscription: Subscription


Members = Sequence[GroupMemberSubscription]
Assigned = dict[str, frozenset[TopicPartition]]
"""The partitions of every member, by member id."""


class PartitionAssignor(NamedTuple):
    """``is_cooperative``: members keep their partitions while they join; a moving partition is revoked first."""

    name: str
    assign: Callable[[Members, Mapping[str, int]], Assigned]
    is_cooperative: bool = False


def _by_range(members: Members, partition_counts: Mapping[str, int]) -> Assigned:
    places, snapshot = _snapshot(members, partition_counts)
    return _by_member(places, RangeAssignor().assign(snapshot))


def _by_roundrobin(members: Members, partition_counts: Mapping[str, int]) -> Assigned:
    places, snapshot = _snapshot(members, partition_counts)
    circle = cycle(sorted(places))
    assignment = {}
    for topic in sorted(snapshot.partitions):
        subscribers = set(snapshot.threads[topic])
        for number in snapshot.partitions[topic]:
            assignment[TopicPartition(topic, number)] = next(place for place in circle if place in subscribers)
    return _by_member(places, assignment)


def _by_cooperative_sticky(members: Members, partition_counts: Mapping[str, int]) -> Assigned:
    """A partition moves only after its owner has revoked it and joined again."""
    places, snapshot = _snapshot(members, partition_counts)
    previous = _owners(members)
    place_of = {member.member_id: place for place, member in places.items()}
    had = {tp: place_of[member_id] for tp, member_id in previous.items()}
    target = _by_member(
        places, StickyAssignor().assign(GroupSnapshot(snapshot.threads, snapshot.partitions, had))
    )
    owned = {tp: member.member_id for member in members for tp in member.subscription.owned if tp not in previous}
    owned |= previous
    return {
        member_id: frozenset(tp for tp in assigned if owned.get(tp, member_id) == member_id)
        for member_id, assigned in target.items()
    }


RANGE = PartitionAssignor("range", _by_range)
ASSIGNORS: Mapping[str, PartitionAssignor] = {
    assignor.name: assignor
    for assignor in (
        RANGE,
        PartitionAssignor("roundrobin", _by_roundrobin),
        PartitionAssignor("cooperative-sticky", _by_cooperative_sticky, is_cooperative=True),
    )
}


def _snapshot(
    members: Members, partition_counts: Mapping[str, int]
) -> tuple[dict[str, GroupMemberSubscription], GroupSnapshot]:
    ordered = sorted(members, key=_place)
    places = {f"{number:010}": member for number, member in enumerate(ordered)}
    threads: dict[str, list[str]] = {}
    for place, member in places.items():
        for topic in set(member.subscription.topics) & partition_counts.keys():
            threads.setdefault(topic, []).append(place)
    topics = sorted(threads)
    return places, GroupSnapshot(
        {topic: tuple(threads[topic]) for topic in topics},
        {topic: tuple(range(partition_counts[topic])) for topic in topics},
    )


def _place(member: GroupMemberSubscription) -> tuple[bool, str, str]:
    return member.group_instance_id is None, member.group_instance_id or "", member.member_id


def _by_member(places: Mapping[str, GroupMemberSubscription], assignment: Assignment) -> Assigned:
    found: dict[str, set[TopicPartition]] = {member.member_id: set() for member in places.values()}
    for tp, place in assignment.items():
        found[places[place].member_id].add(tp)
    return {member_id: frozenset(assigned) for member_id, assigned in found.items()}


def _owners(members: Members) -> dict[TopicPartition, str]:
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    for member in members:
        for tp in member.subscription.owned:
            claims.setdefault(tp, []).append((member.subscription.generation_id, member.member_id))
    owners = {}
    for tp, found in claims.items():
        newest = max(generation for generation, _ in found)
        named = [member_id for generation, member_id in found if generation == newest]
        if len(named) == 1:
            owners[tp] = named[0]
    return owners
