"""The vocabulary: how registrations become threads, what moved, who came back."""

from __future__ import annotations

import pytest
from hypothesis import given

from rebalance.assignment import Moves, consumer_of, group_snapshot, moves, thread_id, with_returned_members
from rebalance.strategies import ASSIGNORS
from rebalance.topic_filter import InvalidTopicFilter
from registry.znodes.consumers import BLACK_LIST, STATIC, WHITE_LIST, ConsumerRegistration
from storage.types import TopicPartition
from tests.rebalance.groups import Group, equal_members, groups

PARTITIONS_OF = {"t1": [1, 0], "t2": [0], "__consumer_offsets": [0], "__transaction_state": [0]}
T0, T1, T2 = (TopicPartition("t1", number) for number in range(3))


def test_threads_are_sorted_as_strings() -> None:
    """Thread 10 comes before thread 2, as in Kafka; what else would break mixed groups."""
    snapshot = group_snapshot(
        {"b": ConsumerRegistration({"t1": 1}), "a": ConsumerRegistration({"t1": 11})}, PARTITIONS_OF
    )
    assert snapshot.threads["t1"][:4] == ("a-0", "a-1", "a-10", "a-2")
    assert snapshot.threads["t1"][-1] == "b-0"
    assert snapshot.partitions == {"t1": (0, 1)}


def test_a_topic_that_does_not_exist_has_no_partitions() -> None:
    """It may come later; its subscribers are known already."""
    snapshot = group_snapshot({"a": ConsumerRegistration({"later": 1})}, PARTITIONS_OF)
    assert snapshot.threads == {"later": ("a-0",)}
    assert snapshot.partitions == {"later": ()}


@pytest.mark.parametrize(
    ("pattern", "regex", "topics"),
    [
        (WHITE_LIST, "t1|t2", {"t1", "t2"}),
        (WHITE_LIST, ".*", {"t1", "t2", "__transaction_state"}),
        (BLACK_LIST, "t2,__t.*", {"t1"}),
        (STATIC, "__consumer_offsets", {"__consumer_offsets"}),
        ("anything else", "t1", {"t1"}),
    ],
)
def test_wildcards_are_expanded_over_what_exists(pattern: str, regex: str, topics: set[str]) -> None:
    """The topic that 0.8 to 0.10 call internal is dropped from a wildcard, but not from a static subscription."""
    snapshot = group_snapshot({"a": ConsumerRegistration({regex: 2}, pattern)}, PARTITIONS_OF)
    assert set(snapshot.threads) == topics
    assert set(snapshot.threads.values()) == {("a-0", "a-1")}


def test_internal_topics_can_be_included() -> None:
    """exclude.internal.topics=false."""
    members = {"a": ConsumerRegistration({"__.*": 1}, WHITE_LIST)}
    snapshot = group_snapshot(members, PARTITIONS_OF, exclude_internal_topics=False)
    assert set(snapshot.threads) == {"__consumer_offsets", "__transaction_state"}


def test_a_wildcard_without_subscription_is_static() -> None:
    """Kafka's reader rule: an empty map names no expression."""
    assert group_snapshot({"a": ConsumerRegistration({}, WHITE_LIST)}, PARTITIONS_OF).threads == {}


def test_no_streams_are_no_threads() -> None:
    """Kafka's consumer fails on such a registration; ours gives its topics to the others."""
    members = {"a": ConsumerRegistration({"t1": 0, "t2": 0}), "b": ConsumerRegistration({"t1": 1})}
    assert group_snapshot(members, PARTITIONS_OF).threads == {"t1": ("b-0",)}


def test_an_expression_that_cannot_be_read_stops_the_assignment() -> None:
    """The member may understand it itself: without it, its partitions would be read twice."""
    with pytest.raises(InvalidTopicFilter, match="is not taken"):
        group_snapshot({"a": ConsumerRegistration({"[a-z&&[^b]]": 1}, WHITE_LIST)}, PARTITIONS_OF)


def test_thread_ids_are_read_back() -> None:
    """Consumer ids end in a dash and eight digits themselves."""
    assert consumer_of(thread_id("g_host-1795231299264-4cff9582", 12)) == "g_host-1795231299264-4cff9582"


def test_moves_say_what_stays_goes_and_comes() -> None:
    """A change of hands is a release and a claim, also between two threads of one member."""
    found = moves({T0: "a-0", T1: "a-0", T2: "gone-0"}, {T0: "a-0", T1: "a-1", TopicPartition("n", 0): "b-0"})
    assert found == Moves(
        stays={T0: "a-0"},
        released={T1: "a-0", T2: "gone-0"},
        claimed={T1: "a-1", TopicPartition("n", 0): "b-0"},
    )


@given(groups(), groups())
def test_moves_add_up(before: Group, after: Group) -> None:
    """What was is kept or released, what is was kept or is claimed, for any two assignments."""
    old, new = (ASSIGNORS["sticky"].assign(group.snapshot) for group in (before, after))
    found = moves(old, new)
    assert {**found.stays, **found.released} == old
    assert {**found.stays, **found.claimed} == new


def test_a_static_member_is_known_under_its_new_name() -> None:
    """Only the instance that came back is renamed, and its threads keep their numbers."""
    previous = {T0: "g-old-0", T1: "g-old-1", T2: "dynamic-0", TopicPartition("t2", 0): "absent-0"}
    renamed = with_returned_members(previous, {"g-old": "i1", "absent": "i2"}, {"g-new": "i1"})
    assert renamed == previous | {T0: "g-new-0", T1: "g-new-1"}


def test_a_static_member_that_never_left_is_itself() -> None:
    """And its consumer id may be another one's instance id."""
    previous = {T0: "a-0", T1: "i1-0"}
    assert with_returned_members(previous, {"a": "i1"}, {"a": "i1"}) == previous


def test_a_static_member_gets_its_partitions_back() -> None:
    """Away and back under another consumer id: nobody's partitions move."""
    partitions_of = {"t": range(10)}
    before = ASSIGNORS["sticky"].assign(group_snapshot(equal_members(3, ["t"]), partitions_of))
    members = equal_members(2, ["t"]) | equal_members(1, ["t"], first=900)
    previous = with_returned_members(before, {"m002": "seat-2"}, {"m900": "seat-2"})
    after = ASSIGNORS["sticky"].assign(group_snapshot(members, partitions_of, previous))
    assert after == {partition: thread.replace("m002", "m900") for partition, thread in before.items()}
