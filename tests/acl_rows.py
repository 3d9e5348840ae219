"""The cases of Kafka's AuthorizerIntegrationTest@3.9 as rows: a request, the ACLs of the user, the error that it gets.

Topic t exists and has one partition; u does not exist. Nothing else exists. OK: no authorization error. ACLs are
written ``Read Topic t``; ``Write Topic p*`` is for a prefix, ``!Read Topic t`` is a denial, ``Read@10.9.8.7 Topic t``
is for one host, and ``Read Topic t of User:bob`` is for another user. ``tests/acl_visible.py`` has the cases in which
responses leave something out.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.security.acl import Acl, Operation, Pattern, PatternType, Permission, ResourceType, named
from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from tests.message_dicts import as_dict

USER = "User:alice"
OK = ErrorCode.NONE
TOPIC, GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER, TXN = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
REFUSALS = frozenset([TOPIC, GROUP, CLUSTER, TXN])

_NO_ID = -1
_NEVER = 2**31 - 1


class Request(NamedTuple):
    """``fields`` as in ``message``."""

    api_key: ApiKey
    version: int
    fields: Mapping[str, Any]


def message(request: Request) -> Any:
    """The request; structs are given as dictionaries."""
    return _made(codec.request(request.api_key), request.fields)


def _made(cls: Any, values: Mapping[str, Any]) -> Any:
    made = {}
    for name, value in values.items():
        struct = cls.table.field(name).struct
        if struct is not None and value is not None:
            value = [_made(struct.message_class, each) for each in value]
        made[name] = value
    return cls(**made)


def _batch(**builder: Any) -> bytes:
    records = RecordBatchBuilder(**builder)
    records.append(1, None, b"v")
    return bytes(records.build())


def _produce(batch: bytes, transactional_id: str | None, *topics: str) -> Request:
    data = [{"name": each, "partition_data": [{"index": 0, "records": batch}]} for each in topics]
    return Request(
        ApiKey.PRODUCE, 9,
        {"transactional_id": transactional_id, "acks": 1, "timeout_ms": 1000, "topic_data": data},
    )  # fmt: skip


def _fetch(replica_id: int, topic: str = "t") -> Request:
    partition = {
        "partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "last_fetched_epoch": -1, "log_start_offset": -1,
        "partition_max_bytes": 1000,
    }  # fmt: skip
    fields = {
        "replica_id": replica_id, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1000, "isolation_level": 0,
        "session_id": 0, "session_epoch": -1, "topics": [{"topic": topic, "partitions": [partition]}],
        "forgotten_topics_data": [], "rack_id": "",
    }  # fmt: skip
    return Request(ApiKey.FETCH, 12, fields)


_COMMITTED = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
_PRODUCER = {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0}
_ACL_FILTER = {"resource_type_filter": 2, "resource_name_filter": "none", "pattern_type_filter": 3,
               "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}  # fmt: skip
_NEW_ACL = {"resource_type": 2, "resource_name": "of-row", "resource_pattern_type": 3, "principal": "User:a",
            "host": "*", "operation": 3, "permission_type": 3}  # fmt: skip
_CONFIG = {"name": "retention.ms", "value": "1000", "config_operation": 0}
_FROM_CONTROLLER = {"controller_id": 0, "controller_epoch": 0, "broker_epoch": 0}


def _metadata(*topics: str, create: bool = False) -> Request:
    return Request(
        ApiKey.METADATA, 9,
        {"topics": [{"name": each} for each in topics] or None, "allow_auto_topic_creation": create},
    )  # fmt: skip


def _configs(api_key: ApiKey, version: int, resource_type: int, name: str) -> Request:
    if api_key is ApiKey.DESCRIBE_CONFIGS:
        return Request(api_key, version, {"resources": [
            {"resource_type": resource_type, "resource_name": name, "configuration_keys": []}
        ]})  # fmt: skip
    entry = _CONFIG if resource_type == 2 else _CONFIG | {"name": "log.cleaner.threads", "value": "1"}
    if api_key is ApiKey.ALTER_CONFIGS:
        entry = {key: value for key, value in entry.items() if key != "config_operation"}
    return Request(api_key, version, {
        "resources": [{"resource_type": resource_type, "resource_name": name, "configs": [entry]}],
        "validate_only": True,
    })  # fmt: skip


REQUESTS: Mapping[str, Request] = {
    "Produce": _produce(_batch(), None, "t"),
    "Produce to none": _produce(_batch(), None, "u"),
    "Produce in a transaction": _produce(
        _batch(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True), "x", "t"
    ),
    "Fetch": _fetch(-1),
    "Fetch of none": _fetch(-1, "u"),
    "Fetch of a follower": _fetch(5),
    "ListOffsets": Request(ApiKey.LIST_OFFSETS, 7, {"replica_id": -1, "isolation_level": 0, "topics": [
        {"name": each, "partitions": [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]}
        for each in ("t", "u")
    ]}),
    "Metadata": _metadata("t"),
    "Metadata of none": _metadata("u"),
    "Metadata that creates": _metadata("u2", create=True),
    "Metadata that may create": _metadata("u3", create=True),
    "Metadata that may create in the cluster": _metadata("u4", create=True),
    "Metadata of no topic": Request(ApiKey.METADATA, 9, {"topics": [], "allow_auto_topic_creation": False}),
    "Metadata of all": _metadata(),
    "LeaderAndIsr": Request(ApiKey.LEADER_AND_ISR, 4, {**_FROM_CONTROLLER, "topic_states": [], "live_leaders": []}),
    "StopReplica": Request(ApiKey.STOP_REPLICA, 3, {**_FROM_CONTROLLER, "topic_states": []}),
    "UpdateMetadata": Request(ApiKey.UPDATE_METADATA, 6, {**_FROM_CONTROLLER, "topic_states": [], "live_brokers": []}),
    "ControlledShutdown": Request(ApiKey.CONTROLLED_SHUTDOWN, 3, {"broker_id": 77, "broker_epoch": 1}),
    "OffsetCommit": Request(ApiKey.OFFSET_COMMIT, 8, {
        "group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None,
        "topics": [{"name": "t", "partitions": [_COMMITTED]}],
    }),
    "OffsetFetch": Request(ApiKey.OFFSET_FETCH, 7, {
        "group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}], "require_stable": False,
    }),
    "OffsetFetch of groups": Request(ApiKey.OFFSET_FETCH, 8, {
        "groups": [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}], "require_stable": False,
    }),
    "OffsetFetch of all": Request(ApiKey.OFFSET_FETCH, 7, {"group_id": "g", "topics": None, "require_stable": False}),
    "FindCoordinator": Request(ApiKey.FIND_COORDINATOR, 3, {"key": "g", "key_type": 0}),
    "FindCoordinator of groups": Request(ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": ["g"], "key_type": 0}),
    "FindCoordinator of a transaction": Request(ApiKey.FIND_COORDINATOR, 3, {"key": "x", "key_type": 1}),
    "JoinGroup": Request(ApiKey.JOIN_GROUP, 7, {
        "group_id": "g", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": "",
        "group_instance_id": None, "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}],
    }),
    "SyncGroup": Request(ApiKey.SYNC_GROUP, 5, {
        "group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None,
        "protocol_type": "consumer", "protocol_name": "range", "assignments": [],
    }),
    "Heartbeat": Request(ApiKey.HEARTBEAT, 4, {
        "group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None,
    }),
    "LeaveGroup": Request(ApiKey.LEAVE_GROUP, 4, {
        "group_id": "g", "members": [{"member_id": "m", "group_instance_id": None}],
    }),
    "DescribeGroups": Request(ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["g"], "include_authorized_operations": False}),
    "ListGroups": Request(ApiKey.LIST_GROUPS, 4, {"states_filter": []}),
    "DeleteGroups": Request(ApiKey.DELETE_GROUPS, 2, {"groups_names": ["g2"]}),
    "OffsetDelete": Request(ApiKey.OFFSET_DELETE, 0, {
        "group_id": "g", "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}],
    }),
    "CreateTopics": Request(ApiKey.CREATE_TOPICS, 7, {
        "topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}],
        "timeout_ms": 1000, "validate_only": True,
    }),
    "DeleteTopics": Request(ApiKey.DELETE_TOPICS, 5, {"topic_names": ["u"], "timeout_ms": 1000}),
    "CreatePartitions": Request(ApiKey.CREATE_PARTITIONS, 3, {
        "topics": [{"name": "t", "count": 2, "assignments": None}], "timeout_ms": 1000, "validate_only": True,
    }),
    "DeleteRecords": Request(ApiKey.DELETE_RECORDS, 2, {
        "topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout_ms": 1000,
    }),
    "CreatePartitions of none": Request(ApiKey.CREATE_PARTITIONS, 3, {
        "topics": [{"name": "u", "count": 2, "assignments": None}], "timeout_ms": 1000, "validate_only": True,
    }),
    "DeleteRecords of none": Request(ApiKey.DELETE_RECORDS, 2, {
        "topics": [{"name": "u", "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout_ms": 1000,
    }),
    "InitProducerId": Request(ApiKey.INIT_PRODUCER_ID, 4, {
        "transactional_id": None, "transaction_timeout_ms": _NEVER, "producer_id": _NO_ID, "producer_epoch": _NO_ID,
    }),
    "InitProducerId of a transaction": Request(ApiKey.INIT_PRODUCER_ID, 4, {
        "transactional_id": "x", "transaction_timeout_ms": 1000, "producer_id": _NO_ID, "producer_epoch": _NO_ID,
    }),
    "OffsetForLeaderEpoch": Request(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, {"replica_id": -1, "topics": [
        {"topic": "t", "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}
    ]}),
    "OffsetForLeaderEpoch of none": Request(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, {"replica_id": -1, "topics": [
        {"topic": "u", "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}
    ]}),
    "AddPartitionsToTxn": Request(ApiKey.ADD_PARTITIONS_TO_TXN, 3, {
        "v3_and_below_transactional_id": "x", "v3_and_below_producer_id": 1, "v3_and_below_producer_epoch": 0,
        "v3_and_below_topics": [{"name": "t", "partitions": [0]}],
    }),
    "AddPartitionsToTxn of none": Request(ApiKey.ADD_PARTITIONS_TO_TXN, 3, {
        "v3_and_below_transactional_id": "x", "v3_and_below_producer_id": 1, "v3_and_below_producer_epoch": 0,
        "v3_and_below_topics": [{"name": "u", "partitions": [0]}],
    }),
    "AddPartitionsToTxn of an internal topic": Request(ApiKey.ADD_PARTITIONS_TO_TXN, 3, {
        "v3_and_below_transactional_id": "x", "v3_and_below_producer_id": 1, "v3_and_below_producer_epoch": 0,
        "v3_and_below_topics": [{"name": "__consumer_offsets", "partitions": [0]}],
    }),
    "AddPartitionsToTxn of brokers": Request(ApiKey.ADD_PARTITIONS_TO_TXN, 4, {"transactions": [
        {**_PRODUCER, "verify_only": True, "topics": [{"name": "t", "partitions": [0]}]}
    ]}),
    "AddOffsetsToTxn": Request(ApiKey.ADD_OFFSETS_TO_TXN, 3, {**_PRODUCER, "group_id": "g"}),
    "EndTxn": Request(ApiKey.END_TXN, 3, {**_PRODUCER, "committed": True}),
    "TxnOffsetCommit": Request(ApiKey.TXN_OFFSET_COMMIT, 3, {
        **_PRODUCER, "group_id": "g", "generation_id": -1, "member_id": "", "group_instance_id": None,
        "topics": [{"name": "t", "partitions": [_COMMITTED]}],
    }),
    "WriteTxnMarkers": Request(ApiKey.WRITE_TXN_MARKERS, 1, {"markers": [{
        "producer_id": 1, "producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0,
        "topics": [{"name": "u", "partition_indexes": [0]}],
    }]}),
    "DescribeAcls": Request(ApiKey.DESCRIBE_ACLS, 3, _ACL_FILTER),
    "CreateAcls": Request(ApiKey.CREATE_ACLS, 3, {"creations": [_NEW_ACL]}),
    "DeleteAcls": Request(ApiKey.DELETE_ACLS, 3, {"filters": [_ACL_FILTER]}),
    "DescribeConfigs": _configs(ApiKey.DESCRIBE_CONFIGS, 4, 2, "t"),
    "DescribeConfigs of a broker": _configs(ApiKey.DESCRIBE_CONFIGS, 4, 4, "0"),
    "AlterConfigs": _configs(ApiKey.ALTER_CONFIGS, 2, 2, "t"),
    "AlterConfigs of a broker": _configs(ApiKey.ALTER_CONFIGS, 2, 4, "0"),
    "IncrementalAlterConfigs": _configs(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, 2, "t"),
    "IncrementalAlterConfigs of a broker": _configs(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, 4, "0"),
    "IncrementalAlterConfigs of a logger": Request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {
        "resources": [{"resource_type": 8, "resource_name": "0", "configs": [
            {"name": "kafka.controller.KafkaController", "value": "DEBUG", "config_operation": 1}
        ]}],
        "validate_only": True,
    }),
    "AlterConfigs of client metrics": _configs(ApiKey.ALTER_CONFIGS, 2, 16, "m"),
    "IncrementalAlterConfigs of client metrics": _configs(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, 16, "m"),
    "DescribeConfigs of a logger": _configs(ApiKey.DESCRIBE_CONFIGS, 4, 8, "0"),
    "DescribeConfigs of client metrics": _configs(ApiKey.DESCRIBE_CONFIGS, 4, 16, "m"),
    "AlterReplicaLogDirs": Request(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, {
        "dirs": [{"path": "/nowhere", "topics": [{"name": "t", "partitions": [0]}]}],
    }),
    "DescribeLogDirs": Request(ApiKey.DESCRIBE_LOG_DIRS, 4, {"topics": []}),
    "ElectLeaders": Request(ApiKey.ELECT_LEADERS, 2, {
        "election_type": 0, "topic_partitions": [{"topic": "t", "partitions": [0]}], "timeout_ms": 1000,
    }),
    "AlterPartitionReassignments": Request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, {
        "timeout_ms": 1000, "topics": [{"name": "u", "partitions": [{"partition_index": 0, "replicas": [0]}]}],
    }),
    "ListPartitionReassignments": Request(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, {"timeout_ms": 1000, "topics": []}),
    "AlterPartition": Request(ApiKey.ALTER_PARTITION, 3, {"broker_id": 77, "broker_epoch": 1, "topics": []}),
    "AllocateProducerIds": Request(ApiKey.ALLOCATE_PRODUCER_IDS, 0, {"broker_id": 77, "broker_epoch": 1}),
    "DescribeClientQuotas": Request(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {"components": [], "strict": False}),
    "AlterClientQuotas": Request(ApiKey.ALTER_CLIENT_QUOTAS, 1, {
        "entries": [{
            "entity": [{"entity_type": "user", "entity_name": "a"}],
            "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
        }],
        "validate_only": True,
    }),
    "DescribeUserScramCredentials": Request(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": []}),
    "AlterUserScramCredentials": Request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {
        "deletions": [{"name": "nobody", "mechanism": 1}], "upsertions": [],
    }),
    "UpdateFeatures": Request(ApiKey.UPDATE_FEATURES, 1, {
        "timeout_ms": 1000, "feature_updates": [{"feature": "f", "max_version_level": 1, "upgrade_type": 1}],
        "validate_only": True,
    }),
    "DescribeProducers": Request(ApiKey.DESCRIBE_PRODUCERS, 0, {"topics": [{"name": "t", "partition_indexes": [0]}]}),
    "DescribeTransactions": Request(ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": ["x"]}),
    "ListTransactions": Request(ApiKey.LIST_TRANSACTIONS, 0, {"state_filters": [], "producer_id_filters": []}),
    "DescribeCluster": Request(ApiKey.DESCRIBE_CLUSTER, 1, {"include_cluster_authorized_operations": True}),
}  # fmt: skip


class Row(NamedTuple):
    """The result for a user with these ACLs: ``code`` occurs in the response, and no other refusal does."""

    request: str
    acls: str
    code: ErrorCode


_C = "Cluster kafka-cluster"


def _needs(request: str, code: ErrorCode, *enough: str, not_enough: tuple[str, ...] = ()) -> Iterator[Row]:
    """The request is refused without ACLs, and with each of ``not_enough``. It is allowed with each of ``enough``,
    unless there is also a denial."""
    for acls in ("", *not_enough):
        yield Row(request, acls, code)
    for acls in enough:
        yield Row(request, acls, OK)
        yield Row(request, f"{acls}, !{acls.split(', ')[-1]}", code)


def _rows() -> Iterator[Row]:
    describes = ("Describe Topic t", "Read Topic t", "Write Topic t", "Alter Topic t", "Delete Topic t")
    yield from _needs(
        "Produce", TOPIC, "Write Topic t", "Write Topic *", "All Topic t",
        not_enough=("Read Topic t", "Describe Topic t", "Create Topic t"),
    )  # fmt: skip
    yield from _needs("Produce to none", TOPIC, "Write Topic u")
    yield Row("Produce in a transaction", "", TXN)
    yield Row("Produce in a transaction", "Write Topic t", TXN)
    yield Row("Produce in a transaction", "Write TransactionalId x", TOPIC)
    yield Row("Produce in a transaction", "Write TransactionalId x, Write Topic t", OK)
    yield from _needs("Fetch", TOPIC, "Read Topic t", "Read Topic t*", not_enough=("Write Topic t", "Describe Topic t"))
    yield from _needs("Fetch of none", TOPIC, "Read Topic u", not_enough=("Describe Topic u",))
    yield from _needs("Fetch of a follower", TOPIC, f"ClusterAction {_C}", not_enough=("Read Topic t",))
    for each in describes:
        yield Row("ListOffsets", f"{each}, Describe Topic u", OK)
        yield from _needs("Metadata", TOPIC, f"{each}, Describe Topic t")
        yield Row("Metadata", each, OK)
        yield Row("OffsetForLeaderEpoch", each, OK)
    yield Row("ListOffsets", "", TOPIC)
    yield Row("ListOffsets", "Describe Topic t", TOPIC)
    yield from _needs("Metadata of none", TOPIC, "Describe Topic u", not_enough=("Create Topic u", f"Create {_C}"))
    yield Row("Metadata that creates", "", TOPIC)
    yield Row("Metadata that creates", "Describe Topic u2", TOPIC)
    yield Row("Metadata that may create", "Create Topic u3, Read Topic u3", OK)
    yield Row("Metadata that may create in the cluster", f"Create {_C}, Read Topic u4", OK)
    yield Row("Metadata of no topic", "", OK)
    yield Row("Metadata of all", "", OK)
    yield Row("Metadata of all", "Describe Topic t", OK)
    for request in ("LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "AlterPartition",
                    "AllocateProducerIds", "AddPartitionsToTxn of brokers"):  # fmt: skip
        yield from _needs(request, CLUSTER, f"ClusterAction {_C}", f"All {_C}", not_enough=(f"Alter {_C}",))
    yield Row("OffsetCommit", "", GROUP)
    yield Row("OffsetCommit", "Read Topic t", GROUP)
    yield Row("OffsetCommit", "Describe Group g, Read Topic t", GROUP)
    yield Row("OffsetCommit", "Read Group g", TOPIC)
    yield Row("OffsetCommit", "Read Group g, Describe Topic t", TOPIC)
    yield Row("OffsetCommit", "Read Group g, Read Topic t", OK)
    for request in ("OffsetFetch", "OffsetFetch of groups"):
        yield Row(request, "", GROUP)
        yield Row(request, "Describe Topic t", GROUP)
        yield Row(request, "Describe Group g", TOPIC)
        yield Row(request, "Read Group g, Read Topic t", OK)
        yield Row(request, "Describe Group g, Describe Topic t", OK)
    yield from _needs("OffsetFetch of all", GROUP, "Describe Group g")
    for request in ("FindCoordinator", "FindCoordinator of groups"):
        yield from _needs(request, GROUP, "Describe Group g", not_enough=("Create Group g", "Describe Group h"))
        yield Row(request, "Read Group g", OK)
    yield from _needs("FindCoordinator of a transaction", TXN, "Describe TransactionalId x")
    for request in ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"):
        yield from _needs(request, GROUP, "Read Group g", "Read Group *", not_enough=("Describe Group g",))
    yield from _needs("DescribeGroups", GROUP, "Describe Group g")
    yield Row("ListGroups", "", OK)
    yield from _needs("DeleteGroups", GROUP, "Delete Group g2", not_enough=("Read Group g2",))
    yield Row("OffsetDelete", "", GROUP)
    yield Row("OffsetDelete", "Read Group g, Read Topic t", GROUP)
    yield Row("OffsetDelete", "Delete Group g", TOPIC)
    yield Row("OffsetDelete", "Delete Group g, Read Topic t", OK)
    yield from _needs("CreateTopics", TOPIC, "Create Topic new", "Create Topic n*", f"Create {_C}")
    yield from _needs("DeleteTopics", TOPIC, "Delete Topic u", not_enough=("Describe Topic u", "Alter Topic u"))
    yield from _needs("CreatePartitions", TOPIC, "Alter Topic t", "Alter Topic *", not_enough=("Create Topic t",))
    yield from _needs("DeleteRecords", TOPIC, "Delete Topic t", not_enough=("Write Topic t",))
    yield from _needs("CreatePartitions of none", TOPIC, "Alter Topic u")
    yield from _needs("DeleteRecords of none", TOPIC, "Delete Topic u", not_enough=("Describe Topic u",))
    yield Row("DeleteRecords", "Delete Topic *", OK)
    yield Row("DeleteTopics", "Delete Topic *", OK)
    yield from _needs("InitProducerId", CLUSTER, f"IdempotentWrite {_C}", not_enough=("Read Topic t",))
    yield Row("InitProducerId", "Write Topic t", OK)
    yield Row("InitProducerId", "Write Topic none*", OK)
    yield Row("InitProducerId", "Write Topic t, !Write Topic t", CLUSTER)
    yield Row("InitProducerId", "Write Topic t, !Write Topic *", CLUSTER)
    yield Row("InitProducerId", "Write Topic none*, !Write Topic n*", CLUSTER)
    yield Row("InitProducerId", "Write Topic none*, !Write Topic none-a", OK)
    yield Row("InitProducerId", "Write Topic t*, Write Topic t, !Write Topic *", CLUSTER)
    yield Row("InitProducerId", "Write Topic t, !Write Topic t*", CLUSTER)
    yield Row("InitProducerId", "Write Topic t, !Read Topic t, !Write Topic t-2, !Write Group t*, "
              "!Write Topic t of User:bob", OK)  # fmt: skip
    yield from _needs("InitProducerId of a transaction", TXN, "Write TransactionalId x",
                      not_enough=(f"IdempotentWrite {_C}", "Describe TransactionalId x"))  # fmt: skip
    yield from _needs("OffsetForLeaderEpoch", TOPIC, "Describe Topic t")
    yield Row("OffsetForLeaderEpoch", f"ClusterAction {_C}", OK)
    yield from _needs("OffsetForLeaderEpoch of none", TOPIC, "Describe Topic u")
    yield Row("AddPartitionsToTxn of none", "Write TransactionalId x", TOPIC)
    yield Row("AddPartitionsToTxn of none", "Write TransactionalId x, Write Topic u", OK)
    yield Row("AddPartitionsToTxn", "", TXN)
    yield Row("AddPartitionsToTxn", "Write Topic t", TXN)
    yield Row("AddPartitionsToTxn", "Write TransactionalId x", TOPIC)
    yield Row("AddPartitionsToTxn", "Write TransactionalId x, Write Topic t", OK)
    yield Row("AddPartitionsToTxn of an internal topic", "Write TransactionalId x, Write Topic *", TOPIC)
    yield Row("AddOffsetsToTxn", "", TXN)
    yield Row("AddOffsetsToTxn", "Write TransactionalId x", GROUP)
    yield Row("AddOffsetsToTxn", "Write TransactionalId x, Read Group g", OK)
    yield from _needs("EndTxn", TXN, "Write TransactionalId x")
    yield Row("TxnOffsetCommit", "Read Group g, Read Topic t", TXN)
    yield Row("TxnOffsetCommit", "Write TransactionalId x, Read Topic t", GROUP)
    yield Row("TxnOffsetCommit", "Write TransactionalId x, Read Group g", TOPIC)
    yield Row("TxnOffsetCommit", "Write TransactionalId x, Read Group g, Read Topic t", OK)
    yield from _needs("WriteTxnMarkers", CLUSTER, f"Alter {_C}", f"ClusterAction {_C}")
    yield from _needs("DescribeAcls", CLUSTER, f"Describe {_C}")
    yield Row("DescribeAcls", f"Alter {_C}", OK)
    for request in ("CreateAcls", "DeleteAcls", "AlterReplicaLogDirs", "ElectLeaders", "AlterPartitionReassignments",
                    "AlterUserScramCredentials", "UpdateFeatures"):  # fmt: skip
        yield from _needs(request, CLUSTER, f"Alter {_C}", not_enough=(f"Describe {_C}",))
    for request in ("DescribeLogDirs", "ListPartitionReassignments", "DescribeUserScramCredentials"):
        yield from _needs(request, CLUSTER, f"Describe {_C}", not_enough=(f"Create {_C}",))
    yield from _needs("DescribeConfigs", TOPIC, "DescribeConfigs Topic t", not_enough=("Describe Topic t",))
    yield Row("DescribeConfigs", "AlterConfigs Topic t", OK)
    yield from _needs("DescribeConfigs of a broker", CLUSTER, f"DescribeConfigs {_C}")
    for request in ("AlterConfigs", "IncrementalAlterConfigs"):
        yield from _needs(request, TOPIC, "AlterConfigs Topic t", not_enough=("Alter Topic t",))
        yield from _needs(f"{request} of a broker", CLUSTER, f"AlterConfigs {_C}", not_enough=(f"Alter {_C}",))
    yield from _needs("IncrementalAlterConfigs of a logger", CLUSTER, f"AlterConfigs {_C}", not_enough=(f"Alter {_C}",))
    for request in ("AlterConfigs of client metrics", "IncrementalAlterConfigs of client metrics"):
        yield Row(request, "", OK)  # with ZooKeeper, refused to all users before ACLs are checked
    for request in ("DescribeConfigs of a logger", "DescribeConfigs of client metrics"):
        yield from _needs(request, CLUSTER, f"DescribeConfigs {_C}", not_enough=(f"Describe {_C}",))
    yield from _needs("DescribeClientQuotas", CLUSTER, f"DescribeConfigs {_C}")
    yield from _needs("AlterClientQuotas", CLUSTER, f"AlterConfigs {_C}")
    yield from _needs("DescribeProducers", TOPIC, "Read Topic t", not_enough=("Describe Topic t",))
    yield from _needs("DescribeTransactions", TXN, "Describe TransactionalId x")
    yield Row("DescribeTransactions", "Write TransactionalId x", OK)
    for request, operation in (("Metadata", "Describe"), ("DescribeConfigs", "DescribeConfigs")):
        yield Row(request, "All Topic t", OK)
        yield Row(request, f"{operation}@127.0.0.1 Topic t", OK)
        yield Row(request, f"{operation}@10.9.8.7 Topic t", TOPIC)
        yield Row(request, f"{operation} Topic t, !{operation}@127.0.0.1 Topic t", TOPIC)
        yield Row(request, f"{operation} Topic t of User:bob", TOPIC)
    yield Row("CreateTopics", "Create Topic n*, !Create Topic new* of User:bob, Create Topic newer* of User:bob", OK)
    yield Row("ListTransactions", "", OK)
    yield Row("DescribeCluster", "", OK)


ROWS = list(dict.fromkeys(_rows()))


def parsed(text: str) -> dict[Pattern, frozenset[Acl]]:
    """The ACLs; their user is USER unless they name another."""
    found: dict[Pattern, frozenset[Acl]] = {}
    for entry in filter(None, text.split(", ")):
        what, _, principal = entry.partition(" of ")
        operation_at, resource_type, name = what.lstrip("!").split(" ")
        operation, _, host = operation_at.partition("@")
        is_prefix = name.endswith("*") and name != "*"
        kind = PatternType.PREFIXED if is_prefix else PatternType.LITERAL
        pattern = Pattern(_known(ResourceType, resource_type), name[:-1] if is_prefix else name, kind)
        permission = Permission.DENY if entry.startswith("!") else Permission.ALLOW
        acl = Acl(principal or USER, host or "*", _known(Operation, operation), permission)
        found[pattern] = found.get(pattern, frozenset()) | {acl}
    return found


def _known(kind: Any, name: str) -> Any:
    known = named(kind, name)
    assert known is not None, name
    return known


def codes(response: Any) -> frozenset[int]:
    """All error codes anywhere in a response, except the code that says whether a topic's configuration is visible."""
    return frozenset(_codes(as_dict(response)))


def _codes(value: Any) -> Iterator[int]:
    if isinstance(value, list):
        for each in value:
            yield from _codes(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name.endswith("error_code") and name != "topic_config_error_code":
                yield int(each)
            else:
                yield from _codes(each)
