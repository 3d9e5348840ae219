"""What a handler may use; the broker builds one and passes it to every handler."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from kafka_zk.base.clock import Clock
from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.dynamic_config import DynamicBrokerConfig
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.controller.active import PartitionKey
from kafka_zk.broker.controller.alter_partition import Proposal
from kafka_zk.broker.controller.context import ReplicaAssignment
from kafka_zk.broker.controller.feature_updates import FeatureUpdate
from kafka_zk.broker.controller.isr_changes import Outcome
from kafka_zk.broker.controller.leader_elections import ElectionOutcome
from kafka_zk.broker.group.coordinator import GroupCoordinator
from kafka_zk.broker.group.offsets_topic import OffsetsTopic
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.broker.replica.batch_helpers import BatchHelpers
from kafka_zk.broker.replica.fetch_session import FetchSessions
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.replica.purgatory import Purgatory
from kafka_zk.broker.replica.replica_alter_log_dirs_manager import ReplicaAlterLogDirsManager
from kafka_zk.broker.security.authorizer import Authorizer
from kafka_zk.broker.transaction.coordinator import TransactionCoordinator
from kafka_zk.broker.transaction.state_topic import TransactionStateTopic
from kafka_zk.network.foreign_peers import ForeignPeers
from kafka_zk.protocol.errors import ApiError
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.registry.controller_epoch import ControllerEpochs
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.topics import TopicRegistry


class ControllerRole(Protocol):
    """What handlers ask the controller of this broker."""

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""

    async def handle_controlled_shutdown(self, broker_id: int, broker_epoch: int) -> Iterable[TopicPartition]:
        """Move leaderships away from a broker that stops; returns those it still has. Raises ApiError."""

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, proposals: Mapping[PartitionKey, Proposal]
    ) -> Mapping[PartitionKey, Outcome]:
        """What the ISRs that a leader proposes became. Raises ApiError."""

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> range:
        """A block of producer ids for a broker alone. Raises ApiError."""

    async def update_features(
        self, updates: Collection[FeatureUpdate], *, validate_only: bool
    ) -> Mapping[str, ApiError | None]:
        """Change the finalized features; the error of each update by feature. Raises ApiError."""

    async def elect_leaders(
        self, tps: Collection[TopicPartition], *, unclean: bool
    ) -> Mapping[TopicPartition, ElectionOutcome]:
        """Leaders that an administrator wants. Raises ApiError."""

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, ApiError | None]:
        """Begin moves of partitions, or take them back (None); None: it is under way. Raises ApiError."""

    async def list_reassignments(
        self, tps: Collection[TopicPartition] | None
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        """Those of these partitions (None: of all) that are being moved. Raises ApiError."""

    def allow_unclean_elections(self, *, by_default: bool) -> None:
        """``unclean.leader.election.enable`` changed, of a topic or its default, which is given."""


@dataclass(slots=True)
class Services:
    """One broker's parts.

    ``config`` is replaced when the dynamic configuration changes: read it anew each time. ``broker_epoch`` is the czxid
    of the broker's registration, -1 while it is not registered. ``group_offsets`` gives the offset registry of a group
    in ZooKeeper. ``unconfirmed_peers``: addresses whose forged controller epoch the log has.
    """

    broker_id: int
    cluster_id: str
    config: KafkaConfig
    clock: Clock
    authorizer: Authorizer
    metadata: MetadataCache
    replicas: ReplicaManager
    fetch_purgatory: Purgatory
    fetch_sessions: FetchSessions
    metadata_purgatory: Purgatory
    controller: ControllerRole
    topics: TopicRegistry
    configs: ConfigRegistry
    broker_epoch: Callable[[], int]
    controller_epochs: ControllerEpochs
    dynamic_config: DynamicBrokerConfig
    group_offsets: Callable[[str], OffsetRegistry]
    batch_helpers: BatchHelpers
    coordinator: GroupCoordinator
    offsets_topic: OffsetsTopic
    transactions: TransactionCoordinator
    transaction_state_topic: TransactionStateTopic
    alter_log_dirs: ReplicaAlterLogDirsManager
    random: Random = SYSTEM_RANDOM
    unconfirmed_peers: ForeignPeers = field(default_factory=ForeignPeers)
