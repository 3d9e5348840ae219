"""Random groups for property tests, seeded groups for comparisons with Kafka, and short notations for groups."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.assignment import Assignment, GroupSnapshot, ThreadId, group_snapshot
from kafka_zk.registry.znodes.consumers import BLACK_LIST, WHITE_LIST, ConsumerRegistration

TOPICS = ("a", "b", "c.d", "e_f")


class Group(NamedTuple):
    """The input of a snapshot."""

    members: dict[str, ConsumerRegistration]
    partitions_of: dict[str, Sequence[int]]
    previous: dict[TopicPartition, ThreadId]

    @property
    def snapshot(self) -> GroupSnapshot:
        return group_snapshot(self.members, self.partitions_of, self.previous)


def equal_members(
    count: int, topics: Sequence[str], streams: int = 1, first: int = 0
) -> dict[str, ConsumerRegistration]:
    """Members ``m000`` … that subscribe to the same topics."""
    subscription = dict.fromkeys(topics, streams)
    return {f"m{number:03}": ConsumerRegistration(subscription) for number in range(first, first + count)}


def everything(snapshot: GroupSnapshot) -> set[TopicPartition]:
    """All partitions of subscribed topics."""
    return {TopicPartition(topic, number) for topic, numbers in snapshot.partitions.items() for number in numbers}


def loads(snapshot: GroupSnapshot, assignment: Assignment) -> dict[ThreadId, int]:
    """Thread -> number of its partitions, including threads without partitions."""
    counts = Counter(assignment.values())
    return {thread: counts[thread] for threads in snapshot.threads.values() for thread in threads}


_COUNTS = st.integers(0, 9)
_MEMBER_NUMBERS = st.integers(0, 12)


@st.composite
def groups(draw: st.DrawFn, *, equal: bool = False, topic_count: int = len(TOPICS)) -> Group:
    """Up to six members on up to four topics, with any previous owners, some of which are gone.

    With ``equal`` all subscribe to the same topics with the same count of streams in each.
    """
    topics = TOPICS[:topic_count]
    numbers = draw(st.sets(_MEMBER_NUMBERS, min_size=1, max_size=6))
    one = st.dictionaries(st.sampled_from(topics), st.integers(1, 3), min_size=1)
    if equal:
        subscription = dict.fromkeys(topics, draw(st.integers(1, 3)))
        members = {f"g-{number}": ConsumerRegistration(subscription) for number in numbers}
    else:
        members = {f"g-{number}": ConsumerRegistration(draw(one)) for number in sorted(numbers)}
    partitions_of: dict[str, Sequence[int]] = {topic: range(draw(_COUNTS)) for topic in topics}
    partitions = [TopicPartition(topic, number) for topic in topics for number in range(10)]
    threads = st.builds("g-{}-{}".format, _MEMBER_NUMBERS, st.integers(0, 2))
    return Group(members, partitions_of, draw(st.dictionaries(st.sampled_from(partitions), threads)))


def random_group(rng: random.Random, topics: Sequence[str]) -> dict[str, ConsumerRegistration]:
    """Members as Kafka's consumers register them: equal subscriptions, different ones, regular expressions."""
    kind = rng.choice(("equal", "equal", "different", "wildcards"))
    shared = ConsumerRegistration(dict.fromkeys(rng.sample(topics, rng.randint(1, 4)), rng.randint(1, 3)))
    members = {}
    for _ in range(rng.randint(1, 14)):
        chosen = rng.sample(topics, rng.randint(1, 5))
        if kind == "equal":
            registration = shared
        elif kind == "different" or rng.random() < 0.3:
            registration = ConsumerRegistration({topic: rng.randint(1, 12) for topic in chosen})
        elif rng.random() < 0.7:
            registration = ConsumerRegistration({"|".join(chosen): rng.randint(1, 3)}, WHITE_LIST)
        else:
            registration = ConsumerRegistration({f"{rng.choice(topics)[0]}.*": rng.randint(1, 3)}, BLACK_LIST)
        members[f"g_host-{rng.randint(1, 20)}-{rng.getrandbits(32):08x}"] = registration
    return members
