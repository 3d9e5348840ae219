"""``sticky``: as balanced as possible, with no unnecessary moves."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.assignment import Assignment, GroupSnapshot, ThreadId, group_snapshot
from kafka_zk.rebalance.sticky import StickyAssignor
from kafka_zk.registry.znodes.consumers import ConsumerRegistration
from tests.rebalance.best_assignment import least_squares_and_moves
from tests.rebalance.groups import Group, equal_members, everything, groups, loads


def assign(snapshot: GroupSnapshot) -> Assignment:
    return StickyAssignor().assign(snapshot)


def reachable(snapshot: GroupSnapshot, assignment: Assignment, origin: ThreadId) -> set[ThreadId]:
    """Every thread that can get one more partition, through a chain of hand-overs, when ``origin`` gives one up."""
    found, left = {origin}, [origin]
    while left:
        giver = left.pop()
        topics = {partition.topic for partition, thread in assignment.items() if thread == giver}
        new = {thread for topic in topics for thread in snapshot.threads[topic]} - found
        found |= new
        left += new
    return found


@st.composite
def small_groups(draw: st.DrawFn) -> GroupSnapshot:
    """Up to five members, any subscriptions to four topics of up to five partitions, any previous owners."""
    topics = {topic: range(draw(st.integers(0, 5))) for topic in "abcd"}
    names = "vwxyz"[: draw(st.integers(1, 5))]
    wishes = st.sets(st.sampled_from("abcd"), min_size=1)
    members = {name: ConsumerRegistration(dict.fromkeys(sorted(draw(wishes)), 1)) for name in names}
    owner = st.sampled_from([*names, "gone"])
    previous = {
        TopicPartition(topic, number): f"{draw(owner)}-0" for topic, numbers in topics.items() for number in numbers
    }
    return group_snapshot(members, topics, previous)


def judged(snapshot: GroupSnapshot, assignment: Assignment) -> tuple[int, int]:
    """The two quantities that are judged: the sum of squared counts, and the number of moves."""
    moves = sum(snapshot.previous.get(partition) != thread for partition, thread in assignment.items())
    return sum(count * count for count in loads(snapshot, assignment).values()), moves


@given(groups())
def test_no_move_can_improve(group: Group) -> None:
    """The test checks KIP-54's balance for different subscriptions, and a stronger property: no chain of moves improves
    it.
    """
    snapshot = group.snapshot
    assignment = assign(snapshot)
    counts = loads(snapshot, assignment)
    for thread, count in counts.items():
        assert all(counts[other] >= count - 1 for other in reachable(snapshot, assignment, thread))


@settings(max_examples=300)
@given(small_groups())
def test_of_all_balanced_assignments_it_moves_the_fewest(snapshot: GroupSnapshot) -> None:
    """The test compares the result with all possible assignments."""
    assert judged(snapshot, assign(snapshot)) == least_squares_and_moves(snapshot)


def test_a_join_among_different_subscriptions_moves_no_more_than_it_must() -> None:
    """The minimum is five partitions; applying the shortest chains of hand-overs one by one would move seven."""
    topics = {"a": range(7), "b": range(5), "c": range(11)}
    wishes = {"x1": "ab", "x2": "bc", "y2": "bc", "x3": "abc"}
    members = {name: ConsumerRegistration(dict.fromkeys(wish, 1)) for name, wish in wishes.items()}
    before = {
        TopicPartition(topic, number): f"{name}-0"
        for topic, owners in {
            "a": "x1 x1 x1 x3 x1 x1 x1",
            "b": "x3 x3 x3 x2 y2",
            "c": "x3 y2 x2 y2 x2 y2 x2 x3 y2 y2 x2",
        }.items()
        for number, name in enumerate(owners.split())
    }
    assert least_squares_and_moves(group_snapshot(members, topics, before))[1] == 0
    snapshot = group_snapshot({**members, "x4": ConsumerRegistration({"c": 1})}, topics, before)
    assert judged(snapshot, assign(snapshot)) == least_squares_and_moves(snapshot) == (107, 5)


@given(groups(equal=True))
def test_equal_members_keep_all_that_balance_allows(group: Group) -> None:
    """Counts differ by at most one, and no member could keep more of its previous partitions."""
    snapshot = group.snapshot
    assignment = assign(snapshot)
    counts = loads(snapshot, assignment)
    assert max(counts.values()) - min(counts.values()) <= 1
    valid = [snapshot.previous.get(partition) for partition in everything(snapshot)]
    had = Counter(thread for thread in valid if thread in counts)
    share, extra = divmod(len(assignment), len(counts))
    over = sum(count > share for count in had.values())
    best = sum(min(count, share) for count in had.values()) + min(over, extra)
    assert len(snapshot.previous.items() & assignment.items()) == best


@given(st.integers(2, 8), st.integers(1, 40), st.data())
def test_when_a_member_leaves_only_its_partitions_move(members: int, partitions: int, data: st.DataObject) -> None:
    """The remaining members keep all of their partitions."""
    partitions_of = {"t": range(partitions)}
    before = assign(group_snapshot(equal_members(members, ["t"]), partitions_of))
    gone = f"m{data.draw(st.integers(0, members - 1)):03}"
    stayed = {name: each for name, each in equal_members(members, ["t"]).items() if name != gone}
    after = assign(group_snapshot(stayed, partitions_of, before))
    assert {thread for _, thread in before.items() - after.items()} <= {f"{gone}-0"}


@given(st.integers(1, 8), st.integers(1, 40))
def test_when_a_member_joins_partitions_move_to_it_only(members: int, partitions: int) -> None:
    """The new member gets no more than its share."""
    partitions_of = {"t": range(partitions)}
    before = assign(group_snapshot(equal_members(members, ["t"]), partitions_of))
    after = assign(group_snapshot(equal_members(members + 1, ["t"]), partitions_of, before))
    claimed = after.items() - before.items()
    assert {thread for _, thread in claimed} <= {f"m{members:03}-0"}
    assert len(claimed) == partitions // (members + 1)


def test_new_partitions_move_nothing() -> None:
    """The new partitions of a growing topic go to the members with the fewest."""
    members = equal_members(3, ["t"])
    before = assign(group_snapshot(members, {"t": range(6)}))
    after = assign(group_snapshot(members, {"t": range(9)}, before))
    assert before.items() <= after.items()
    assert Counter(after.values()) == {"m000-0": 3, "m001-0": 3, "m002-0": 3}


def test_a_chain_levels_members_that_share_no_topic() -> None:
    """a reads x, b reads x and y, c reads y. To help a, c takes partitions from b, and b takes partitions from a."""
    members = {
        "a": ConsumerRegistration({"x": 1}),
        "b": ConsumerRegistration({"x": 1, "y": 1}),
        "c": ConsumerRegistration({"y": 1}),
    }
    previous = {TopicPartition("x", number): "a-0" for number in range(6)}
    previous |= {TopicPartition("y", number): "b-0" for number in range(3)}
    assignment = assign(group_snapshot(members, {"x": range(6), "y": range(3)}, previous))
    assert Counter(assignment.values()) == {"a-0": 3, "b-0": 3, "c-0": 3}


def test_what_is_new_is_passed_on_before_what_was_kept() -> None:
    """a keeps t-0 and gets five more. d needs four of b's, so b gets two of a's in return, but not t-0."""
    members = {
        "a": ConsumerRegistration({"t": 1}),
        "b": ConsumerRegistration({"t": 1, "w": 1}),
        "d": ConsumerRegistration({"w": 1}),
    }
    kept = {TopicPartition("t", 0): "a-0"}
    previous = kept | {TopicPartition("w", number): "b-0" for number in range(6)}
    assignment = assign(group_snapshot(members, {"t": range(6), "w": range(6)}, previous))
    assert Counter(assignment.values()) == {"a-0": 4, "b-0": 4, "d-0": 4}
    assert kept.items() <= assignment.items()
