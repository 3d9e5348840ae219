"""One log's configuration: topic-level keys as typed fields (``.`` and ``-`` become ``_``).

``LogConfig`` is frozen and shared by a topic's logs; the keys are in ``config_table``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafka_zk.storage.files.config_table import LONG_MAX, TOPIC_CONFIGS, TopicConfig
from kafka_zk.storage.files.errors import InvalidConfig

__all__ = ["DEFAULT", "TOPIC_CONFIGS", "LogConfig", "TopicConfig"]


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The fields have Kafka's defaults. -1 usually means no limit.

    ``remote_log_storage_system_enable`` is a broker key, not a topic key.
    """

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_downconversion_enable: bool = True
    message_format_version: str = "3.0-IV1"
    message_timestamp_after_max_ms: int = LONG_MAX
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_difference_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_log_storage_system_enable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], defaults: "LogConfig | None" = None) -> "LogConfig":
        """The configuration with these ``properties``. Other keys take the value in ``defaults`` (None: Kafka's
        defaults).

        Raises: InvalidConfig for an unknown key or an invalid value.
        """
        values: dict[str, Any] = {}
        for key, text in properties.items():
            entry = TOPIC_CONFIGS.get(key)
            if entry is None:
                raise InvalidConfig(f"{key}: unknown topic configuration key")
            values[field_name(key)] = entry.parse(key, text)
        config = replace(DEFAULT if defaults is None else defaults, **values)
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            raise InvalidConfig(
                f"min.compaction.lag.ms={config.min_compaction_lag_ms}: must be at most max.compaction.lag.ms "
                f"({config.max_compaction_lag_ms})"
            )
        return config

    def of_topic(self, topic: str) -> "LogConfig":
        """This configuration as it applies to ``topic``: the topics in ``NEVER_TIERED`` are never tiered."""
        return replace(self, remote_storage_enable=False) if topic in NEVER_TIERED else self

    def tiered(self) -> "LogConfig":
        """This configuration with tiered storage enabled."""
        policy = ("delete",) if self.is_compacted else self.cleanup_policy
        return replace(self, remote_storage_enable=True, cleanup_policy=policy)

    def property_text(self, key: str) -> str:
        """A key's value as DescribeConfigs returns it."""
        return TOPIC_CONFIGS[key].format(getattr(self, field_name(key)))

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """True if old segments are deleted by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def is_tiered(self) -> bool:
        """True if closed segments are copied to remote storage. Source: UnifiedLog.isRemoteLogEnabled@3.9."""
        return self.remote_log_storage_system_enable and self.remote_storage_enable and not self.is_compacted

    @property
    def max_segment_ms(self) -> int:
        """The age at which a segment is closed. Source: LogConfig.maxSegmentMs@3.9."""
        if self.is_compacted and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @property
    def timestamp_before_max_ms(self) -> int:
        """The effective limit for timestamps behind the broker's clock. The old combined key applies while the newer
        key has its default."""
        bound = self.message_timestamp_before_max_ms
        return self.message_timestamp_difference_max_ms if bound == LONG_MAX else bound

    @property
    def timestamp_after_max_ms(self) -> int:
        """Like ``timestamp_before_max_ms``, for timestamps ahead of the broker's clock."""
        bound = self.message_timestamp_after_max_ms
        return self.message_timestamp_difference_max_ms if bound == LONG_MAX else bound


NEVER_TIERED = frozenset(
    ("__cluster_metadata", "__consumer_offsets", "__remote_log_metadata", "__share_group_state", "__transaction_state")
)
"""Topics whose ``remote.storage.enable`` has no effect. Source: UnifiedLog.isRemoteLogEnabled@3.9."""


def field_name(key: str) -> str:
    """``segment.bytes`` → ``segment_bytes``."""
    return key.replace(".", "_")


DEFAULT = LogConfig()
