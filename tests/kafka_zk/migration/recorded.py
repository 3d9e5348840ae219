"""Facts of Apache Kafka 3.9.1 with three brokers and one controller, as they were seen in each phase."""

from dataclasses import replace
from typing import Any

from kafka_zk.migration.facts import (
    ApiVersions,
    BrokerConfigs,
    ClusterFacts,
    ControllerZnode,
    Examples,
    Fact,
    LogDir,
    MigrationState,
    MigrationZnode,
    Node,
    Partitions,
    Quorum,
    TopicConfigs,
    Unknown,
    ZooKeeperFacts,
)
from kafka_zk.migration.zookeeper_collector import NOT_OBSERVED

CONTROLLER_ID = 3001
CLUSTER_ID = "AbCdEfGhIjKlMnOpQrStUv"
REFUSED = Unknown("refused", "a permission")
OF_ZOOKEEPER = {1: 17, 3: 12, 4: 7, 32: 4}
OF_KRAFT = {1: 17, 3: 12, 32: 4, 55: 2}
OF_CONTROLLER = {1: 17, 18: 4, 32: 4, 55: 2, 60: 1, 62: 4}
LEVEL_OF_3_9 = 21

ZOOKEEPER_MODE = ApiVersions(OF_ZOOKEEPER)
MIGRATION_MODE = ApiVersions(OF_ZOOKEEPER, is_migration_ready=True)
KRAFT_MODE = ApiVersions(OF_KRAFT, metadata_version=LEVEL_OF_3_9)
READY = ApiVersions(OF_CONTROLLER, is_migration_ready=True, metadata_version=LEVEL_OF_3_9)
NOT_READY = ApiVersions(OF_CONTROLLER, metadata_version=LEVEL_OF_3_9)

ZOOKEEPER_CONTROLLER = ControllerZnode(1, -1, is_ephemeral=True)
KRAFT_CONTROLLER = ControllerZnode(CONTROLLER_ID, 1, is_ephemeral=False)
NOT_COPIED = MigrationZnode(-1)
COPIED = MigrationZnode(131)

BROKER_CONFIGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "broker.id.generation.enable": "true",
    "controller.quorum.voters": "3001@127.0.0.1:9093",
    "inter.broker.protocol.version": "3.9-IV0",
    "log.dirs": "/var/lib/kafka",
    "reserved.broker.max.id": "1000",
}
CONTROLLER_CONFIGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "controller.quorum.voters": "3001@127.0.0.1:9093",
    "node.id": "3001",
    "process.roles": "controller",
    "super.users": "User:admin",
    "zookeeper.metadata.migration.enable": "true",
}
BROKER_FILES = {f"{n}.properties": {**BROKER_CONFIGS, "broker.id": str(n), "super.users": "User:admin"} for n in (1, 2)}
CONTROLLER_FILE = "controller.properties"
LOG_DIRS = (
    LogDir("/data", {"version": "0", "broker.id": "1", "cluster.id": CLUSTER_ID}, None),
    LogDir(
        "/controller", {"version": "1", "node.id": "3001", "cluster.id": CLUSTER_ID}, MigrationState.PRE_MIGRATION
    ),
)  # fmt: skip


def brokers(*apis: Fact[ApiVersions], **configs: str) -> tuple[Node, ...]:
    return tuple(Node(number, api, {**BROKER_CONFIGS, **configs}) for number, api in enumerate(apis, 1))


def controllers(*apis: Fact[ApiVersions]) -> tuple[Node, ...]:
    return tuple(Node(number, api, CONTROLLER_CONFIGS, CLUSTER_ID, True) for number, api in enumerate(apis, 3001))


def facts(zookeeper: dict[str, Any] | None = None, **changed: Any) -> ClusterFacts:
    """The cluster that waits for its brokers, all of them in migration mode, with these facts changed."""
    waiting = ZooKeeperFacts(
        cluster_id=CLUSTER_ID,
        controller=ZOOKEEPER_CONTROLLER,
        controller_epoch=5,
        migration=NOT_COPIED,
        is_written=NOT_OBSERVED,
        registered=frozenset({1, 2, 3}),
        partitions=Partitions({1: "orders-0", 2: "orders-0", 3: "orders-1"}, 5, highest_epoch_at="orders-0"),
        topic_configs=TopicConfigs(),
        broker_configs=BrokerConfigs(),
        malformed_entities=Examples(),
        malformed_acls=Examples(),
        deletions=Examples(),
        protected=Examples(),
        tokens=0,
        scram_users=0,
        groups=Examples(),
    )
    cluster = ClusterFacts(
        zookeeper=replace(waiting, **(zookeeper or {})),
        brokers=brokers(MIGRATION_MODE, MIGRATION_MODE, MIGRATION_MODE),
        controllers=controllers(READY),
        quorum=Quorum(frozenset({1, 2, 3})),
        broker_files=BROKER_FILES,
        controller_files={CONTROLLER_FILE: CONTROLLER_CONFIGS},
        log_dirs=LOG_DIRS,
        strangers=Examples(),
    )
    return replace(cluster, **changed)


def dual_write(zookeeper: dict[str, Any] | None = None, **changed: Any) -> ClusterFacts:
    kraft = {"controller": KRAFT_CONTROLLER, "controller_epoch": 6, "migration": COPIED, "is_written": True}
    return facts({**kraft, **(zookeeper or {})}, **changed)
