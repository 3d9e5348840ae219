"""The controller's metadata: brokers, topics, leaders.

UpdateMetadata contains all of it. LeaderAndIsr announces new leaders of this broker's partitions earlier; the cache
adopts them, so that clients that the old leader rejects find the new one.

Pure state, on the reactor thread, so readers see an update as a whole.
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
    """``endpoints``: by listener name. ``rack``: None if the broker has no rack."""

    broker_id: int
    endpoints: dict[str, BrokerEndPoint]
    rack: str | None


class PartitionInfo(NamedTuple):
    """Leader -1: none; -2: the partition is being deleted."""

    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: list[int]
    zk_version: int
    replicas: list[int]
    offline_replicas: list[int]


class PartitionChange(NamedTuple):
    """``info``: None if the partition is being deleted."""

    topic: str
    topic_id: uuid.UUID
    partition: int
    info: PartitionInfo | None


PARTITIONS_OF_CHUNK = 256
"""Number of consecutive partitions that are encoded together; if one changes, the encoded chunk is dropped."""


class EncodedTopic:
    """The encoded response for a topic. ``parts``: the whole response; None after a change. ``chunks``: unchanged
    partitions by number // PARTITIONS_OF_CHUNK."""

    __slots__ = ("chunks", "parts")

    def __init__(self) -> None:
        self.parts: tuple[bytes, ...] | None = None
        self.chunks: dict[int, bytes] = {}

    def forget(self, partition: int) -> None:
        self.parts = None
        self.chunks.pop(partition // PARTITIONS_OF_CHUNK, None)


class MetadataCache:
    """The cluster according to the last UpdateMetadata, with newer leaders from LeaderAndIsr.

    After a new registration, the controller sends all topics, so the first update with partitions replaces everything.
    An unknown topic's partitions come in one request, because an incomplete topic would mislead keyed producers and the
    search for a coordinator.

    Attributes:
        controller_id: -1 before the first update.
        topics: topic name -> partition number -> info; topics without partitions are absent.
        topic_ids, topic_names: inverse mappings, for topics with an id.
        encoded: responses by topic, then by the other parameters of the response. A changed partition drops its chunk;
            changed brokers drop all.
        updates: lock while an update is prepared over several turns, so that no older one overwrites it.
        broker_epoch: this broker's newest registration; -1 before the first.
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
        self._is_old = False  # the metadata is older than this registration

    def update(self, request: Any, changes: Sequence[PartitionChange] | None = None) -> None:
        """Apply an UpdateMetadata of any version. ``changes``: the result of ``partition_changes``, if it is known
        already."""
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
        """True if the update changes responses. Readers treat replicas on dead brokers as offline anyway."""
        if known is None or known[:-1] != told[:-1]:  # all fields except offline_replicas
            return True
        return any(broker in self.brokers for broker in {*known.offline_replicas} ^ {*told.offline_replicas})

    def new_leader(self, topic: str, topic_id: uuid.UUID, partition: int, info: PartitionInfo) -> None:
        """Adopt a newer leader from LeaderAndIsr, which lacks offline replicas.

        Unknown partitions must wait for UpdateMetadata.
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
        """True if the partition exists; ``topic`` is a name, or an id of 16 bytes."""
        name = self.topic_names.get(uuid.UUID(bytes=topic)) if isinstance(topic, bytes) else topic
        return name is not None and self.partition(name, partition) is not None

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self.brokers

    @property
    def racks(self) -> dict[int, str | None]:
        """Racks of the live brokers by id."""
        return {broker.broker_id: broker.rack for broker in self.brokers.values()}

    def _partitions(self, topic: str, topic_id: uuid.UUID) -> dict[int, PartitionInfo]:
        """Return the known partitions of the topic and adopt its id. A different id means another topic of this
        name."""
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
