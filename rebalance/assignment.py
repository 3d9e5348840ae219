"""An assignment: which thread reads which partition.

A *thread* is Kafka's word for one stream of a member; its id is ``<consumer id>-<n>`` with n from 0. Every member
builds the same ``GroupSnapshot`` from the same registrations and passes it to the same ``Assignor``, so all compute the
same ``Assignment`` without communicating.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.topic_filter import topic_filter
from kafka_zk.registry.znodes.consumers import ConsumerRegistration

ThreadId = str
"""``<consumer id>-<n>``. ZooKeeper allows only characters of the basic plane, which Python and Java sort in the same
order."""

Assignment = Mapping[TopicPartition, ThreadId]
"""Every partition that has a subscriber -> the one thread that reads it."""


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """``threads``: topic -> ids of the threads subscribed to it, sorted as strings (Kafka's consumersForTopic).
    ``partitions``: the same topics -> their partitions, sorted; empty for a topic that does not exist.
    ``previous``: the last assignment; empty for strategies that ignore it. It may contain threads and partitions that
    no longer exist. ``capacities``: consumer id -> the capacity that the member registers, if it registers one.
    """

    threads: Mapping[str, tuple[ThreadId, ...]]
    partitions: Mapping[str, tuple[int, ...]]
    previous: Assignment = field(default_factory=dict)
    capacities: Mapping[str, int] = field(default_factory=dict)


class Assignor(Protocol):
    """A strategy: a pure function with a name. Equal snapshots give equal results in every process.

    It assigns every partition of a topic with subscribers to one of them, and no other partition.
    """

    name: str

    def assign(self, snapshot: GroupSnapshot) -> Assignment: ...


def group_snapshot(
    members: Mapping[str, ConsumerRegistration],
    partitions_of: Mapping[str, Sequence[int]],
    previous: Assignment | None = None,
    *,
    exclude_internal_topics: bool = True,
) -> GroupSnapshot:
    """Expand the members' registrations into threads per topic.

    Args:
        members: consumer id -> its registration.
        partitions_of: every topic of the cluster -> its partitions; regular expressions are matched against the topics.
    Raises: InvalidTopicFilter if a member's regular expression cannot be parsed. Without that member, this process
        would give its partitions to others, while members that can parse the expression still give them to that member.
    Source: AssignmentContext, TopicCount.scala@0.10.2. A subscription without streams gets no thread; in Kafka's
        consumer it fails every rebalance.
    """
    threads: dict[str, list[ThreadId]] = {}
    for consumer_id, registration in members.items():
        for topic, count in _streams(registration, partitions_of, exclude_internal_topics).items():
            threads.setdefault(topic, []).extend(thread_id(consumer_id, number) for number in range(count))
    subscribed = sorted(topic for topic, ids in threads.items() if ids)
    return GroupSnapshot(
        {topic: tuple(sorted(threads[topic])) for topic in subscribed},
        {topic: tuple(sorted(partitions_of.get(topic, ()))) for topic in subscribed},
        dict(previous or {}),
        {name: each.capacity for name, each in members.items() if each.capacity is not None},
    )


def thread_id(consumer_id: str, number: int) -> ThreadId:
    """Streams are counted from 0."""
    return f"{consumer_id}-{number}"


def consumer_of(thread: ThreadId) -> str:
    return thread.rpartition("-")[0]


def _streams(
    registration: ConsumerRegistration, topics: Mapping[str, Sequence[int]], exclude_internal_topics: bool
) -> Mapping[str, int]:
    """As in Kafka, only the first entry of a wildcard subscription counts."""
    if not registration.is_wildcard:
        return registration.subscription
    regex, count = next(iter(registration.subscription.items()))
    allowed = topic_filter(registration.pattern, regex, exclude_internal_topics=exclude_internal_topics)
    return {topic: count for topic in topics if allowed(topic)}
