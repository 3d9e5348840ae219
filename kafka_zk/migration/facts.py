"""The facts about a cluster before and during its move from ZooKeeper to KRaft.

Collectors read facts from ZooKeeper, brokers and files. The rules and the phase are pure functions of them.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")
MOST_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that could not be read. ``remedy``: what is needed to read it."""

    reason: str
    remedy: str


NOT_LISTED = Unknown("ZooKeeper was not asked for its connections", "--zookeeper")
LOG_NOT_READ = Unknown("the metadata log was not read", "--controller-log-dir")

Fact: TypeAlias = T | Unknown
Configs: TypeAlias = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Examples:
    """``count`` names, of which the first MOST_EXAMPLES are kept."""

    count: int = 0
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Iterable[str]) -> "Examples":
        listed = list(names)
        return cls(len(listed), tuple(listed[:MOST_EXAMPLES]))

    def __str__(self) -> str:
        more = self.count - len(self.names)
        return ", ".join(self.names) + (f" and {more} more" if more else "")


class ControllerZnode(NamedTuple):
    """``/controller``. ``kraft_epoch``: at least 1 if a KRaft controller wrote it; that znode is persistent."""

    node_id: int
    kraft_epoch: int
    is_ephemeral: bool

    @property
    def is_kraft(self) -> bool:
        return self.kraft_epoch >= 1


class MigrationZnode(NamedTuple):
    """``/migration``. ``metadata_offset``: -1 before the copy; None if the data are empty or cannot be parsed."""

    metadata_offset: int | None
    version: int = 0

    @property
    def is_copied(self) -> bool:
        return self.metadata_offset is not None and self.metadata_offset >= 0


@dataclass(frozen=True, slots=True)
class Partitions:
    """``replicas``: broker id -> one of its partitions, as an example. ``highest_epoch``: the highest controller epoch
    in the ``state`` znodes; -1 if there are none. ``highest_epoch_at``: the partition with this epoch. ``leaderless``:
    partitions without a leader, with their last ISR."""

    replicas: Mapping[int, str] = field(default_factory=dict)
    highest_epoch: int = -1
    leaderless: Examples = Examples()
    under_replicated: Examples = Examples()
    moving: Examples = Examples()
    malformed: Examples = Examples()
    highest_epoch_at: str = ""


class TopicConfigs(NamedTuple):
    """``tiering_disabled``: topics that are not tiered, but have configuration keys of tiered topics."""

    malformed: Examples = Examples()
    tiering_disabled: Examples = Examples()


class BrokerConfigs(NamedTuple):
    """``/config/brokers``. ``with_passwords``: brokers with an encrypted password."""

    malformed: Examples = Examples()
    with_passwords: Examples = Examples()


@dataclass(frozen=True, slots=True)
class ZooKeeperFacts:
    """The znodes. None: the znode does not exist. ``is_written``: ``/migration`` changed while it was observed.

    ``malformed_entities``: quotas and SCRAM credentials of users, clients and IP addresses. ``protected``: znodes whose
    ACL does not allow every client to change them. ``scram_users``: number of users with a SCRAM credential.
    ``groups``: consumer groups with offsets or members in ZooKeeper.
    """

    cluster_id: Fact[str | None]
    controller: Fact[ControllerZnode | None]
    controller_epoch: Fact[int | None]
    migration: Fact[MigrationZnode | None]
    is_written: Fact[bool]
    registered: Fact[frozenset[int]]
    partitions: Fact[Partitions]
    topic_configs: Fact[TopicConfigs]
    broker_configs: Fact[BrokerConfigs]
    malformed_entities: Fact[Examples]
    malformed_acls: Fact[Examples]
    deletions: Fact[Examples]
    protected: Fact[Examples]
    tokens: Fact[int]
    scram_users: Fact[int]
    groups: Fact[Examples]


class ApiVersions(NamedTuple):
    """A node's ApiVersions response. ``versions``: API key -> highest version. ``metadata_version``: the finalized
    level, None if no level is finalized."""

    versions: Mapping[int, int]
    is_migration_ready: bool = False
    metadata_version: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A broker or controller. ``configs``: key -> value, None for values that are set but hidden.

    ``cluster_id`` and ``has_authorizer`` are asked of controllers only.
    """

    node_id: int
    api: Fact[ApiVersions]
    configs: Fact[Configs]
    cluster_id: Fact[str] | None = None
    has_authorizer: Fact[bool] | None = None


class MigrationState(enum.IntEnum):
    """The state in the metadata log's ZkMigrationStateRecord. Source: ZkMigrationState.java@3.9."""

    NONE = 0
    MIGRATION = 1
    PRE_MIGRATION = 2
    POST_MIGRATION = 3


class Quorum(NamedTuple):
    """DescribeQuorum. ``observers``: brokers that read the metadata log. ``leader_id``: the active controller's id; -1
    if no controller is active."""

    observers: frozenset[int]
    leader_id: int = -1


class LogDir(NamedTuple):
    """A folder of ``--log-dirs``. ``meta``: the keys of meta.properties, None if the file does not exist.
    ``recorded_state``: the last state in its metadata log, None if no controller has written to its log."""

    path: str
    meta: Fact[Mapping[str, str] | None]
    recorded_state: Fact[MigrationState] | None


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """``broker_files`` and ``controller_files``: path -> server.properties. ``log_dirs``: empty if ``--log-dirs`` was
    not given. ``recorded_state``: the last state in the metadata log, MigrationState.NONE if it has none.
    ``strangers``: ZooKeeper clients other than brokers, controllers and this command.
    """

    zookeeper: ZooKeeperFacts
    brokers: Fact[tuple[Node, ...]]
    controllers: Fact[tuple[Node, ...]]
    quorum: Fact[Quorum]
    broker_files: Mapping[str, Configs]
    controller_files: Mapping[str, Configs]
    log_dirs: tuple[LogDir, ...]
    recorded_state: Fact[MigrationState] = LOG_NOT_READ
    strangers: Fact[Examples] = NOT_LISTED
