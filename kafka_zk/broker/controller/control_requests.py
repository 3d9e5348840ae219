"""The controller's three requests to brokers, in any version. Pure.

Each request encodes itself and decodes its response. A request is one message, except StopReplica below version 3,
whose ``delete`` covers the whole message. Versions follow ``inter.broker.protocol.version``:

    LeaderAndIsr    7 (3.4)  6 recovery state (3.2)  5 topic ids (2.8)  4 flexible (2.4)  3  2 by topic (2.2)  1  0
    UpdateMetadata  8 (3.4)  7 topic ids (2.8)       6 flexible (2.4)   5 by topic (2.2)  4  3
    StopReplica     4 (3.4)  3 per partition (2.6)   2 flexible (2.4)   1 by topic (2.2)  0

Source: ControllerChannelManager.scala@3.9.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, NamedTuple, TypeVar

from kafka_zk.base.integers import INT8, INT32
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.inter_broker_protocol import ControlVersions
from kafka_zk.broker.controller.context import LeadershipInfo, ReplicaAssignment
from kafka_zk.broker.controller.turns import PARTITIONS_A_TURN
from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.codec import Message
from kafka_zk.protocol.security_protocol import SECURITY_PROTOCOL_IDS
from kafka_zk.registry.znodes.brokers import BrokerInfo

T = TypeVar("T")

VERSIONS: Mapping[ApiKey, tuple[int, int]] = {
    ApiKey.LEADER_AND_ISR: (0, 7),
    ApiKey.UPDATE_METADATA: (3, 8),
    ApiKey.STOP_REPLICA: (0, 4),
}
"""Lowest and highest supported version of each request."""

_LeaderAndIsr = codec.request(ApiKey.LEADER_AND_ISR)
_UpdateMetadata = codec.request(ApiKey.UPDATE_METADATA)
_StopReplica = codec.request(ApiKey.STOP_REPLICA)

PARTITIONS_AT_ONCE = 1000
"""Maximum number of partitions in a request; handling them blocks a broker for 5 to 10 ms. UpdateMetadata has more if a
single topic has more."""

_LEADER_AND_ISR_BY_TOPIC_SINCE = 2
_UPDATE_METADATA_BY_TOPIC_SINCE = 5
_STOP_REPLICA_BY_TOPIC_SINCE = 1
_TOPIC_IDS_SINCE = 5
_DELETE_PER_PARTITION_SINCE = 3


class Sender(NamedTuple):
    """The controller, and the recipient's broker epoch."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int


class Node(NamedTuple):
    """A leader's address on the inter-broker listener."""

    broker_id: int
    host: str
    port: int


class LeaderAndIsrPartition(NamedTuple):
    info: LeadershipInfo
    assignment: ReplicaAssignment
    is_new: bool


class PartitionMetadata(NamedTuple):
    info: LeadershipInfo
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]


@dataclass(slots=True)
class LeaderAndIsrState:
    """A partition, with field names for the codec."""

    topic_name: str
    partition_index: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: Sequence[int]
    partition_epoch: int
    replicas: Sequence[int]
    adding_replicas: Sequence[int]
    removing_replicas: Sequence[int]
    is_new: bool
    leader_recovery_state: int


@dataclass(slots=True)
class MetadataState:
    """Like LeaderAndIsrState, for UpdateMetadata."""

    topic_name: str
    partition_index: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: Sequence[int]
    zk_version: int
    replicas: Sequence[int]
    offline_replicas: Sequence[int]


class StopPartition(NamedTuple):
    leader_epoch: int
    delete: bool


class Answer(NamedTuple):
    """Error codes of the whole response and of each partition."""

    error_code: int
    partition_errors: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class LeaderAndIsrRequest:
    """Tells a broker which partitions it leads or follows."""

    api_key: ClassVar[ApiKey] = ApiKey.LEADER_AND_ISR
    sender: Sender
    partitions: Mapping[TopicPartition, LeaderAndIsrPartition]
    topic_ids: Mapping[str, str]
    live_leaders: tuple[Node, ...]

    def protocol_version(self, versions: ControlVersions) -> int:
        return versions.leader_and_isr

    def messages(self, version: int) -> list[Message]:
        by_name = version < _LEADER_AND_ISR_BY_TOPIC_SINCE
        topics = [] if by_name else [
            _LeaderAndIsr.LeaderAndIsrTopicState(
                topic_name=topic,
                topic_id=_wire_id(self.topic_ids, topic),
                partition_states=[self._partition_state(tp) for tp in partitions],
            )
            for topic, partitions in by_topic(self.partitions)
        ]
        leaders = [
            _LeaderAndIsr.LeaderAndIsrLiveLeader(broker_id=node.broker_id, host_name=node.host, port=node.port)
            for node in self.live_leaders
        ]
        return [
            _LeaderAndIsr(
                **self.sender._asdict(),
                ungrouped_partition_states=[self._partition_state(tp) for tp in self.partitions] if by_name else [],
                topic_states=topics,
                live_leaders=leaders,
            )
        ]

    def answer(self, version: int, response: Message) -> Answer:
        if version < _TOPIC_IDS_SINCE:
            return _answer_by_name(response)
        names = {_wire_id(self.topic_ids, topic): topic for topic in {tp.topic for tp in self.partitions}}
        errors = {
            TopicPartition(names[topic.topic_id], error.partition_index): error.error_code
            for topic in response.topics or ()
            if topic.topic_id in names
            for error in topic.partition_errors
        }
        return Answer(response.error_code, errors)

    def _partition_state(self, tp: TopicPartition) -> LeaderAndIsrState:
        info, assignment, is_new = self.partitions[tp]
        return LeaderAndIsrState(
            tp.topic,
            tp.partition,
            info.controller_epoch,
            info.leader,
            info.leader_epoch,
            info.isr,
            info.zk_version,
            *assignment,
            is_new,
            info.leader_recovery_state,
        )


@dataclass(frozen=True)
class ClusterUpdate:
    """The part of UpdateMetadata that all brokers share, encoded once for all."""

    partitions: Mapping[TopicPartition, PartitionMetadata]
    topic_ids: Mapping[str, str]
    brokers: tuple[BrokerInfo, ...]
    _states: dict[TopicPartition, MetadataState] = field(default_factory=dict, init=False, repr=False, compare=False)

    def prepare(self) -> Iterator[int]:
        """Build the partition states in slices; yields the number of partitions in each slice."""
        for portion in portions((tp for tp in self.partitions if tp not in self._states), PARTITIONS_A_TURN):
            self._states.update((tp, self._partition_state(tp)) for tp in portion)
            yield len(portion)

    @property
    def partition_states(self) -> list[MetadataState]:
        """The partitions as a flat list, for versions below 5."""
        for _ in self.prepare():
            pass
        return [self._states[tp] for tp in self.partitions]

    @cached_property
    def topic_states(self) -> list[Any]:
        for _ in self.prepare():
            pass
        return [
            _UpdateMetadata.UpdateMetadataTopicState(
                topic_name=topic,
                topic_id=_wire_id(self.topic_ids, topic),
                partition_states=[self._states[tp] for tp in partitions],
            )
            for topic, partitions in by_topic(self.partitions)
        ]

    @cached_property
    def live_brokers(self) -> list[Any]:
        return [_live_broker(info) for info in self.brokers]

    def merged(self, newer: "ClusterUpdate") -> "ClusterUpdate | None":
        """The merged update, in which ``newer`` takes precedence. None if it is too large, or if a topic's id
        changed."""
        limit = max(PARTITIONS_AT_ONCE, len(newer.partitions))
        if len(self.partitions) > limit:
            return None
        if any(newer.topic_ids.get(topic, topic_id) != topic_id for topic, topic_id in self.topic_ids.items()):
            return None
        if self.partitions.keys() <= newer.partitions.keys():
            return newer  # this request then still shares its encoded parts with requests to other brokers
        partitions = {**self.partitions, **newer.partitions}
        if len(partitions) > limit:
            return None
        return ClusterUpdate(partitions, {**self.topic_ids, **newer.topic_ids}, newer.brokers)

    def _partition_state(self, tp: TopicPartition) -> MetadataState:
        info, replicas, offline_replicas = self.partitions[tp]
        return MetadataState(
            tp.topic,
            tp.partition,
            info.controller_epoch,
            info.leader,
            info.leader_epoch,
            info.isr,
            info.zk_version,
            replicas,
            offline_replicas,
        )


@dataclass(frozen=True, slots=True)
class UpdateMetadataRequest:
    """Tells a broker the live brokers and the state of partitions that clients will see."""

    api_key: ClassVar[ApiKey] = ApiKey.UPDATE_METADATA
    sender: Sender
    update: ClusterUpdate

    def protocol_version(self, versions: ControlVersions) -> int:
        return versions.update_metadata

    def messages(self, version: int) -> list[Message]:
        by_name = version < _UPDATE_METADATA_BY_TOPIC_SINCE
        return [
            _UpdateMetadata(
                **self.sender._asdict(),
                ungrouped_partition_states=self.update.partition_states if by_name else [],
                topic_states=[] if by_name else self.update.topic_states,
                live_brokers=self.update.live_brokers,
            )
        ]

    def answer(self, version: int, response: Message) -> Answer:
        return Answer(response.error_code, {})

    def merged(self, newer: "UpdateMetadataRequest") -> "UpdateMetadataRequest | None":
        """The request that replaces both; None if they cannot be merged, see ``ClusterUpdate.merged``."""
        update = self.update.merged(newer.update) if self.sender == newer.sender else None
        return None if update is None else replace(newer, update=update)


@dataclass(frozen=True, slots=True)
class StopReplicaRequest:
    """Tells a broker which replicas to stop, and which of them to delete."""

    api_key: ClassVar[ApiKey] = ApiKey.STOP_REPLICA
    sender: Sender
    partitions: Mapping[TopicPartition, StopPartition]

    def protocol_version(self, versions: ControlVersions) -> int:
        return versions.stop_replica

    def messages(self, version: int) -> list[Message]:
        if version >= _DELETE_PER_PARTITION_SINCE:
            return [self._message(topic_states=self._topic_states())]
        by_flag = {flag: [tp for tp, stop in self.partitions.items() if stop.delete is flag] for flag in (True, False)}
        listed = _by_name if version < _STOP_REPLICA_BY_TOPIC_SINCE else _by_topic
        return [
            self._message(delete_partitions=flag, **listed(partitions))
            for flag, partitions in by_flag.items()
            if partitions
        ]

    def answer(self, version: int, response: Message) -> Answer:
        return _answer_by_name(response)

    def _message(self, **fields: Any) -> Message:
        return _StopReplica(**self.sender._asdict(), **fields)

    def _topic_states(self) -> list[Any]:
        return [
            _StopReplica.StopReplicaTopicState(
                topic_name=topic,
                partition_states=[
                    _StopReplica.StopReplicaTopicState.StopReplicaPartitionState(
                        partition_index=tp.partition,
                        leader_epoch=self.partitions[tp].leader_epoch,
                        delete_partition=self.partitions[tp].delete,
                    )
                    for tp in partitions
                ],
            )
            for topic, partitions in by_topic(self.partitions)
        ]


def _by_name(partitions: Iterable[TopicPartition]) -> dict[str, Any]:
    entry = _StopReplica.StopReplicaPartitionV0
    return {
        "ungrouped_partitions": [entry(topic_name=tp.topic, partition_index=tp.partition) for tp in partitions]
    }


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, Any]:
    return {
        "topics": [
            _StopReplica.StopReplicaTopicV1(name=topic, partition_indexes=[tp.partition for tp in group])
            for topic, group in by_topic(partitions)
        ]
    }


def can_be_sent(partition: TopicPartition, info: LeadershipInfo, assignment: ReplicaAssignment) -> bool:
    """True if each number fits its field in every version. An overflow would block all other partitions."""
    numbers = [partition.partition, info.leader, info.leader_epoch, info.controller_epoch, info.zk_version]
    for listed in (info.isr, *assignment):
        numbers.extend(listed)
    return info.leader_recovery_state in INT8 and min(numbers) in INT32 and max(numbers) in INT32


ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


def by_topic(partitions: Iterable[TopicPartition]) -> Iterator[tuple[str, list[TopicPartition]]]:
    """Group partitions by topic, in the order of first appearance."""
    grouped: dict[str, list[TopicPartition]] = {}
    for tp in partitions:
        grouped.setdefault(tp.topic, []).append(tp)
    yield from grouped.items()


def portions(items: Iterable[T], size: int = PARTITIONS_AT_ONCE) -> Iterator[list[T]]:
    """Split the items into lists of at most ``size``."""
    rest = iter(items)
    while portion := list(islice(rest, size)):
        yield portion


def whole_topics(partitions: Iterable[TopicPartition]) -> Iterator[list[TopicPartition]]:
    """Lists of whole topics with up to PARTITIONS_AT_ONCE partitions in all, or of one larger topic, because clients
    must not see incomplete topics."""
    portion: list[TopicPartition] = []
    for _, of_topic in by_topic(partitions):
        if portion and len(portion) + len(of_topic) > PARTITIONS_AT_ONCE:
            yield portion
            portion = []
        portion += of_topic
    if portion:
        yield portion


def _wire_id(topic_ids: Mapping[str, str], topic: str) -> uuid.UUID:
    text = topic_ids.get(topic)
    return uuids.ZERO if text is None else uuids.from_text(text)


def _live_broker(info: BrokerInfo) -> Any:
    broker = _UpdateMetadata.UpdateMetadataBroker
    return broker(
        id=info.broker_id,
        v0_host=info.host or "",
        v0_port=info.port,
        endpoints=[
            broker.UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.name,
                security_protocol=SECURITY_PROTOCOL_IDS[endpoint.protocol],
            )
            for endpoint in info.endpoints
            if endpoint.protocol in SECURITY_PROTOCOL_IDS  # skips unknown protocols
        ],
        rack=info.rack,
    )


def _answer_by_name(response: Message) -> Answer:
    errors = {
        TopicPartition(error.topic_name, error.partition_index): error.error_code
        for error in response.partition_errors or ()
    }
    return Answer(response.error_code, errors)
