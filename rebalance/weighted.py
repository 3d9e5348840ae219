"""``weighted``: each member gets partitions in proportion to the capacity that it registers (``consumer.capacity``).

Topics that the same threads read form a set. From each set, every member gets its proportion, rounded down. The
remaining partitions go to the members that have lost most by rounding in all sets so far (the largest remainder).
Between equals, a member that would otherwise lose a partition comes first. So no member's share differs from its
proportion by more than one partition, and nothing moves without a cause. A member's streams share its partitions
equally. A member without a registered capacity has a capacity of one per stream. Not in Kafka.

``rebalance.shared_topics`` chooses the partitions. Only integers are computed, so equal snapshots give equal results.
"""

from collections.abc import Mapping, Sequence

from kafka_zk.rebalance.assignment import Assignment, GroupSnapshot, consumer_of
from kafka_zk.rebalance.shared_topics import SharedTopics, shared_topics

_PARTITION = 1 << 32
"""Proportions are computed in units of 1/_PARTITION of a partition."""
_Counts = dict[int, int]


class WeightedAssignor:
    """Starts from ``snapshot.previous``."""

    name = "weighted"

    def assign(self, snapshot: GroupSnapshot) -> Assignment:
        threads = sorted({thread for readers in snapshot.threads.values() for thread in readers})
        names = sorted({consumer_of(thread) for thread in threads})
        number_of = {name: number for number, name in enumerate(names)}
        members = [number_of[consumer_of(thread)] for thread in threads]
        capacities = {number_of[name]: each for name, each in snapshot.capacities.items() if name in number_of}
        owed: _Counts = {}
        return {
            partition: threads[thread]
            for shared in shared_topics(snapshot, {thread: number for number, thread in enumerate(threads)})
            for partition, thread in shared.distribute(_wanted(shared, members, capacities, owed)).items()
        }


def _wanted(shared: SharedTopics, member_of: Sequence[int], capacities: Mapping[int, int], owed: _Counts) -> _Counts:
    """The number of partitions of each thread. ``owed``: what each member has lost by rounding so far; updated."""
    streams: dict[int, list[int]] = {}
    for thread in shared.readers:
        streams.setdefault(member_of[thread], []).append(thread)
    had = {thread: len(partitions) for thread, partitions in shared.had.items()}
    weights = {member: capacities.get(member, len(own)) for member, own in streams.items()}
    ideal = _ideal(len(shared.partitions), weights)
    had_by_member = {member: sum(had.get(thread, 0) for thread in own) for member, own in streams.items()}
    shares = _rounded(ideal, had_by_member, owed)
    wanted: _Counts = {}
    for member, share in shares.items():
        owed[member] = owed.get(member, 0) + ideal[member] - share * _PARTITION
        wanted |= _rounded(_ideal(share, dict.fromkeys(streams[member], 1)), had, {})
    return wanted


def _ideal(count: int, weights: Mapping[int, int]) -> _Counts:
    """Proportions of ``count`` partitions, in units of 1/_PARTITION."""
    total = sum(weights.values())
    return {each: count * weight * _PARTITION // total for each, weight in weights.items()}


def _rounded(ideal: _Counts, had: Mapping[int, int], owed: Mapping[int, int]) -> _Counts:
    """Whole partitions: each proportion rounded down, and one more for those with the largest remainders."""
    shares = {each: parts // _PARTITION for each, parts in ideal.items()}
    count = -(-sum(ideal.values()) // _PARTITION)  # rounded up, because the parts were rounded down

    def claim(each: int) -> tuple[int, bool, int]:
        return -(ideal[each] % _PARTITION) - owed.get(each, 0), had.get(each, 0) <= shares[each], each

    for each in sorted(ideal, key=claim)[: count - sum(shares.values())]:
        shares[each] += 1
    return shares
