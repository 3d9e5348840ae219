"""``weighted``: shares in proportion to capacities, and no unnecessary moves."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.assignment import Assignment, GroupSnapshot, consumer_of, group_snapshot
from kafka_zk.rebalance.group_strategy import choose
from kafka_zk.rebalance.weighted import WeightedAssignor
from kafka_zk.registry.consumers import Member
from kafka_zk.registry.znodes.consumers import CAPACITIES, ConsumerRegistration
from tests.rebalance.groups import Group, everything, groups

CAPACITY = st.integers(1, 5) | st.sampled_from(CAPACITIES)


def assign(snapshot: GroupSnapshot) -> Assignment:
    return WeightedAssignor().assign(snapshot)


def shares(assignment: Assignment) -> Counter[str]:
    return Counter(map(consumer_of, assignment.values()))


def group(partition_count: int, previous: Assignment | None = None, **capacities: int) -> GroupSnapshot:
    members = {name: ConsumerRegistration({"t": 1}, capacity=each) for name, each in capacities.items()}
    return group_snapshot(members, {"t": range(partition_count)}, previous)


@st.composite
def weighted_groups(draw: st.DrawFn) -> Group:
    """Any subscriptions; some members register a capacity."""
    made = draw(groups())
    return made._replace(
        members={name: replace(each, capacity=draw(st.none() | CAPACITY)) for name, each in made.members.items()}
    )


@given(weighted_groups())
def test_every_partition_has_one_reader_and_a_repetition_moves_nothing(made: Group) -> None:
    snapshot = made.snapshot
    assignment = assign(snapshot)
    assert set(assignment) == everything(snapshot)
    assert all(thread in snapshot.threads[partition.topic] for partition, thread in assignment.items())
    assert assign(made._replace(previous=dict(assignment)).snapshot) == assignment


@given(weighted_groups())
def test_no_share_differs_from_its_proportion_by_more_than_one(made: Group) -> None:
    """For each set of topics with the same readers; on a single such set the difference is less than one."""
    snapshot = made.snapshot
    assignment = assign(snapshot)
    by_readers: dict[tuple[str, ...], list[TopicPartition]] = {}
    for partition in everything(snapshot):
        by_readers.setdefault(snapshot.threads[partition.topic], []).append(partition)
    for readers, partitions in by_readers.items():
        streams = Counter(map(consumer_of, readers))
        weights = {name: snapshot.capacities.get(name, count) for name, count in streams.items()}
        got = shares({partition: assignment[partition] for partition in partitions})
        off = [got[name] - Fraction(len(partitions) * each, sum(weights.values())) for name, each in weights.items()]
        assert all(abs(each) <= 1 for each in off)
        assert len(by_readers) > 1 or all(abs(each) < 1 for each in off)


@given(weighted_groups())
def test_the_streams_of_a_member_share_its_partitions_equally(made: Group) -> None:
    snapshot = group_snapshot(made.members, {"a": range(9)}, made.previous)
    counts = Counter(assign(snapshot).values())
    for name in {consumer_of(thread) for thread in snapshot.threads.get("a", ())}:
        own = [counts[thread] for thread in snapshot.threads["a"] if consumer_of(thread) == name]
        assert max(own) - min(own) <= 1


@given(st.integers(0, 40), st.dictionaries(st.sampled_from("abcdef"), CAPACITY, min_size=2), st.data())
def test_a_member_that_leaves_moves_only_what_the_new_shares_require(
    count: int, capacities: dict[str, int], data: st.DataObject
) -> None:
    before = assign(group(count, None, **capacities))
    del capacities[data.draw(st.sampled_from(sorted(capacities)))]
    after = assign(group(count, before, **capacities))
    moved = sum(before[partition] != thread for partition, thread in after.items())
    grown = shares(after) - shares(before)
    assert moved == grown.total(), "each move makes its receiver's share larger"


def test_a_machine_of_twice_the_capacity_gets_twice_as_many() -> None:
    before = assign(group(12, anna=2, ben=1))
    assert shares(before) == {"anna": 8, "ben": 4}
    after = assign(group(12, before, anna=2, ben=1, cara=1))
    assert shares(after) == {"anna": 6, "ben": 3, "cara": 3}
    assert sum(before[partition] != thread for partition, thread in after.items()) == 3


def test_of_equal_claims_who_had_more_keeps_it() -> None:
    previous = {TopicPartition("t", 0): "a-0", TopicPartition("t", 1): "b-0", TopicPartition("t", 2): "b-0"}
    assert shares(assign(group(3, previous, a=7, b=7))) == {"a": 1, "b": 2}


def test_what_rounding_takes_on_one_topic_it_returns_on_another() -> None:
    """Without this, the member with the largest capacity would get the only partition of every topic."""
    readers = {"x": ("a-0", "b-0"), "y": ("a-0", "b-0", "c-0"), "z": ("a-0", "b-0", "d-0")}
    snapshot = GroupSnapshot(readers, dict.fromkeys(readers, (0,)), {}, {"a": 3, "b": 2, "c": 1, "d": 1})
    assert shares(assign(snapshot)) == {"a": 2, "b": 1}


def test_a_group_with_a_member_that_does_not_know_it_runs_what_all_know() -> None:
    """Beside Kafka's consumer, the strategy is ``range``; beside an earlier version of ours, it is one that both
    announce.
    """

    def chosen(*others: str) -> str:
        lists = {"a": ("weighted", "sticky", "range"), "b": others}
        registered = {name: ConsumerRegistration({"t": 1}, strategies=each) for name, each in lists.items()}
        return choose({name: Member(each, 1) for name, each in registered.items()}).strategy.name

    assert chosen("weighted", "sticky") == "weighted"
    assert chosen("sticky") == "sticky"
    assert chosen() == "range"
