"""The parts of the broker that handlers use."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Protocol, TypeVar

from kafka_zk.base.clock import Clock
from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.dynamic_config import DynamicBrokerConfig
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.controller.operations import ControllerOperation
from kafka_zk.broker.group.coordinator import GroupCoordinator
from kafka_zk.broker.group.offsets_topic import OffsetsTopic
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.broker.quota.enforcement import Enforcement
from kafka_zk.broker.replica.fetch_session import FetchSessions
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.replica.purgatory import Purgatory
from kafka_zk.broker.replica.replica_alter_log_dirs_manager import ReplicaAlterLogDirsManager
from kafka_zk.broker.security.authorizer import Authorizer
from kafka_zk.broker.security.scram_credentials import ScramCredentials
from kafka_zk.broker.transaction.coordinator import TransactionCoordinator
from kafka_zk.broker.transaction.state_topic import TransactionStateTopic
from kafka_zk.native.loading import Native, implementation
from kafka_zk.network.foreign_peers import ForeignPeers
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.registry.controller_epoch import ControllerEpochs
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.topics import TopicRegistry

if TYPE_CHECKING:  # avoids a runtime import
    from kafka_zk.broker.security.delegation_tokens import DelegationTokens
    from kafka_zk.broker.tiered.deleted_partitions import DeletedPartitions
    from kafka_zk.broker.tiered.remote_reads import RemoteReads

T = TypeVar("T")


class ControllerRole(Protocol):
    """The controller's methods that handlers use."""

    @property
    def is_active(self) -> bool:
        """True if this broker is the controller."""

    async def handle_controlled_shutdown(self, broker_id: int, broker_epoch: int) -> Iterable[TopicPartition]:
        """Move a stopping broker's leaderships away. Returns the partitions that it still leads. Raises: ApiError."""

    async def carry_out(self, operation: ControllerOperation[T]) -> T:
        """Queue an operation and return its result. Raises: ApiError."""

    def allow_unclean_elections(self, *, by_default: bool) -> None:
        """Apply a changed ``unclean.leader.election.enable``. ``by_default``: the value of topics without one."""


@dataclass(slots=True)
class Services:
    """One broker's parts.

    Attributes:
        config: replaced when the dynamic configuration changes, so keep no reference.
        broker_epoch: the registration's czxid; -1 before the broker has registered.
        group_offsets: a group's offset registry in ZooKeeper.
        delegation_tokens: None without delegation.token.secret.key.
        remote_reads, deleted_partitions: None without remote storage.
        unconfirmed_peers: the addresses whose unconfirmed controller epochs were logged.
        native: the native module; None if Python code runs instead.
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
    coordinator: GroupCoordinator
    offsets_topic: OffsetsTopic
    transactions: TransactionCoordinator
    transaction_state_topic: TransactionStateTopic
    alter_log_dirs: ReplicaAlterLogDirsManager
    client_quotas: Enforcement
    scram_credentials: ScramCredentials
    delegation_tokens: "DelegationTokens | None" = None
    remote_reads: "RemoteReads | None" = None
    deleted_partitions: "DeletedPartitions | None" = None
    random: Random = SYSTEM_RANDOM
    unconfirmed_peers: ForeignPeers = field(default_factory=ForeignPeers)
    native: Native | None = field(default_factory=lambda: implementation().native)
