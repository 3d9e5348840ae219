"""The code behind an entry: a file of kafka-zk and one of Apache Kafka."""

from importlib import resources
from typing import NamedTuple

from kafka_zk.recorder.timeline.event_codec import EVENT_TYPES


class Explanation(NamedTuple):
    """``meaning``: a sentence. ``ours``: a file of this project. ``kafkas``: a file of Apache Kafka or ZooKeeper,
    possibly with a method; "" without an equivalent."""

    meaning: str
    ours: str
    kafkas: str


_CONTROLLER = "core/src/main/scala/kafka/controller/KafkaController.scala"
_PARTITION = "core/src/main/scala/kafka/cluster/Partition.scala"
_CONNECTOR = "core/src/main/scala/kafka/consumer/ZookeeperConsumerConnector.scala (until 1.1)"
_COORDINATOR = "core/src/main/scala/kafka/coordinator/group/GroupCoordinator.scala"
_TRANSACTIONS = "core/src/main/scala/kafka/coordinator/transaction/TransactionStateManager.scala"
_CLIENT = "core/src/main/scala/kafka/zookeeper/ZooKeeperClient.scala"
_ZOOKEEPER = "zookeeper-server/src/main/java/org/apache/zookeeper/server"

_BY_MODULE = {
    "kafka_zk.registry.client.events": ("registry/client/watches.py", _CLIENT),
    "kafka_zk.rebalance.events": ("rebalance/member.py", _CONNECTOR),
    "kafka_zk.broker.controller.events": ("kafka_zk/broker/controller/active.py", _CONTROLLER),
    "kafka_zk.broker.replica.events": ("kafka_zk/broker/replica/partition.py", _PARTITION),
    "kafka_zk.broker.group.events": ("kafka_zk/broker/group/coordinator.py", _COORDINATOR),
    "kafka_zk.broker.process.events": (
        "kafka_zk/broker/process/client_report.py", "core/src/main/scala/kafka/network/SocketServer.scala"
    ),
    "kafka_zk.broker.security.events": (
        "kafka_zk/broker/security/acl_rules.py",
        "core/src/main/scala/kafka/security/authorizer/AclAuthorizer.scala: logAuditMessage",
    ),
    "kafka_zk.broker.transaction.events": ("kafka_zk/broker/transaction/state_manager.py", _TRANSACTIONS),
    "kafka_zk.recorder.timeline.events": ("kafka_zk/recorder/timeline/group_observer.py", _CONNECTOR),
    "kafka_zk.recorder.zookeeper_health.events": (
        "kafka_zk/recorder/zookeeper_health/ensemble.py",
        f"{_ZOOKEEPER}/command/StatCommand.java",
    ),
    "kafka_zk.recorder.timeline.outage_events": ("kafka_zk/recorder/timeline/failovers.py", _CONTROLLER),
    "kafka_zk.recorder.timeline.cluster_events": ("kafka_zk/recorder/timeline/cluster_observer.py", _CONTROLLER),
}
_BY_EVENT = {
    "BrokerLogged": ("kafka_zk/recorder/broker_logs/patterns.py", "core/src/main/scala/kafka/utils/Logging.scala"),
    "MigrationPhaseReached": (
        "kafka_zk/recorder/timeline/migration_phases.py",
        "core/src/main/scala/kafka/zk/ZkMigrationClient.scala",
    ),
    "ControllerElected": ("kafka_zk/broker/controller/active.py", f"{_CONTROLLER}: elect"),
    "BrokersChanged": ("kafka_zk/broker/controller/broker_changes.py", f"{_CONTROLLER}: processBrokerChange"),
    "LeadersElected": (
        "kafka_zk/broker/controller/election.py", "core/src/main/scala/kafka/controller/PartitionStateMachine.scala"
    ),
    "PartitionsMoved": (
        "kafka_zk/broker/controller/partition_state.py",
        "core/src/main/scala/kafka/controller/PartitionStateMachine.scala",
    ),
    "ReplicasMoved": (
        "kafka_zk/broker/controller/replica_state.py", "core/src/main/scala/kafka/controller/ReplicaStateMachine.scala"
    ),
    "IsrsChanged": ("kafka_zk/broker/controller/alter_partition.py", f"{_CONTROLLER}: processAlterPartition"),
    "RequestSent": (
        "kafka_zk/broker/controller/channels.py", "core/src/main/scala/kafka/controller/ControllerChannelManager.scala"
    ),
    "RoleChanged": ("kafka_zk/broker/replica/manager.py", "core/src/main/scala/kafka/server/ReplicaManager.scala"),
    "SessionChanged": ("registry/client/session.py", _CLIENT),
    "WatchSeen": ("kafka_zk/recorder/web/watch_table.py", f"{_ZOOKEEPER}/watch/WatchManager.java: dumpWatches"),
    "WatchGone": ("kafka_zk/recorder/web/watch_table.py", f"{_ZOOKEEPER}/watch/WatchManager.java: dumpWatches"),
    "OperatorActed": ("kafka_zk/cli/cluster/cluster_actions.py", ""),
    "ReplicaSeen": ("kafka_zk/storage/log/log.py", "core/src/main/scala/kafka/log/UnifiedLog.scala"),
    "RecordAcknowledged": (
        "kafka_zk/clients/producer/producer.py",
        "clients/src/main/java/org/apache/kafka/clients/producer/internals/Sender.java",
    ),
    "RecordRead": (
        "kafka_zk/clients/consumer/zookeeper_consumer.py",
        "core/src/main/scala/kafka/consumer/ConsumerIterator.scala (until 1.1)",
    ),
}  # fmt: skip
_OF_ZOOKEEPER = {
    "created": Explanation(
        "A session created this znode.", "registry/client/client.py", f"{_ZOOKEEPER}/DataTree.java: createNode"
    ),
    "changed": Explanation(
        "A session wrote the data of this znode; its version counts the writes.",
        "registry/client/client.py",
        f"{_ZOOKEEPER}/DataTree.java: setData",
    ),
    "deleted": Explanation(
        "The znode is gone: deleted, or ephemeral and its session is over.",
        "registry/client/client.py",
        f"{_ZOOKEEPER}/DataTree.java: deleteNode",
    ),
    "session began": Explanation(
        "A client opened a session; its ephemeral znodes last as long as the session.",
        "registry/client/session.py",
        f"{_ZOOKEEPER}/SessionTrackerImpl.java",
    ),
    "session ended": Explanation(
        "The session is over: its client closed it, or was silent for the session's timeout. All its ephemeral "
        "znodes are deleted in this one transaction.",
        "registry/client/session.py",
        f"{_ZOOKEEPER}/DataTree.java: killSession",
    ),
}


def explanation(kind: str) -> Explanation | None:
    """The explanation of a kind of entry; None if this version does not know the kind."""
    if kind in _OF_ZOOKEEPER:
        return _OF_ZOOKEEPER[kind]
    event = EVENT_TYPES.get(kind)
    if event is None:
        return None
    ours, kafkas = _BY_EVENT.get(kind) or _BY_MODULE[event.__module__]
    meaning = " ".join((event.__doc__ or "").split())
    return Explanation(meaning.replace("``", ""), ours, kafkas)


def code(file: str) -> bytes | None:
    """The content of a kafka-zk file that an explanation names; None for other files."""
    places = (*_BY_MODULE.values(), *_BY_EVENT.values(), *((each.ours, each.kafkas) for each in _OF_ZOOKEEPER.values()))
    if file not in {ours for ours, _ in places}:
        return None
    return resources.files("kafka_zk").joinpath(file.removeprefix("kafka_zk/")).read_bytes()
