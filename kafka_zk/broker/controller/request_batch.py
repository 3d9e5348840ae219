"""Combines effects of the state machines into few requests. Pure.

All LeaderAndIsr effects for a broker become one request, all partition updates one UpdateMetadata for all live brokers,
and so on; but a request has at most PARTITIONS_AT_ONCE partitions. Requests are built in steps, in Kafka's order:
LeaderAndIsr, UpdateMetadata, StopReplica; the reactor does other work in between.
Source: AbstractControllerBrokerRequestBatch in ControllerChannelManager.scala@3.9.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice, zip_longest
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.context import LEADER_DURING_DELETE, Context, LeadershipInfo
from kafka_zk.broker.controller.control_requests import (
    PARTITIONS_AT_ONCE,
    ClusterUpdate,
    ControlRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    Node,
    PartitionMetadata,
    Sender,
    StopPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
    can_be_sent,
    portions,
    whole_topics,
)
from kafka_zk.broker.controller.effects import FailedChange, Send, SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from kafka_zk.broker.controller.turns import PARTITIONS_A_TURN


class Step(NamedTuple):
    """``handled``: number of partitions in this step, at most PARTITIONS_AT_ONCE. Starting to send a request takes as
    much work as the step itself. ``requests``: (broker id, request) pairs that are now complete."""

    handled: int
    requests: list[tuple[int, ControlRequest]]


class RequestBatch:
    """``add`` effects, then ``flush`` them in steps, in sending order.

    ``listener_name``: inter-broker listener, for leaders' addresses.
    """

    def __init__(self, context: Context, controller_id: int, listener_name: str) -> None:
        self._context = context
        self._controller_id = controller_id
        self._listener_name = listener_name
        self._leader_and_isr: dict[int, dict[TopicPartition, bool]] = {}  # broker -> partition -> is new
        self._stop_replica: dict[int, dict[TopicPartition, bool]] = {}  # broker -> partition -> delete
        self._update_brokers: set[int] = set()
        self._update_partitions: dict[TopicPartition, None] = {}
        self._holds_updates = False
        self._refused: list[FailedChange] = []

    def add(self, effects: Iterable[Send]) -> None:
        """Collect effects. A partition is new, or to be deleted, if any of its effects says so."""
        for effect in effects:
            match effect:
                case SendLeaderAndIsr(broker_ids, tp, is_new):
                    for broker_id in broker_ids:
                        partitions = self._leader_and_isr.setdefault(broker_id, {})
                        partitions[tp] = is_new or partitions.get(tp, False)
                    self._add_update(None, (tp,))
                case SendStopReplica(broker_id, tp, delete):
                    partitions = self._stop_replica.setdefault(broker_id, {})
                    partitions[tp] = delete or partitions.get(tp, False)
                case SendUpdateMetadata(brokers, tps):
                    self._add_update(brokers, tps)

    def full(self) -> Iterator[Step]:
        """Build the full LeaderAndIsr requests. Do not call ``add`` before the last step."""
        collected = self._leader_and_isr
        while full := [each for each in self._registered(collected) if len(collected[each]) >= PARTITIONS_AT_ONCE]:
            for broker_id in full:
                tps = list(islice(collected[broker_id], PARTITIONS_AT_ONCE))
                is_new = {tp: collected[broker_id].pop(tp) for tp in tps}
                yield Step(len(is_new), self._leader_and_isr_request(broker_id, is_new))

    def flush(self) -> Iterator[Step]:
        """Build all requests. Do not call ``add`` before the last step.
        Unregistered brokers get nothing; ``take_refused`` returns the changes that could not be sent.
        """
        leader_and_isr, self._leader_and_isr = self._leader_and_isr, {}
        stop_replica, self._stop_replica = self._stop_replica, {}
        recipients = self._registered(leader_and_isr)
        for turn in zip_longest(*(portions(leader_and_isr[broker_id].items()) for broker_id in recipients)):
            for broker_id, is_new in zip(recipients, turn, strict=True):
                if is_new:
                    yield Step(len(is_new), self._leader_and_isr_request(broker_id, dict(is_new)))
        if not self._holds_updates:
            update_brokers, self._update_brokers = self._update_brokers, set()
            update_partitions, self._update_partitions = self._update_partitions, {}
            yield from self._update_metadata_requests(self._registered(update_brokers), update_partitions)
        for broker_id in self._registered(stop_replica):
            for deletes in portions(stop_replica[broker_id].items()):
                yield Step(len(deletes), [(broker_id, self._stop_replica_request(broker_id, dict(deletes)))])

    @contextmanager
    def updates_held(self) -> Iterator[None]:
        """Within the ``with`` block, ``flush`` keeps UpdateMetadata for a later ``flush``."""
        self._holds_updates = True
        try:
            yield
        finally:
            self._holds_updates = False

    def take_refused(self) -> list[FailedChange]:
        """The changes that could not be sent since the last call."""
        refused, self._refused = self._refused, []
        return refused

    def _add_update(self, broker_ids: Iterable[int] | None, partitions: Iterable[TopicPartition]) -> None:
        self._update_brokers.update(self._context.brokers if broker_ids is None else broker_ids)
        self._update_partitions.update(dict.fromkeys(partitions))

    def _registered(self, broker_ids: Iterable[int]) -> list[int]:
        return sorted(broker_id for broker_id in broker_ids if broker_id in self._context.brokers)

    def _sender(self, broker_id: int) -> Sender:
        return Sender(self._controller_id, self._context.epoch, self._context.brokers[broker_id].epoch)

    def _leader_and_isr_request(
        self, broker_id: int, is_new: Mapping[TopicPartition, bool]
    ) -> list[tuple[int, ControlRequest]]:
        context = self._context
        partitions = {
            tp: LeaderAndIsrPartition(context.leadership[tp], context.assignment(tp), is_new[tp])
            for tp in self._sendable(is_new)
        }
        if not partitions:
            return []
        leaders = {partition.info.leader for partition in partitions.values()}
        request = LeaderAndIsrRequest(
            self._sender(broker_id), partitions, self._topic_ids(partitions), self._nodes(leaders)
        )
        return [(broker_id, request)]

    def _update_metadata_requests(
        self, broker_ids: Sequence[int], partitions: Iterable[TopicPartition]
    ) -> Iterator[Step]:
        """The requests for changed partitions; if none has changed, one request with the live brokers."""
        leadership = self._context.leadership
        brokers = tuple(broker.info for _, broker in sorted(self._context.brokers.items()))
        known = [tp for tp in partitions if tp in leadership] if broker_ids else []
        for whole in list(whole_topics(known)) or [[]]:
            metadata: dict[TopicPartition, PartitionMetadata] = {}
            for portion in portions(whole, PARTITIONS_A_TURN):
                metadata.update((tp, self._metadata(tp, leadership[tp])) for tp in self._sendable(portion))
                yield Step(len(portion), [])
            update = ClusterUpdate(metadata, self._topic_ids(metadata), brokers)
            begun = min(len(metadata), PARTITIONS_A_TURN)
            yield Step(begun, [(to, UpdateMetadataRequest(self._sender(to), update)) for to in broker_ids])

    def _sendable(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        context = self._context
        sendable: list[TopicPartition] = []
        for tp in partitions:
            info = context.leadership.get(tp)
            if info is None:  # the topic is gone
                continue
            if can_be_sent(tp, info, context.assignment(tp)):
                sendable.append(tp)
            else:
                self._refused.append(FailedChange(tp, f"it cannot be encoded for a broker: {info}"))
        return sendable

    def _metadata(self, tp: TopicPartition, info: LeadershipInfo) -> PartitionMetadata:
        context = self._context
        replicas = context.replicas(tp)
        if tp.topic in context.topics_to_delete:
            info = replace(info, leader=LEADER_DURING_DELETE, leader_epoch=0, zk_version=0)
        offline = tuple(broker_id for broker_id in replicas if not context.is_replica_online(broker_id, tp))
        return PartitionMetadata(info, replicas, offline)

    def _stop_replica_request(self, broker_id: int, deletes: Mapping[TopicPartition, bool]) -> StopReplicaRequest:
        partitions = {tp: StopPartition(self._context.leader_epoch(tp), delete) for tp, delete in deletes.items()}
        return StopReplicaRequest(self._sender(broker_id), partitions)

    def _topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, str]:
        known = self._context.topic_ids
        return {topic: known[topic] for topic in {tp.topic: None for tp in partitions} if topic in known}

    def _nodes(self, broker_ids: Iterable[int]) -> tuple[Node, ...]:
        nodes = []
        for broker_id in self._registered(broker_ids):
            endpoint = self._context.brokers[broker_id].info.endpoint(self._listener_name)
            if endpoint is not None:
                nodes.append(Node(broker_id, endpoint.host, endpoint.port))
        return tuple(nodes)
