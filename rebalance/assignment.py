"""The vocabulary of assignment: who could read what, and who reads what.

A *thread* is Kafka's word for one stream of a member; its id is ``<consumer id>-<n>`` with n from 0. Every member
builds the same ``GroupSnapshot`` from the same registrations and gives it to the same ``Assignor``, so all agree on
the ``Assignment`` without a word between them. Tests: ``tests/rebalance/test_assignment.py``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.topic_filter import topic_filter
from kafka_zk.registry.znodes.consumers import ConsumerRegistration

ThreadId = str
"""``<consumer id>-<n>``. ZooKeeper allows no name outside the basic plane, so Python sorts as Java does."""

Assignment = Mapping[TopicPartition, ThreadId]
"""Every partition that has a subscriber, and the one thread that reads it."""


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """What an assignor may look at.

    ``threads``: topic -> ids of the threads subscribed to it, sorted as strings (Kafka's consumersForTopic).
    ``partitions``: the same topics -> their partitions, sorted; none for a topic that does not exist.
    ``previous``: who read what before, empty for strategies that start from nothing; it may name threads and
    partitions that are no more.
    """

    threads: Mapping[str, tuple[ThreadId, ...]]
    partitions: Mapping[str, tuple[int, ...]]
    previous: Assignment = field(default_factory=dict)


class Assignor(Protocol):
    """A strategy: a pure function with a name, the same answer for equal snapshots in every process.

    Promises: every partition of a topic with subscribers goes to one of them, and no other partition to anyone.
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
    """Expand what members registered into threads per topic.

    Args:
        members: consumer id -> its registration.
        partitions_of: every topic of the cluster -> its partitions; regular expressions are matched against these.
    Raises: InvalidTopicFilter if a member's regular expression is not understood: the others may understand it, so
        leaving the member out would give partitions away that it reads.
    Source: AssignmentContext, TopicCount.scala@0.10.2. A subscription of no streams gets no thread; Kafka's consumer
        fails all its rebalances on one.
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
    )


def thread_id(consumer_id: str, number: int) -> ThreadId:
    """The id of a member's stream ``number``, counted from 0."""
    return f"{consumer_id}-{number}"


def consumer_of(thread: ThreadId) -> str:
    """The consumer id that a thread id starts with."""
    return thread.rpartition("-")[0]


def _streams(
    registration: ConsumerRegistration, topics: Mapping[str, Sequence[int]], exclude_internal_topics: bool
) -> Mapping[str, int]:
    """Topic -> count of streams. A wildcard counts with the first entry only, as Kafka reads it."""
    if not registration.is_wildcard:
        return registration.subscription
    regex, count = next(iter(registration.subscription.items()))
    allowed = topic_filter(registration.pattern, regex, exclude_internal_topics=exclude_internal_topics)
    return {topic: count for topic in topics if allowed(topic)}
