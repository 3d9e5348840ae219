"""All broker keys of Kafka 3.9 in ZooKeeper mode, one row each.

A key that Kafka does not have gets a row with ``is_listed=False``, at the end of the table.
``security_keys`` contains the keys about security. ``unused_keys.txt`` lists the keys that this broker only stores and
shows.

Names, types, defaults and update modes are those of a 3.9.1 broker's DescribeConfigs. The documentation texts are
original. ``here=``: this broker's default, if different. ``broker_configs`` derives tables from the rows.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafka_zk.broker.config.broker_key import (
    BOOLEAN,
    DOUBLE,
    INT,
    ITEMS,
    LIST,
    LONG,
    SHORT,
    STRING,
    BrokerKey,
    Facts,
    Update,
    Use,
    topic_default,
    unused_key,
)
from kafka_zk.broker.config.security_keys import SecurityKeys

READ, ACCEPTED = Use.READ, Use.ACCEPTED
READ_ONLY, PER_BROKER, CLUSTER_WIDE = Update.READ_ONLY, Update.PER_BROKER, Update.CLUSTER_WIDE

_UNBUILT = {
    "no-java": "cannot run Java classes",
}


class BrokerKeys(SecurityKeys):
    """Each attribute is a key, with ``_`` for ``.``. On an instance, it is the key's value."""

    advertised_listeners = ITEMS(
        None, "Addresses announced to clients and brokers; by default the bound addresses.", here="",
        use=READ, update=PER_BROKER, is_built=True,
    )
    auto_create_topics_enable = BOOLEAN(
        "true", "Whether a metadata request for an unknown topic creates the topic.", use=READ,
    )
    auto_leader_rebalance_enable = BOOLEAN(
        "true", "Whether leadership returns to preferred leaders automatically.", use=READ,
    )
    background_threads = INT("10", low=1, use=ACCEPTED, update=CLUSTER_WIDE)
    broker_id = INT(
        "-1", "Id of this broker; -1: use the stored id or a new one from ZooKeeper.", low=-1, use=READ,
    )
    broker_id_generation_enable = BOOLEAN(
        "true", "Whether a broker without broker.id gets one from ZooKeeper.", use=READ,
    )
    broker_rack = STRING(
        None, "Rack of this broker. The replicas of a new partition are placed in different racks.", use=READ
    )
    compression_gzip_level = topic_default("compression.gzip.level")
    compression_lz4_level = topic_default("compression.lz4.level")
    compression_type = topic_default("compression.type")
    compression_zstd_level = topic_default("compression.zstd.level")
    connections_max_idle_ms = LONG("600000", "Connections without a request for this long are closed.", low=1, use=READ)
    control_plane_listener_name = STRING(
        None, "Listener at which the controller connects, instead of the listener for connections between brokers.",
        use=READ,
    )
    controlled_shutdown_enable = BOOLEAN(
        "true", "Whether a stopping broker first moves its leaderships away.", use=READ,
    )
    controlled_shutdown_max_retries = INT("3", "Maximum number of attempts to move leaderships away.", low=0, use=READ)
    controlled_shutdown_retry_backoff_ms = LONG(
        "5000",
        "Pause between two attempts. All attempts together take at most controlled.shutdown.max.retries times this.",
        low=0, use=READ,
    )
    controller_quota_window_num = INT(
        "11", "Number of quota windows over which unused controller_mutation_rate can accumulate.", low=1, use=READ
    )
    controller_quota_window_size_seconds = INT(
        "1", "Length of each window of controller.quota.window.num.", low=1, use=READ
    )
    controller_socket_timeout_ms = INT("30000", "How long the controller waits for a response.", low=1, use=READ)
    default_replication_factor = INT(
        "1", "Replication factor of a topic that is created without one.", low=1, use=READ,
    )
    delete_topic_enable = BOOLEAN("true", "Whether topics can be deleted.", use=READ)
    fetch_max_bytes = INT("57671680", "Maximum bytes in a fetch response.", low=1024, use=READ)
    group_initial_rebalance_delay_ms = INT(
        "3000", "How long an empty group waits for more members before its first rebalance.", low=0, use=READ,
    )
    group_max_session_timeout_ms = INT(
        "1800000", "Maximum session timeout that a group member may request.", use=READ,
    )
    group_max_size = INT("2147483647", "Maximum number of members of a group.", low=1, use=READ)
    group_min_session_timeout_ms = INT(
        "6000", "Minimum session timeout that a group member may request.", use=READ,
    )
    inter_broker_listener_name = STRING(None, "Listener for connections between brokers.", use=READ)
    inter_broker_protocol_version = STRING(
        "3.9-IV0", "Version of the oldest brokers in the cluster; determines requests between brokers.", use=READ
    )
    leader_imbalance_check_interval_seconds = LONG(
        "300", "Interval of the checks for leader imbalance.", low=1, use=READ,
    )
    leader_imbalance_per_broker_percentage = INT(
        "10", "Percentage of partitions that may be led by other than their preferred leaders.", low=0, use=READ,
    )
    listeners = ITEMS(
        "PLAINTEXT://:9092", "Addresses of the listeners: NAME://host:port; an empty host means all interfaces.",
        use=READ, update=PER_BROKER, is_built=True,
    )
    log_cleaner_backoff_ms = LONG(
        "15000", "How long the log cleaner pauses if no log is dirty enough.", low=0, use=READ, update=CLUSTER_WIDE,
    )
    log_cleaner_dedupe_buffer_size = LONG(
        "134217728", "Memory of all cleaner threads for the keys of the logs.", use=READ, update=CLUSTER_WIDE,
    )
    log_cleaner_delete_retention_ms = topic_default("delete.retention.ms")
    log_cleaner_enable = BOOLEAN("true", "Whether compacted topics are compacted.", use=READ)
    log_cleaner_io_buffer_load_factor = DOUBLE(
        "0.9", "Maximum load factor of log.cleaner.dedupe.buffer.size; a higher one makes cleaning slower.",
        use=READ, update=CLUSTER_WIDE,
    )
    log_cleaner_io_buffer_size = INT(
        "524288", "Memory of all cleaner threads for segment data.", low=0, use=READ, update=CLUSTER_WIDE,
    )
    log_cleaner_io_max_bytes_per_second = DOUBLE(
        "1.7976931348623157E308", "Maximum bytes that the cleaner reads and writes per second.",
        use=READ, update=CLUSTER_WIDE,
    )
    log_cleaner_max_compaction_lag_ms = topic_default("max.compaction.lag.ms")
    log_cleaner_min_cleanable_ratio = topic_default("min.cleanable.dirty.ratio")
    log_cleaner_min_compaction_lag_ms = topic_default("min.compaction.lag.ms")
    log_cleaner_threads = INT(
        "1", "Number of logs that are compacted in parallel.", low=0, use=READ, update=CLUSTER_WIDE,
    )
    log_cleanup_policy = topic_default("cleanup.policy")
    log_dir = STRING("/tmp/kafka-logs", "Log directory if log.dirs is not set.", use=READ)
    log_dirs = ITEMS(None, "Log directories; a new partition goes to the one with the fewest.", here="", use=READ)
    log_flush_interval_messages = topic_default("flush.messages")
    log_flush_interval_ms = topic_default("flush.ms", is_set=False, fallback="log.flush.scheduler.interval.ms")
    log_flush_offset_checkpoint_interval_ms = INT("60000", "Interval of writing recovery points.", low=1, use=READ)
    log_flush_scheduler_interval_ms = LONG(
        "9223372036854775807", "Interval of the checks for logs that must be flushed.", low=1, use=READ,
    )
    log_initial_task_delay_ms = LONG("30000", low=0, use=ACCEPTED, is_listed=False)
    log_index_interval_bytes = topic_default("index.interval.bytes")
    log_index_size_max_bytes = topic_default("segment.index.bytes")
    log_local_retention_bytes = topic_default("local.retention.bytes")
    log_local_retention_ms = topic_default("local.retention.ms")
    log_message_downconversion_enable = topic_default("message.downconversion.enable")
    log_message_format_version = topic_default("message.format.version", update=READ_ONLY)
    log_message_timestamp_after_max_ms = topic_default("message.timestamp.after.max.ms")
    log_message_timestamp_before_max_ms = topic_default("message.timestamp.before.max.ms")
    log_message_timestamp_difference_max_ms = topic_default("message.timestamp.difference.max.ms")
    log_message_timestamp_type = topic_default("message.timestamp.type")
    log_preallocate = topic_default("preallocate")
    log_retention_bytes = topic_default("retention.bytes")
    log_retention_check_interval_ms = LONG(
        "300000", "Interval of the checks for segments to delete.", low=1, use=READ,
    )
    log_retention_hours = INT(
        "168", "log.retention.ms in hours; used if neither ms nor minutes are set.", use=ACCEPTED,
        in_units=("log.retention.ms", 3_600_000),
    )
    log_retention_minutes = INT(
        None, "log.retention.ms in minutes; used if ms is not set.", use=ACCEPTED,
        in_units=("log.retention.ms", 60_000),
    )
    log_retention_ms = topic_default("retention.ms", is_set=False)
    log_roll_hours = INT(
        "168", "log.roll.ms in hours; used if ms is not set.", use=ACCEPTED, in_units=("log.roll.ms", 3_600_000),
    )
    log_roll_jitter_hours = INT(
        "0", "log.roll.jitter.ms in hours; used if ms is not set.", use=ACCEPTED,
        in_units=("log.roll.jitter.ms", 3_600_000),
    )
    log_roll_jitter_ms = topic_default("segment.jitter.ms", is_set=False)
    log_roll_ms = topic_default("segment.ms", is_set=False)
    log_segment_bytes = topic_default("segment.bytes")
    log_segment_delete_delay_ms = topic_default("file.delete.delay.ms")
    max_connection_creation_rate = INT(
        "2147483647", "Maximum new connections per second; per listener with listener.name.<listener>.",
        low=0, use=READ, update=CLUSTER_WIDE,
    )
    max_connections = INT(
        "2147483647", "Maximum number of connections; at the limit the broker stops accepting.", low=0, use=READ,
        update=CLUSTER_WIDE,
    )
    max_connections_per_ip = INT(
        "2147483647", "Maximum number of connections per address; others are closed.", low=0, use=READ,
        update=CLUSTER_WIDE,
    )
    max_connections_per_ip_overrides = ITEMS(
        "", "max.connections.per.ip for single addresses: address:count,...", use=READ, update=CLUSTER_WIDE,
    )
    max_incremental_fetch_session_cache_slots = INT(
        "1000", "Maximum number of incremental fetch sessions.", low=0, use=READ,
    )
    message_max_bytes = topic_default("max.message.bytes")
    metric_reporters = LIST("", update=CLUSTER_WIDE, is_built=False)
    min_insync_replicas = topic_default("min.insync.replicas")
    num_io_threads = INT("8", low=1, use=ACCEPTED, update=CLUSTER_WIDE)
    num_network_threads = INT("3", low=1, use=ACCEPTED, update=CLUSTER_WIDE)
    num_partitions = INT("1", "Partition count of a topic that is created without one.", low=1, use=READ)
    num_recovery_threads_per_data_dir = INT(
        "1", "Logs per directory that are opened in parallel after a crash.", low=1, use=READ, update=CLUSTER_WIDE,
    )
    num_replica_fetchers = INT("1", low=1, use=ACCEPTED, update=CLUSTER_WIDE)
    offset_metadata_max_bytes = INT("4096", "Maximum length of the metadata of a committed offset.", low=0, use=READ)
    offsets_commit_timeout_ms = INT(
        "5000", "How long an offset commit waits for the replicas.", low=1, use=READ,
    )
    offsets_load_buffer_size = INT(
        "5242880", "Bytes per read when groups and offsets are loaded.", low=1, use=READ,
    )
    offsets_retention_check_interval_ms = LONG(
        "600000", "Interval of the checks for expired offsets.", low=1, use=READ,
    )
    offsets_retention_minutes = INT(
        "10080", "How long offsets are kept after the group is empty or does not read the topic.", low=1,
        use=READ,
    )
    offsets_topic_num_partitions = INT(
        "50", "Partitions of __consumer_offsets at creation; must not be changed later.", low=1, use=READ,
    )
    offsets_topic_replication_factor = SHORT(
        "3",
        "Replicas of __consumer_offsets. If set, the topic is created only when that many brokers are live; "
        "default: 3, or all live brokers.",
        low=1, use=READ,
    )
    offsets_topic_segment_bytes = INT(
        "104857600", "Segment size of __consumer_offsets at creation.", low=1, use=READ,
    )
    process_roles = LIST("", "Roles in a KRaft cluster, which this broker cannot have.", use=READ)
    producer_id_expiration_check_interval_ms = INT(
        "600000", "Interval at which expired producer ids are removed.", low=1, use=READ, is_listed=False,
    )
    producer_id_expiration_ms = INT(
        "86400000", "How long a producer id is remembered after its last batch.", low=1, use=READ, update=CLUSTER_WIDE,
    )
    queued_max_request_bytes = LONG(
        "-1",
        "Memory for all requests. While it is used up, no requests are read; a single request may exceed it. "
        "-1: 96 MB.",
        low=-1, use=READ,
    )
    queued_max_requests = INT("500", use=ACCEPTED)
    quota_window_num = INT("11", "Number of windows over which client quotas are measured.", low=1, use=READ)
    quota_window_size_seconds = INT("1", "Length of each window of quota.window.num.", low=1, use=READ)
    remote_fetch_max_wait_ms = INT(
        "500", "Longest time that a fetch waits for records in remote storage.", low=1, use=READ, update=CLUSTER_WIDE,
    )
    remote_log_index_file_cache_total_size_bytes = LONG(
        "1073741824", "Size of the cache of remote segments' indexes, which is in memory here.", here="33554432", low=1,
        use=READ, update=CLUSTER_WIDE,
    )
    remote_log_manager_copier_thread_pool_size = INT(
        "-1", "Threads that copy to remote storage; -1: remote.log.manager.thread.pool.size.", low=-1, use=READ,
    )
    remote_log_manager_copy_max_bytes_per_second = LONG(
        "9223372036854775807", "Bytes per second that this broker copies to remote storage.", low=1, use=READ,
        update=CLUSTER_WIDE,
    )
    remote_log_manager_copy_quota_window_num = INT(
        "11", "Number of windows over which the rate of copies to remote storage is measured.", low=1, use=READ,
    )
    remote_log_manager_copy_quota_window_size_seconds = INT(
        "1", "Length of each window of remote.log.manager.copy.quota.window.num.", low=1, use=READ,
    )
    remote_log_manager_expiration_thread_pool_size = INT(
        "-1", "Threads that delete remote segments; -1: remote.log.manager.thread.pool.size.", low=-1, use=READ,
    )
    remote_log_manager_fetch_max_bytes_per_second = LONG(
        "9223372036854775807", "Bytes per second that consumers get from remote storage through this broker.",
        low=1, use=READ, update=CLUSTER_WIDE,
    )
    remote_log_manager_fetch_quota_window_num = INT(
        "11", "Number of windows over which the rate of remote reads is measured.", low=1, use=READ,
    )
    remote_log_manager_fetch_quota_window_size_seconds = INT(
        "1", "Length of each window of remote.log.manager.fetch.quota.window.num.", low=1, use=READ,
    )
    remote_log_manager_task_interval_ms = LONG(
        "30000", "Interval of copying segments to remote storage and of deleting expired ones.", low=1, use=READ,
    )
    remote_log_manager_thread_pool_size = INT(
        "10",
        "Number of threads that copy to remote storage, and of those that delete there, unless set separately.",
        low=1, use=READ,
    )
    remote_log_metadata_manager_class_name = STRING(
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        "Class that keeps the metadata of remote segments; there is only the default.", use=READ,
    )
    remote_log_metadata_manager_class_path = STRING(use=ACCEPTED)
    remote_log_metadata_manager_impl_prefix = STRING(
        "rlmm.config.", "Prefix of that class's own keys; there is only the default.", use=READ,
    )
    remote_log_metadata_manager_listener_name = STRING(
        None, "A listener of this broker; the metadata of remote segments are read through the inter-broker listener.",
        use=READ,
    )
    remote_log_reader_max_pending_tasks = INT(
        "100", "Number of reads from remote storage that may wait for a thread.", low=1, use=READ,
    )
    remote_log_reader_threads = INT("10", "Threads that read from remote storage.", low=1, use=READ)
    remote_log_storage_manager_class_name = STRING(
        None, "Class of the storage plugin: Kafka's LocalTieredStorage, or the RemoteStorageManager of Aiven's plugin.",
        use=READ,
    )
    remote_log_storage_manager_class_path = STRING(use=ACCEPTED)
    remote_log_storage_manager_impl_prefix = STRING(
        "rsm.config.", "Prefix of the storage plugin's own keys; there is only the default.", use=READ,
    )
    remote_log_storage_system_enable = BOOLEAN("false", "Remote storage (KIP-405).", use=READ)
    replica_fetch_backoff_ms = INT(
        "1000", "How long a follower pauses a partition after an error of its leader.", low=0, use=READ
    )
    replica_fetch_max_bytes = INT(
        "1048576", "Maximum bytes per partition in a response to a follower; one batch may exceed it.",
        low=0, use=READ,
    )
    replica_fetch_min_bytes = INT("1", "Minimum bytes for which a follower's fetch waits.", use=READ)
    replica_fetch_response_max_bytes = INT(
        "10485760", "Maximum size of a response to a follower; one batch may exceed it.", low=0, use=READ
    )
    replica_fetch_wait_max_ms = INT("500", "How long a leader waits for records to send to a follower.", use=READ)
    replica_lag_time_max_ms = LONG(
        "30000", "A follower that has not caught up for this time leaves the in-sync replicas.", low=1, use=READ,
    )
    replica_selector_class = STRING(
        None,
        "Class that selects the replica that a consumer reads; RackAwareReplicaSelector: one in its client.rack.",
        use=READ,
    )
    replica_socket_timeout_ms = INT("30000", "How long a follower waits for a response of its leader.", low=1, use=READ)
    replication_quota_window_num = INT(
        "11", "Number of samples over which the rate of throttled replicas is measured.", low=1, use=READ
    )
    replication_quota_window_size_seconds = INT(
        "1", "Length of each sample of replication.quota.window.num.", low=1, use=READ
    )
    request_timeout_ms = INT("30000", "How long the broker waits for responses to its own requests.", low=1, use=READ)
    reserved_broker_max_id = INT("1000", "Maximum configured broker.id; generated ones are larger.", low=0, use=READ)
    socket_listen_backlog_size = INT("50", "Maximum number of connections that wait to be accepted.", low=1, use=READ)
    socket_receive_buffer_bytes = INT(
        "102400", "Receive buffer of a connection; -1, the default here: set by the system.", here="-1", low=-1,
        use=READ,
    )
    socket_request_max_bytes = INT(
        "104857600", "Maximum request size; a larger request closes the connection.", low=1, use=READ,
    )
    socket_send_buffer_bytes = INT(
        "102400", "Send buffer of a connection; -1, the default here: set by the system.", here="-1", low=-1,
        use=READ,
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = INT(
        "10000", "Interval of the checks for transactions that have timed out.", low=1, use=READ,
    )
    transaction_max_timeout_ms = INT("900000", "Maximum timeout that a producer may request.", low=1, use=READ)
    transaction_partition_verification_enable = BOOLEAN(
        "true", "Whether the coordinator verifies a transaction before its first batch per partition.",
        use=READ, update=CLUSTER_WIDE,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = INT(
        "3600000", "Interval of the checks for expired transactional ids.", low=1, use=READ,
    )
    transaction_state_log_load_buffer_size = INT(
        "5242880", "Bytes per read when transactional ids are loaded.", low=1, use=READ,
    )
    transaction_state_log_min_isr = INT(
        "2", "min.insync.replicas of __transaction_state at creation; default: 2, or 1 with one replica.",
        low=1, use=READ,
    )
    transaction_state_log_num_partitions = INT(
        "50", "Partitions of __transaction_state at creation; must not be changed later.", low=1, use=READ,
    )
    transaction_state_log_replication_factor = SHORT(
        "3",
        "Replicas of __transaction_state. If set, the topic is created only when that many brokers are live; "
        "default: 3, or all live brokers.",
        low=1, use=READ,
    )
    transaction_state_log_segment_bytes = INT(
        "104857600", "Segment size of __transaction_state at creation.", low=1, use=READ,
    )
    transactional_id_expiration_ms = INT(
        "604800000", "How long a transactional id is remembered after its last use.", low=1, use=READ,
    )
    unclean_leader_election_enable = topic_default("unclean.leader.election.enable")
    zookeeper_clientCnxnSocket = STRING(use=ACCEPTED)
    zookeeper_connect = STRING(None, "ZooKeeper servers and chroot: host:port,host:port/chroot.", here="", use=READ)
    zookeeper_connection_timeout_ms = INT(None, "How long the first connection to ZooKeeper may take.", low=1, use=READ)
    zookeeper_max_in_flight_requests = INT("10", use=ACCEPTED)
    zookeeper_metadata_migration_enable = BOOLEAN(
        "false", "Migration to KRaft, which this broker does not support.", use=READ,
    )
    zookeeper_session_timeout_ms = INT(
        "18000", "Session timeout: ZooKeeper considers a broker dead after this silence.", low=100, use=READ,
    )

    # DescribeConfigs lists these keys only if they are set, and shows only dynamic values.
    follower_replication_throttled_rate = LONG(
        None, "Maximum bytes per second that throttled replicas fetch.",
        low=0, use=READ, update=CLUSTER_WIDE, is_listed=False,
    )
    host_name = STRING(use=ACCEPTED, is_listed=False)
    leader_replication_throttled_rate = LONG(
        None, "Maximum bytes per second sent to followers for throttled replicas.",
        low=0, use=READ, update=CLUSTER_WIDE, is_listed=False,
    )
    port = STRING(use=ACCEPTED, is_listed=False)
    replica_alter_log_dirs_io_max_bytes_per_second = LONG(
        str(2**63 - 1), "Maximum bytes per second copied when replicas move between log directories.", low=0, use=READ,
        update=CLUSTER_WIDE, is_listed=False,
    )  # fmt: skip


def _unused_keys() -> Iterator[BrokerKey[Any]]:
    for line in Path(__file__).with_name("unused_keys.txt").read_text("ascii").splitlines():
        if not line.startswith("#"):
            name, type_, default, *more = line.split()
            facts: Facts = {}
            if more:
                facts["update"] = Update[more[0].replace("-", "_").upper()]
            if more[1:]:
                facts["unbuilt"] = _UNBUILT[more[1]]
            if name.startswith("sasl.kerberos."):
                facts["is_built"] = True  # only for Java's ticket renewal: changes are accepted, without effect
            yield unused_key(name, type_, {"null": None, '""': ""}.get(default, default), facts)


_TABLES = (BrokerKeys, SecurityKeys)
ROWS = [*(row for table in _TABLES for row in vars(table).values() if isinstance(row, BrokerKey)), *_unused_keys()]
