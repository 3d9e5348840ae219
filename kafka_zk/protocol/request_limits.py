"""Size limits of requests, large enough for a cluster of tens of thousands of partitions.

An element is a member of any array in the request, at any depth. Kafka's only limit is the machine's memory; this
broker treats a larger request as malformed.
"""

from kafka_zk.protocol.api_keys import ApiKey

MAX_BODY_BYTES = 16 * 1024 * 1024
"""Limit of every request except Produce; 50,000 of the longest topic names fit."""

_MANY = 50_000
"""For APIs that name topics, partitions, groups or configuration keys."""

_FEW = 1_000
"""For all other APIs."""

_MAX_ELEMENTS = {
    ApiKey.PRODUCE: 20_000,
    ApiKey.FETCH: 30_000,
    ApiKey.LIST_OFFSETS: _MANY,
    ApiKey.METADATA: 100_000,
    # Each partition has replicas in up to four arrays.
    ApiKey.LEADER_AND_ISR: 400_000,
    ApiKey.STOP_REPLICA: 400_000,
    ApiKey.UPDATE_METADATA: 400_000,
    ApiKey.ALTER_PARTITION: 400_000,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 400_000,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _MANY,
    ApiKey.ELECT_LEADERS: _MANY,
    ApiKey.OFFSET_COMMIT: _MANY,
    ApiKey.OFFSET_FETCH: _MANY,
    ApiKey.CREATE_TOPICS: 200_000,
    ApiKey.DELETE_TOPICS: _MANY,
    ApiKey.DELETE_RECORDS: _MANY,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _MANY,
    ApiKey.DESCRIBE_CONFIGS: _MANY,
    ApiKey.ALTER_CONFIGS: _MANY,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _MANY,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _MANY,
    ApiKey.DESCRIBE_LOG_DIRS: _MANY,
    ApiKey.DESCRIBE_PRODUCERS: _MANY,
    ApiKey.CREATE_PARTITIONS: 200_000,
    ApiKey.FIND_COORDINATOR: 10_000,
    ApiKey.ADD_PARTITIONS_TO_TXN: _MANY,
    ApiKey.WRITE_TXN_MARKERS: _MANY,
    ApiKey.TXN_OFFSET_COMMIT: _MANY,
    ApiKey.DESCRIBE_TRANSACTIONS: 10_000,
    ApiKey.LIST_TRANSACTIONS: 10_000,
    # The members of one group.
    ApiKey.SYNC_GROUP: 10_000,
    ApiKey.LEAVE_GROUP: 10_000,
    ApiKey.DESCRIBE_GROUPS: 10_000,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 10_000,
    ApiKey.DELETE_GROUPS: 10_000,
    ApiKey.OFFSET_DELETE: _MANY,
    # MirrorMaker copies all ACLs of its topics in one request.
    ApiKey.CREATE_ACLS: 10_000,
    ApiKey.DELETE_ACLS: 10_000,
}


def max_elements(api_key: int) -> int:
    return _MAX_ELEMENTS.get(api_key, _FEW)  # type: ignore[call-overload, no-any-return]
