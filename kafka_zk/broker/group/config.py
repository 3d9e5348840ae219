"""Group settings from the broker's configuration."""

from dataclasses import dataclass, field

from kafka_zk.broker.config.kafka_config import KafkaConfig


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """``group.initial.rebalance.delay.ms`` and ``group.max.size``. The caller checks session timeouts."""

    initial_rebalance_delay_ms: int = 3000
    max_size: int = 2**31 - 1


@dataclass(frozen=True, slots=True)
class CoordinatorConfig:
    """``group.*`` and ``offsets.*``. ``partition_count`` applies until the offsets topic exists.

    ``members_max_bytes`` and ``offsets_max_bytes`` have no keys: they limit all groups' members and committed offsets
    (5,000 groups with 50 partitions each), so that the broker stays below 300 MB.
    """

    group: GroupConfig = field(default_factory=GroupConfig)
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    metadata_max_bytes: int = 4096
    partition_count: int = 50
    segment_bytes: int = 104_857_600
    load_buffer_bytes: int = 5_242_880
    commit_timeout_ms: int = 5_000
    retention_ms: int = 7 * 24 * 3_600_000
    members_max_bytes: int = 48 * 1024 * 1024
    offsets_max_bytes: int = 128 * 1024 * 1024

    @classmethod
    def of(cls, config: KafkaConfig) -> "CoordinatorConfig":
        return cls(
            GroupConfig(config.group_initial_rebalance_delay_ms, config.group_max_size),
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            metadata_max_bytes=config.offset_metadata_max_bytes,
            partition_count=config.offsets_topic_num_partitions,
            segment_bytes=config.offsets_topic_segment_bytes,
            load_buffer_bytes=config.offsets_load_buffer_size,
            commit_timeout_ms=config.offsets_commit_timeout_ms,
            retention_ms=config.offsets_retention_minutes * 60_000,
        )
