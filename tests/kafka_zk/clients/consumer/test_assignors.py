"""The assignors that the leader of a broker-side group uses."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.assignors import ASSIGNORS, Assigned, GroupMemberSubscription
from kafka_zk.protocol.consumer_protocol import NO_GENERATION, Subscription

TOPICS = ("a", "b", "c")
COUNTS = st.fixed_dictionaries({topic: st.integers(0, 5) for topic in TOPICS})
SUBSCRIBED = st.lists(st.sets(st.sampled_from(TOPICS), min_size=1), min_size=1, max_size=5)

Owned = Mapping[str, tuple[int, frozenset[TopicPartition]]]


def members(subscribed: list[set[str]], owned: Owned | None = None) -> list[GroupMemberSubscription]:
    """``m0``, ``m1`` …; ``owned``: generation and partitions by member id."""
    made = []
    for number, topics in enumerate(subscribed):
        generation, tps = (owned or {}).get(f"m{number}", (NO_GENERATION, frozenset()))
        made.append(GroupMemberSubscription(f"m{number}", None, Subscription(tuple(sorted(topics)), tps, generation)))
    return made


def assign(name: str, group: list[GroupMemberSubscription], counts: Mapping[str, int]) -> Assigned:
    return ASSIGNORS[name].assign(group, {topic: count for topic, count in counts.items() if count})


@pytest.mark.parametrize("name", ASSIGNORS)
@given(subscribed=SUBSCRIBED, counts=COUNTS)
def test_each_partition_goes_to_one_subscriber(name: str, subscribed: list[set[str]], counts: dict[str, int]) -> None:
    assigned = assign(name, members(subscribed), counts)
    assert assigned.keys() == {f"m{number}" for number in range(len(subscribed))}
    given_out = [tp for tps in assigned.values() for tp in tps]
    wanted = {
        TopicPartition(topic, number) for topic in set().union(*subscribed) for number in range(counts[topic])
    }
    assert sorted(given_out) == sorted(wanted)
    assert all(tp.topic in subscribed[int(member_id[1:])] for member_id, tps in assigned.items() for tp in tps)


def test_range_gives_each_topic_in_runs_the_first_members_one_more() -> None:
    assigned = assign("range", members([{"a", "b"}, {"a", "b"}]), {"a": 3, "b": 3})
    assert assigned == {
        "m0": {TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("b", 1)},
        "m1": {TopicPartition("a", 2), TopicPartition("b", 2)},
    }


def test_roundrobin_deals_by_topic_and_number_and_passes_over_who_does_not_subscribe() -> None:
    """The example is that of RoundRobinAssignor.java."""
    assigned = assign("roundrobin", members([{"a"}, {"a", "b"}, {"a", "b", "c"}]), {"a": 1, "b": 2, "c": 3})
    assert assigned == {
        "m0": {TopicPartition("a", 0)},
        "m1": {TopicPartition("b", 0)},
        "m2": {TopicPartition("b", 1), *(TopicPartition("c", number) for number in range(3))},
    }


def test_roundrobin_goes_on_behind_whoever_was_dealt_a_partition_last() -> None:
    """A member that was passed over waits for the next round, as in RoundRobinAssignor.java."""
    assigned = assign("roundrobin", members([{"b"}, {"a"}, {"a", "b"}]), {"a": 1, "b": 2})
    assert assigned == {
        "m0": {TopicPartition("b", 1)}, "m1": {TopicPartition("a", 0)}, "m2": {TopicPartition("b", 0)}
    }  # fmt: skip


def test_static_members_come_first_whatever_their_member_ids_are() -> None:
    subscription = Subscription(("a",))
    group = [
        GroupMemberSubscription("a", None, subscription), GroupMemberSubscription("z", "i2", subscription),
        GroupMemberSubscription("y", "i3", subscription),
    ]  # fmt: skip
    assigned = assign("range", group, {"a": 3})
    assert assigned == {"z": {TopicPartition("a", 0)}, "y": {TopicPartition("a", 1)}, "a": {TopicPartition("a", 2)}}


@given(subscribed=SUBSCRIBED, counts=COUNTS, gone=st.integers(0, 4))
def test_cooperative_moves_in_two_rounds(subscribed: list[set[str]], counts: dict[str, int], gone: int) -> None:
    """In the first round no member gets a partition that another one owns; in the second every partition has its final
    owner.
    """
    before = assign("cooperative-sticky", members(subscribed), counts)
    owned = {member_id: (1, tps) for member_id, tps in before.items()}
    owned.pop(f"m{gone}", None)
    changed = [*subscribed, set(TOPICS)]
    first = assign("cooperative-sticky", members(changed, owned), counts)
    for member_id, tps in first.items():
        for other, (_, theirs) in owned.items():
            assert other == member_id or not tps & theirs
    kept = {member_id: (2, tps) for member_id, tps in first.items()}
    second = assign("cooperative-sticky", members(changed, kept), counts)
    assert all(first[member_id] <= tps for member_id, tps in second.items())
    assert sorted(tp for tps in second.values() for tp in tps) == [
        TopicPartition(topic, number) for topic in TOPICS for number in range(counts[topic])
    ]


def test_of_two_owners_the_one_of_the_newer_generation_keeps_it() -> None:
    tp = TopicPartition("a", 0)
    owned = {"m0": (3, frozenset({tp})), "m1": (4, frozenset({tp}))}
    assert assign("cooperative-sticky", members([{"a"}, {"a"}], owned), {"a": 1})["m1"] == {tp}
