"""What the controller told this broker about the cluster: brokers, topics, leaders.

All of it comes with UpdateMetadata. A new leader of a partition that this broker has a replica of comes with
LeaderAndIsr before, and is taken over from that: clients that the old leader sends away then learn from it where to go.
(Newer clients learn it from the response that sends them away: KIP-951.)

Pure state: no I/O. Readers see a whole update or none of it, since everything happens on the reactor thread.

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
    """A live broker; ``endpoints`` by listener name."""

    broker_id: int
    endpoints: dict[str, BrokerEndPoint]
    rack: str | None


class PartitionInfo(NamedTuple):
    """The last decision about a partition; leader -1 = none, -2 = being deleted."""

    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: list[int]
    zk_version: int
    replicas: list[int]
    offline_replicas: list[int]


class PartitionChange(NamedTuple):
    """What an UpdateMetadata says of a partition; ``info`` is None when it is being deleted."""

    topic: str
    topic_id: uuid.UUID
    partition: int
    info: PartitionInfo | None


PARTITIONS_OF_CHUNK = 256
"""Of neighbouring numbers: what is told of one takes away what was encoded of these."""


class EncodedTopic:
    """What readers answer with for a topic: ``parts``, None after news of it. ``chunks`` are what is left of those for
    partitions, by the numbers of these divided by PARTITIONS_OF_CHUNK."""

    __slots__ = ("chunks", "parts")

    def __init__(self) -> None:
        self.parts: tuple[bytes, ...] | None = None
        self.chunks: dict[int, bytes] = {}

    def forget(self, partition: int) -> None:
        """There are news of it."""
        self.parts = None
        self.chunks.pop(partition // PARTITIONS_OF_CHUNK, None)


class MetadataCache:
    """The cluster as of the last UpdateMetadata, and newer leaders.

    ``encoded`` is for readers: by topic what they answer with, by whatever the bytes depend on beside this state. News
    take away what they concern: a chunk of a topic, those of live brokers everything. ``broker_epoch`` is that of this
    broker's registration, of which the last update knew. Whoever prepares an update in turns holds ``updates`` from
    before it begins until it is taken over, so that nothing older overwrites what is newer.

    A broker that registers again drops what it knows with the first update that has partitions: the controller sends
    everything again, but not what was deleted meanwhile. A broker that does not know a topic is sent all its partitions
    in one request, by Kafka's controller and by ours. Some of them would pass for all, and so mislead keyed producers
    and whoever looks for a coordinator.
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
        self._is_old = False  # what is here is from before this registration

    def update(self, request: Any, changes: Sequence[PartitionChange] | None = None) -> None:
        """Take over an UpdateMetadata request (any version); ``changes`` are its ``partition_changes``, if they were
        made before.
        """
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
                if topic is not last:  # once for all partitions of a topic, of which there are thousands
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
        """Whether answers change. Readers know by themselves that replicas on dead brokers are offline, so what
        LeaderAndIsr brought before is not news again when UpdateMetadata adds these."""
        if known is None or known[:-1] != told[:-1]:  # all but the offline replicas
            return True
        return any(broker in self.brokers for broker in {*known.offline_replicas} ^ {*told.offline_replicas})

    def new_leader(self, topic: str, topic_id: uuid.UUID, partition: int, info: PartitionInfo) -> None:
        """LeaderAndIsr told of this, but for the offline replicas. Counts if the leader epoch is newer than what is
        known of the partition; one that is not known is for UpdateMetadata to tell of."""
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
        """Whether there is such a partition; ``topic`` is a name, or an id of 16 bytes."""
        name = self.topic_names.get(uuid.UUID(bytes=topic)) if isinstance(topic, bytes) else topic
        return name is not None and self.partition(name, partition) is not None

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self.brokers

    @property
    def racks(self) -> dict[int, str | None]:
        """Of the live brokers."""
        return {broker.broker_id: broker.rack for broker in self.brokers.values()}

    def _partitions(self, topic: str, topic_id: uuid.UUID) -> dict[int, PartitionInfo]:
        """The partitions of the topic that has that id from now on."""
        if topic_id != uuids.ZERO and self.topic_ids.get(topic) != topic_id:
            if topic in self.topic_ids:
                self.topics.pop(topic, None)  # another topic of that name
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
    """What an UpdateMetadata request (any version) says of partitions, in its order."""
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
