"""The controller's metadata about the cluster: brokers, topics, leaders.

UpdateMetadata contains all of it. For partitions with a replica on this broker, LeaderAndIsr announces a new leader
earlier. The cache adopts that leader, so that clients that the old leader rejects find the new one.

Pure state: no I/O. Everything happens on the reactor thread, so readers see an update as a whole.
Source: ZkMetadataCache.scala@3.9.
"""

import uuid
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from twisted.internet.defer import DeferredLock

from kafka_zk.protocol import uuids

LEADER_DURING_DELETE = -2


class BrokerEndPoint(NamedTuple):
    host: str
    port: int


class AliveBroker(NamedTuple):
    """A live broker. ``endpoints``: by listener name."""

    broker_id: int
    endpoints: dict[str, BrokerEndPoint]
    rack: str | None


class PartitionInfo(NamedTuple):
    """The controller's last decision about a partition. Leader -1: none; -2: the partition is being deleted."""

    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: list[int]
    zk_version: int
    replicas: list[int]
    offline_replicas: list[int]


class PartitionChange(NamedTuple):
    """One partition of an UpdateMetadata. ``info`` is None if it is being deleted."""

    topic: str
    topic_id: uuid.UUID
    partition: int
    info: PartitionInfo | None


PARTITIONS_OF_CHUNK = 256
"""Number of partitions, with consecutive numbers, whose encoded form is dropped when one of them changes."""


class EncodedTopic:
    """The encoded response for a topic. ``parts``: the whole response; None after a change. ``chunks``: the encoded
    partitions by number // PARTITIONS_OF_CHUNK, without changed chunks."""

    __slots__ = ("chunks", "parts")

    def __init__(self) -> None:
        self.parts: tuple[bytes, ...] | None = None
        self.chunks: dict[int, bytes] = {}

    def forget(self, partition: int) -> None:
        """Drop the encoded form of a partition that has changed."""
        self.parts = None
        self.chunks.pop(partition // PARTITIONS_OF_CHUNK, None)


class MetadataCache:
    """The cluster according to the last UpdateMetadata, with newer leaders from LeaderAndIsr.

    After a new registration, the first update with partitions replaces all metadata, because the controller sends all
    topics again. All partitions of an unknown topic arrive in one request: an incomplete topic would mislead keyed
    producers and the search for a coordinator.

    Attributes:
        controller_id: the last update's controller; -1 before the first update.
        brokers: live brokers by id.
        topics: by name and partition number; a topic without partitions has no entry.
        topic_ids, topic_names: inverse mappings, for topics with an id.
        encoded: by topic, then by the other parameters of the response. A changed partition drops its chunk, changed
            live brokers drop everything.
        updates: lock held while an update is prepared over several turns, so that an older one cannot overwrite a
            newer.
        broker_epoch: this broker's newest registration in an update; -1 before the first.
    """

    def __init__(self) -> None:
        self.controller_id = -1
        self.brokers: dict[int, AliveBroker] = {}
        self.topics: dict[str, dict[int, PartitionInfo]] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.topic_names: dict[uuid.UUID, str] = {}
        self.encoded: dict[str, dict[Hashable, EncodedTopic]] = {}
        self.updates = DeferredLock()
        self.broker_epoch = -1
        self._is_old = False  # True if the content is older than this registration

    def update(self, request: Any, changes: Sequence[PartitionChange] | None = None) -> None:
        """Apply an UpdateMetadata of any version. ``changes``: its ``partition_changes``, if already computed."""
        changes = list(partition_changes(request)) if changes is None else changes
        if request.broker_epoch > self.broker_epoch:
            self.broker_epoch = request.broker_epoch
            self._is_old = True
        if self._is_old and changes:
            self._is_old = False
            for known in (self.topics, self.topic_ids, self.topic_names, self.encoded):
                known.clear()
        self.controller_id = request.controller_id
        brokers = {broker.id: _alive_broker(broker) for broker in request.live_brokers}
        if brokers != self.brokers:
            self.brokers = brokers
            self.encoded.clear()
        last: str | None = None
        encoded: Sequence[EncodedTopic] = ()
        partitions: dict[int, PartitionInfo] = {}
        for topic, topic_id, partition, info in changes:
            if info is None:
                self.encoded.pop(topic, None)
                self._remove(topic, partition)
                last = None
            else:
                if topic is not last:  # once per topic
                    before = self.topics.get(topic)
                    partitions = self._partitions(topic, topic_id)
                    if partitions is not before:
                        self.encoded.pop(topic, None)
                    encoded = list(self.encoded.get(topic, {}).values())
                    last = topic
                if encoded and self._is_news(partitions.get(partition), info):
                    for each in encoded:
                        each.forget(partition)
                partitions[partition] = info

    def _is_news(self, known: PartitionInfo | None, told: PartitionInfo) -> bool:
        """True if responses change. Readers know by themselves that replicas on dead brokers are offline."""
        if known is None or known[:-1] != told[:-1]:  # all fields except offline_replicas
            return True
        return any(broker in self.brokers for broker in {*known.offline_replicas} ^ {*told.offline_replicas})

    def new_leader(self, topic: str, topic_id: uuid.UUID, partition: int, info: PartitionInfo) -> None:
        """Adopt a leader from LeaderAndIsr, which lacks offline replicas, if its epoch is newer.

        Unknown partitions are ignored until UpdateMetadata.
        """
        partitions = self.topics.get(topic, {})
        known = partitions.get(partition)
        if known is None or info.leader_epoch <= known.leader_epoch:
            return
        if self.topic_ids.get(topic, uuids.ZERO) != topic_id:
            return
        partitions[partition] = info._replace(offline_replicas=known.offline_replicas)
        for each in self.encoded.get(topic, {}).values():
            each.forget(partition)

    def partition(self, topic: str, partition: int) -> PartitionInfo | None:
        return self.topics.get(topic, {}).get(partition)

    def knows(self, topic: str | bytes, partition: int) -> bool:
        """True if the partition exists. ``topic``: a name, or an id of 16 bytes."""
        name = self.topic_names.get(uuid.UUID(bytes=topic)) if isinstance(topic, bytes) else topic
        return name is not None and self.partition(name, partition) is not None

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self.brokers

    @property
    def racks(self) -> dict[int, str | None]:
        """Racks of the live brokers by id."""
        return {broker.broker_id: broker.rack for broker in self.brokers.values()}

    def _partitions(self, topic: str, topic_id: uuid.UUID) -> dict[int, PartitionInfo]:
        """The partitions of a topic. Adopts the topic's id; another id means another topic with this name."""
        if topic_id != uuids.ZERO and self.topic_ids.get(topic) != topic_id:
            if topic in self.topic_ids:
                self.topics.pop(topic, None)
            self.topic_names.pop(self.topic_ids.get(topic, uuids.ZERO), None)
            self.encoded.pop(topic, None)
            self.topic_ids[topic] = topic_id
            self.topic_names[topic_id] = topic
        return self.topics.setdefault(topic, {})

    def _remove(self, topic: str, partition: int) -> None:
        partitions = self.topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            self.topics.pop(topic, None)
            self.topic_names.pop(self.topic_ids.pop(topic, uuids.ZERO), None)


def _alive_broker(broker: Any) -> AliveBroker:
    if broker.endpoints:
        endpoints = {e.listener or _protocol_name(e): BrokerEndPoint(e.host, e.port) for e in broker.endpoints}
    else:  # version 0
        endpoints = {"PLAINTEXT": BrokerEndPoint(broker.v0_host, broker.v0_port)}
    return AliveBroker(broker.id, endpoints, broker.rack or None)


_PROTOCOLS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}


def _protocol_name(endpoint: Any) -> str:
    return _PROTOCOLS.get(endpoint.security_protocol, f"UNKNOWN_{endpoint.security_protocol}")


def partition_changes(request: Any) -> Iterator[PartitionChange]:
    """The partitions of an UpdateMetadata request (any version), in order."""
    for topic, topic_id, state in _partition_states(request):
        info = None
        if state.leader != LEADER_DURING_DELETE:
            info = PartitionInfo(
                state.controller_epoch,
                state.leader,
                state.leader_epoch,
                list(state.isr),
                state.zk_version,
                list(state.replicas),
                list(state.offline_replicas or ()),
            )
        yield PartitionChange(topic, topic_id, state.partition_index, info)


def _partition_states(request: Any) -> Iterable[tuple[str, uuid.UUID, Any]]:
    for topic in request.topic_states or ():
        for state in topic.partition_states:
            yield topic.topic_name, topic.topic_id or uuids.ZERO, state
    for state in request.ungrouped_partition_states or ():  # versions 0 to 4
        yield state.topic_name, uuids.ZERO, state
