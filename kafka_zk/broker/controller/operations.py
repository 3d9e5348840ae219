"""Requests to the active controller, one class each.

``Controller.carry_out`` runs them in the queue. Source: KafkaController.scala@3.9.
"""

import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.active import ActiveController
from kafka_zk.broker.controller.alter_partition import Proposal
from kafka_zk.broker.controller.context import Context, ReplicaAssignment
from kafka_zk.broker.controller.feature_updates import FeatureUpdate, apply_updates
from kafka_zk.broker.controller.isr_changes import Outcome
from kafka_zk.broker.controller.leader_elections import ElectionOutcome
from kafka_zk.protocol import uuids
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry import producer_ids
from kafka_zk.registry.client.errors import InvalidZnode, RegistryError, TooManyProducerIds
from kafka_zk.registry.features import read_features, write_operation
from kafka_zk.registry.znodes.feature import FinalizedFeatures

T_co = TypeVar("T_co", covariant=True)


class ControllerOperation(ABC, Generic[T_co]):
    """A request and the work that the controller does for it."""

    @property
    def name(self) -> str:
        """The cause of the resulting events, which observers see."""
        return type(self).__name__

    @abstractmethod
    async def carry_out(self, active: ActiveController) -> T_co:
        """Do the work and return the result. Raises ApiError."""


class PartitionKey(NamedTuple):
    """A partition as a request identifies it: by topic name or topic id."""

    topic: str | uuid.UUID
    partition: int


@dataclass(frozen=True)
class ControlledShutdown(ControllerOperation[list[TopicPartition]]):
    """Move a stopping broker's leaderships away. Result: the partitions that it still leads.

    Raises: ApiError: STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE.
    """

    broker_id: int
    broker_epoch: int

    @property
    def name(self) -> str:
        return f"controlled shutdown of {self.broker_id}"

    async def carry_out(self, active: ActiveController) -> list[TopicPartition]:
        return await active.brokers.controlled_shutdown(self.broker_id, self.broker_epoch)


@dataclass(frozen=True)
class AlterPartition(ControllerOperation[dict[PartitionKey, Outcome]]):
    """Change ISRs as a leader proposes. Result: each proposal's outcome; UNKNOWN_TOPIC_ID for an unknown id.

    Raises: ApiError(STALE_BROKER_EPOCH).
    """

    broker_id: int
    broker_epoch: int
    proposals: Mapping[PartitionKey, Proposal]

    @property
    def name(self) -> str:
        return f"AlterPartition of {self.broker_id}"

    async def carry_out(self, active: ActiveController) -> dict[PartitionKey, Outcome]:
        proposals = self.proposals
        names = _names_of(active.context, {key.topic for key in proposals if isinstance(key.topic, uuid.UUID)})
        tps = {
            key: TopicPartition(key.topic if isinstance(key.topic, str) else names[key.topic], key.partition)
            for key in proposals
            if isinstance(key.topic, str) or key.topic in names
        }
        outcomes = await active.alter_isrs(
            self.broker_id, self.broker_epoch, {tp: proposals[key] for key, tp in tps.items()}
        )
        return {key: outcomes[tps[key]] if key in tps else ErrorCode.UNKNOWN_TOPIC_ID for key in proposals}


def _names_of(context: Context, topic_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Topic names by id, without ids that two topics share. Ids are compared as text, because parsing is slow."""
    asked = {uuids.to_text(topic_id): topic_id for topic_id in topic_ids}
    known = context.topic_ids
    named = [(asked[text], name) for name, text in known.items() if text in asked]
    if len({topic_id for topic_id, _ in named}) < len(asked):  # some are unknown, or stored in another format
        named = [(uuids.from_text(text), name) for name, text in known.items()]
    names = dict(named)
    if len(names) < len(named):
        counts = Counter(topic_id for topic_id, _ in named)
        names = {topic_id: name for topic_id, name in names.items() if counts[topic_id] == 1}
    return names


@dataclass(frozen=True)
class AllocateProducerIds(ControllerOperation[range]):
    """Reserve a block of producer ids for a broker, and return it.

    Raises: ApiError: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH, UNKNOWN_SERVER_ERROR.
    """

    broker_id: int
    broker_epoch: int

    @property
    def name(self) -> str:
        return f"AllocateProducerIds of {self.broker_id}"

    async def carry_out(self, active: ActiveController) -> range:
        broker = active.context.brokers.get(self.broker_id)
        if broker is None:
            raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED)
        if broker.epoch != self.broker_epoch:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH)
        try:
            return await active.store.repeated(lambda: producer_ids.allocate_block(active.client, self.broker_id))
        except (InvalidZnode, TooManyProducerIds) as error:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None


@dataclass(frozen=True)
class UpdateFeatures(ControllerOperation[dict[str, ApiError | None]]):
    """Change finalized features. Result: each update's error, or None."""

    updates: Collection[FeatureUpdate]
    validate_only: bool

    async def carry_out(self, active: ActiveController) -> dict[str, ApiError | None]:
        try:
            present = await active.store.repeated(lambda: read_features(active.client))
        except InvalidZnode as error:
            raise ApiError(ErrorCode.FEATURE_UPDATE_FAILED, str(error)) from None
        known = FinalizedFeatures() if present is None else present[0]
        target, outcomes = apply_updates(self.updates, known.features)
        operation = write_operation(present, replace(known, features=target))
        if operation is None or target == known.features or self.validate_only:
            return outcomes
        (written,) = await active.store.write([operation])
        if isinstance(written, RegistryError):
            failed = ApiError(ErrorCode.FEATURE_UPDATE_FAILED)
            return {feature: error or failed for feature, error in outcomes.items()}
        return outcomes


@dataclass(frozen=True)
class ElectLeaders(ControllerOperation[Mapping[TopicPartition, ElectionOutcome]]):
    """Elect preferred leaders or, if ``unclean``, any live replica where the ISR has no live member."""

    tps: Collection[TopicPartition]
    unclean: bool

    async def carry_out(self, active: ActiveController) -> Mapping[TopicPartition, ElectionOutcome]:
        return await active.elections.elect(self.tps, unclean=self.unclean)


@dataclass(frozen=True)
class AlterPartitionReassignments(ControllerOperation[dict[TopicPartition, ApiError | None]]):
    """Move partitions to other replicas; None cancels a reassignment.

    Result: each partition's error; None if its reassignment is in progress or done.
    """

    targets: Mapping[TopicPartition, Sequence[int] | None]

    async def carry_out(self, active: ActiveController) -> dict[TopicPartition, ApiError | None]:
        return await active.reassignments.alter(self.targets)


@dataclass(frozen=True)
class ListPartitionReassignments(ControllerOperation[dict[TopicPartition, ReplicaAssignment]]):
    """List the reassignments in progress among ``tps`` (None: all partitions)."""

    tps: Collection[TopicPartition] | None

    async def carry_out(self, active: ActiveController) -> dict[TopicPartition, ReplicaAssignment]:
        return active.reassignments.listed(self.tps)
