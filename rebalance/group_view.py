"""What one member knows of its group, and what follows from it: its target. Pure.

Views of two members differ for a while; that costs time, not safety (claims decide). Tests:
``tests/rebalance/test_group_view.py``.
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
"""Partition -> number of the member's thread that shall read it."""


@dataclass(slots=True)
class GroupView:
    """The newest state of everything watched; None: not read yet."""

    consumer_id: str
    registration: ConsumerRegistration
    exclude_internal_topics: bool
    members: Mapping[str, Member] | None = None
    strategy: AssignmentStrategy | None = None  # follows from the members
    wanted: TopicsWanted = NOTHING_WANTED
    partitions: Mapping[str, tuple[int, ...]] | None = None  # of the topics wanted
    broker_ids: frozenset[int] | None = None
    assignment: GroupAssignment | None = None
    assignment_version: int | None = None

    @property
    def leads(self) -> bool:
        """Whether this member is the group's leader."""
        return self.members is not None and leader(self.members) == self.consumer_id

    @property
    def generation(self) -> int:
        """0 for a strategy without."""
        by_leader = self.strategy is not None and self.strategy.by_leader
        return self.assignment.generation if by_leader and self.assignment is not None else 0

    def topics_to_watch(self) -> TopicsWanted:
        """Who assigns must know all topics of the group; what a leader assigned, the others just read."""
        if self.members is None or self.strategy is None or (self.strategy.by_leader and not self.leads):
            return NOTHING_WANTED
        registrations = [member.registration for member in self.members.values()]
        return topics_wanted(registrations, self.exclude_internal_topics)

    def written(self) -> GroupAssignment | None:
        """The leader's assignment, if it is one that a strategy of the present kind wrote."""
        if self.assignment is None or not is_by_leader(self.assignment.strategy):
            return None
        return self.assignment

    def target(self) -> Target | None:
        """What this member should own; None as long as that is not known: then it keeps what it has.

        Raises: InvalidTopicFilter if the regular expression of a member is not understood.
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

    def basis(self) -> object:
        """What an eager group starts all over for when it changes; None for incremental ones. Compare with ``==``."""
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
        """This member's part, as far as it subscribes to it (the leader may have seen an older registration)."""
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
    """Whether an assignment of that strategy tells who should own what (others only mark that they rule now)."""
    strategy = STRATEGIES.get(strategy_name)
    return strategy is not None and strategy.by_leader
