"""The vocabulary: how registrations become threads."""

from __future__ import annotations

import pytest

from kafka_zk.rebalance.assignment import consumer_of, group_snapshot, thread_id
from kafka_zk.rebalance.topic_filter import InvalidTopicFilter
from kafka_zk.registry.znodes.consumers import BLACK_LIST, STATIC, WHITE_LIST, ConsumerRegistration

PARTITIONS_OF = {"t1": [1, 0], "t2": [0], "__consumer_offsets": [0], "__transaction_state": [0]}


def test_threads_are_sorted_as_strings() -> None:
    """Thread 10 comes before thread 2, as in Kafka. Another order would break mixed groups."""
    snapshot = group_snapshot(
        {"b": ConsumerRegistration({"t1": 1}), "a": ConsumerRegistration({"t1": 11})}, PARTITIONS_OF
    )
    assert snapshot.threads["t1"][:4] == ("a-0", "a-1", "a-10", "a-2")
    assert snapshot.threads["t1"][-1] == "b-0"
    assert snapshot.partitions == {"t1": (0, 1)}


def test_a_topic_that_does_not_exist_has_no_partitions() -> None:
    """The topic may be created later; the snapshot already has its subscribers."""
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
def test_wildcards_are_expanded_to_existing_topics(pattern: str, regex: str, topics: set[str]) -> None:
    """The topic that 0.8 to 0.10 call internal is dropped from a wildcard, but not from a static subscription."""
    snapshot = group_snapshot({"a": ConsumerRegistration({regex: 2}, pattern)}, PARTITIONS_OF)
    assert set(snapshot.threads) == topics
    assert set(snapshot.threads.values()) == {("a-0", "a-1")}


def test_internal_topics_can_be_included() -> None:
    """The configuration is exclude.internal.topics=false."""
    members = {"a": ConsumerRegistration({"__.*": 1}, WHITE_LIST)}
    snapshot = group_snapshot(members, PARTITIONS_OF, exclude_internal_topics=False)
    assert set(snapshot.threads) == {"__consumer_offsets", "__transaction_state"}


def test_a_wildcard_without_subscription_is_static() -> None:
    """Kafka's reader applies this rule: an empty map names no expression."""
    assert group_snapshot({"a": ConsumerRegistration({}, WHITE_LIST)}, PARTITIONS_OF).threads == {}


def test_no_streams_are_no_threads() -> None:
    """Kafka's consumer fails on such a registration; our consumer gives its topics to the other members."""
    members = {"a": ConsumerRegistration({"t1": 0, "t2": 0}), "b": ConsumerRegistration({"t1": 1})}
    assert group_snapshot(members, PARTITIONS_OF).threads == {"t1": ("b-0",)}


def test_an_unsupported_expression_stops_the_assignment() -> None:
    """The member itself may support the expression. An assignment without this member would let two members read its
    partitions."""
    with pytest.raises(InvalidTopicFilter, match="cannot be used"):
        group_snapshot({"a": ConsumerRegistration({"[a-z&&[^b]]": 1}, WHITE_LIST)}, PARTITIONS_OF)


def test_thread_ids_are_parsed() -> None:
    """A consumer id itself ends in a dash and eight digits."""
    assert consumer_of(thread_id("g_host-1795231299264-4cff9582", 12)) == "g_host-1795231299264-4cff9582"
