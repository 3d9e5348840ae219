"""An immutable snapshot of a cluster's metadata.

Pure, and safe to read from any thread. A response with an older leader epoch for the same topic does not restore the
old leader (KIP-320), and a response with fewer partitions removes none. Topics never lose partitions, but a broker that
lags or has just registered may know only some. Without topic ids (before inter.broker.protocol.version 2.8), fewer
partitions may mean a new topic of that name; see ``_lasting``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count, takewhile
from typing import Any, NamedTuple
from uuid import UUID

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.leader_hint import CurrentLeader, NodeEndpoint

NO_TOPIC_ID = UUID(int=0)


class Node(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionMetadata(NamedTuple):
    """``leader`` and ``leader_epoch``: -1 without a leader (or if the broker is too old)."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error_code: int


class TopicMetadata(NamedTuple):
    """``partitions``: indexed by partition number. ``available``: numbers of partitions with a leader."""

    name: str
    topic_id: UUID
    is_internal: bool
    error_code: int
    partitions: tuple[PartitionMetadata, ...]
    available: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    cluster_id: str | None = None
    controller_id: int = -1
    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)

    def topic(self, name: str) -> TopicMetadata | None:
        """None if it is unknown or unusable."""
        found = self.topics.get(name)
        return found if found is not None and found.error_code == ErrorCode.NONE and found.partitions else None

    def lacks(self, tp: TopicPartition) -> bool:
        found = self.topics.get(tp.topic)
        return found is not None and 0 < len(found.partitions) <= tp.partition

    def leader_id(self, tp: TopicPartition) -> int | None:
        """None if unknown or leaderless."""
        found = self.topics.get(tp.topic)
        if found is None or not 0 <= tp.partition < len(found.partitions):
            return None
        leader = found.partitions[tp.partition].leader
        return leader if leader in self.nodes else None

    def leader_epoch(self, tp: TopicPartition) -> int:
        """-1 if unknown."""
        found = self.topics.get(tp.topic)
        if found is None or not 0 <= tp.partition < len(found.partitions):
            return -1
        return found.partitions[tp.partition].leader_epoch

    def updated(self, response: Any, asked: Iterable[str] | None) -> "ClusterMetadata":
        """Args: ``asked``: the requested topics, None for all; other topics are kept."""
        nodes = {
            broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers
        }
        topics = {} if asked is None else dict(self.topics)
        for name in asked or ():
            topics.pop(name, None)
        for topic in response.topics:
            if topic.name is not None:
                topics[topic.name] = _topic(topic, self.topics.get(topic.name), nodes)
        return ClusterMetadata(response.cluster_id, response.controller_id, nodes, topics)

    def with_leaders(
        self, leaders: Mapping[TopicPartition, CurrentLeader], endpoints: Iterable[NodeEndpoint]
    ) -> tuple["ClusterMetadata", set[TopicPartition]]:
        """A leader is used if its epoch is newer and its address is known or in ``endpoints``.
        Source: Metadata.updatePartitionLeadership@3.9.
        """
        nodes = {**self.nodes, **{each.node_id: Node(*each) for each in endpoints}}
        news = {
            tp: leader
            for tp, leader in leaders.items()
            if leader.leader_id in nodes and self._has_partition(tp) and leader.leader_epoch > self.leader_epoch(tp)
        }
        if not news:
            return self, set()
        topics = dict(self.topics)
        for name in {tp.topic for tp in news}:
            topics[name] = _with_leaders(topics[name], news, nodes)
        return replace(self, nodes=nodes, topics=topics), set(news)

    def _has_partition(self, tp: TopicPartition) -> bool:
        found = self.topics.get(tp.topic)
        return found is not None and 0 <= tp.partition < len(found.partitions)


def _with_leaders(
    topic: TopicMetadata, news: Mapping[TopicPartition, CurrentLeader], nodes: Mapping[int, Node]
) -> TopicMetadata:
    partitions = tuple(
        each if leader is None else each._replace(leader=leader.leader_id, leader_epoch=leader.leader_epoch)
        for each in topic.partitions
        for leader in (news.get(TopicPartition(topic.name, each.partition)),)
    )
    available = tuple(each.partition for each in partitions if each.leader in nodes)
    return topic._replace(partitions=partitions, available=available)


def _topic(topic: Any, known: TopicMetadata | None, nodes: Mapping[int, Node]) -> TopicMetadata:
    topic_id = topic.topic_id or NO_TOPIC_ID
    told = {each.partition_index: _partition(each) for each in topic.partitions}
    before: dict[int, PartitionMetadata] = {}
    if known is not None and known.topic_id == topic_id and topic.error_code == ErrorCode.NONE:
        before = dict(enumerate(known.partitions))
    if topic_id == NO_TOPIC_ID:
        before = _lasting(before, told)
    newest = before | {number: _newer(each, before.get(number)) for number, each in told.items()}
    # Partitions after a gap cannot be indexed; the next refresh adds them.
    partitions = tuple(newest[number] for number in takewhile(newest.__contains__, count()))
    available = tuple(each.partition for each in partitions if each.leader in nodes)
    return TopicMetadata(topic.name, topic_id, bool(topic.is_internal), topic.error_code, partitions, available)


def _partition(told: Any) -> PartitionMetadata:
    return PartitionMetadata(
        told.partition_index,
        told.leader_id,
        -1 if told.leader_epoch is None else told.leader_epoch,
        tuple(told.replica_nodes),
        tuple(told.isr_nodes),
        tuple(told.offline_replicas or ()),
        told.error_code,
    )


def _newer(told: PartitionMetadata, before: PartitionMetadata | None) -> PartitionMetadata:
    return before if before is not None and 0 <= told.leader_epoch < before.leader_epoch else told


def _lasting(
    before: Mapping[int, PartitionMetadata], told: Mapping[int, PartitionMetadata]
) -> dict[int, PartitionMetadata]:
    """The valid partitions of a topic without an id.

    Partitions are numbered from 0. A response with a gap contains only a part of the topic, so known partitions stay. A
    response without a gap replaces the topic, as in Kafka's clients (MetadataCache.java@3.9), although the broker may
    not know added partitions yet: a kept partition of a recreated topic would never disappear. Fewer partitions and a
    leader epoch of 0 mean that the topic was recreated: no partition of the old topic is valid.
    """
    missing = before.keys() - told.keys()
    both = before.keys() & told.keys()
    if missing and any(told[number].leader_epoch == 0 < before[number].leader_epoch for number in both):
        return {}
    has_hole = len(told) <= max(told, default=-1)
    return dict(before) if has_hole else {number: before[number] for number in both}
