"""One member's view of its group, and the resulting target. Pure.

The views of two members may differ for a moment. This delays a rebalance but is safe, because claims decide who owns a
partition.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.assignment import consumer_of, group_snapshot
from kafka_zk.rebalance.group_strategy import STRATEGIES, AssignmentStrategy, leader
from kafka_zk.rebalance.topics_wanted import NOTHING_WANTED, TopicsWanted, stream_count, topics_wanted
from kafka_zk.registry.consumers import Member
from kafka_zk.registry.znodes.consumers import ConsumerRegistration
from kafka_zk.registry.znodes.group_assignment import GroupAssignment

Target = Mapping[TopicPartition, int]
"""Partition -> the thread of this member that should read it."""


@dataclass(slots=True)
class GroupView:
    """A field that is None was not read yet in this session (except ``assignment``).

    Attributes:
        consumer_id, registration: this member's.
        members: all registrations of the group, by consumer id.
        strategy: computed from ``members``; None until they are read.
        wanted: the topics whose partitions are watched.
        partitions: sorted partition numbers of each topic in ``wanted``; empty for a topic that does not exist.
        broker_ids: the live brokers.
        assignment: the leader's latest assignment; None if none is written.
        assignment_version: version of the assignment's znode, on which a write depends; None: not read yet.
    """

    consumer_id: str
    registration: ConsumerRegistration
    exclude_internal_topics: bool
    members: Mapping[str, Member] | None = None
    strategy: AssignmentStrategy | None = None
    wanted: TopicsWanted = NOTHING_WANTED
    partitions: Mapping[str, tuple[int, ...]] | None = None
    broker_ids: frozenset[int] | None = None
    assignment: GroupAssignment | None = None
    assignment_version: int | None = None

    @property
    def leads(self) -> bool:
        return self.members is not None and leader(self.members) == self.consumer_id

    @property
    def generation(self) -> int:
        """The generation of the assignment; 0 for strategies without a leader."""
        by_leader = self.strategy is not None and self.strategy.by_leader
        return self.assignment.generation if by_leader and self.assignment is not None else 0

    def topics_to_watch(self) -> TopicsWanted:
        """All topics of the group if this member computes assignments, else none."""
        if self.members is None or self.strategy is None or (self.strategy.by_leader and not self.leads):
            return NOTHING_WANTED
        registrations = [member.registration for member in self.members.values()]
        return topics_wanted(registrations, self.exclude_internal_topics)

    def written(self) -> GroupAssignment | None:
        """The written assignment if its strategy has a leader, else None."""
        if self.assignment is None or not is_by_leader(self.assignment.strategy):
            return None
        return self.assignment

    def target(self) -> Target | None:
        """What this member should own. None: unknown, so it keeps its partitions.

        Raises: InvalidTopicFilter if the regular expression of a member cannot be parsed.
        """
        if self.members is None or self.strategy is None:
            return None
        if self.strategy.by_leader:
            written = self.written()
            return None if written is None else self._given(written.assignment)
        if self.partitions is None or self.broker_ids is None:
            return None
        snapshot = group_snapshot(
            {name: member.registration for name, member in self.members.items()},
            self.partitions,
            exclude_internal_topics=self.exclude_internal_topics,
        )
        return self._given(self.strategy.assignor.assign(snapshot))

    def inputs(self) -> object:
        """The inputs of the assignment; an eager group starts over when they change. None if incremental."""
        assert self.members is not None and self.strategy is not None
        if self.strategy.incremental:
            return None
        if self.strategy.by_leader:
            written = self.written()
            return self.strategy.name, None if written is None else written.assignment
        subscriptions = {
            name: (member.registration.subscription, member.registration.pattern)
            for name, member in self.members.items()
        }
        return self.strategy.name, subscriptions, self.partitions, self.broker_ids

    def _given(self, assignment: Mapping[TopicPartition, str]) -> Target:
        prefix = f"{self.consumer_id}-"
        target: dict[TopicPartition, int] = {}
        streams: dict[str, int] = {}
        for partition, thread in assignment.items():
            if thread.startswith(prefix) and consumer_of(thread) == self.consumer_id:
                topic = partition.topic
                if topic not in streams:
                    streams[topic] = stream_count(self.registration, topic, self.exclude_internal_topics)
                number = int(thread[len(prefix) :])
                if number < streams[topic]:
                    target[partition] = number
        return target


def is_by_leader(strategy_name: str) -> bool:
    """True if a leader computes the strategy's assignments; otherwise a written assignment only names the strategy."""
    strategy = STRATEGIES.get(strategy_name)
    return strategy is not None and strategy.by_leader
