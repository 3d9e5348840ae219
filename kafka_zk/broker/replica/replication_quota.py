"""Limits the rate of throttled replicas, over a sliding window.

``leader.replication.throttled.replicas`` and its counterpart for followers name the throttled partitions. All bytes of
these partitions count. While the rate is exceeded, only replicas that are out of sync are held back (the leader sends
no records, followers do not fetch), so no replica leaves the ISR.

Pure. Times: ms on a monotonic clock. Source: ReplicationQuotaManager.scala@3.9.
"""

from kafka_zk.base.rate import QuotaWindow, SimpleRate
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.storage.files.config_table import LONG_MAX
from kafka_zk.storage.files.log_config import LogConfig

UNLIMITED = LONG_MAX


class ReplicationQuota:
    """The throttled partitions of one direction and their common rate."""

    def __init__(self, window: QuotaWindow) -> None:
        self.bytes_per_second = UNLIMITED
        self.throttled: set[TopicPartition] = set()
        self._rate = SimpleRate(window)

    def configure(self, bytes_per_second: int | None, window: QuotaWindow) -> None:
        """Change the limit; None: unlimited. If the window stays the same, recorded bytes still count."""
        self.bytes_per_second = UNLIMITED if bytes_per_second is None else bytes_per_second
        if window != self._rate.window:
            self._rate = SimpleRate(window)

    def set_throttled(self, tp: TopicPartition, broker_id: int, replicas: tuple[str, ...]) -> None:
        """Throttle a partition if the topic's list ``replicas`` (``*`` or ``partition:broker``) names it."""
        if replicas and any(_names(each, tp.partition, broker_id) for each in replicas):
            self.throttled.add(tp)
        else:
            self.throttled.discard(tp)

    def is_throttled(self, tp: TopicPartition) -> bool:
        return tp in self.throttled

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Record bytes of throttled partitions that were sent or received."""
        self._rate.record(size_bytes, now_ms)

    def byte_rate(self, now_ms: int) -> float:
        """Bytes per second of throttled partitions."""
        return self._rate.per_second(now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        """True if throttled replicas out of sync must wait."""
        return self.bytes_per_second != UNLIMITED and self._rate.per_second(now_ms) > self.bytes_per_second


class ReplicationQuotas:
    """``leader``: for bytes sent to followers. ``follower``: for bytes received from leaders."""

    def __init__(self) -> None:
        window = QuotaWindow()
        self.leader = ReplicationQuota(window)
        self.follower = ReplicationQuota(window)

    def configure(self, config: KafkaConfig) -> None:
        """Apply ``leader.replication.throttled.rate``, the followers' rate, and the window."""
        window = QuotaWindow(
            config.replication_quota_window_num, config.replication_quota_window_size_seconds * 1000
        )
        self.leader.configure(config.leader_replication_throttled_rate, window)
        self.follower.configure(config.follower_replication_throttled_rate, window)

    def apply(self, tp: TopicPartition, broker_id: int, config: LogConfig) -> None:
        """Apply a topic's configuration to its partition on this broker."""
        self.leader.set_throttled(tp, broker_id, config.leader_replication_throttled_replicas)
        self.follower.set_throttled(tp, broker_id, config.follower_replication_throttled_replicas)

    def forget(self, tp: TopicPartition) -> None:
        """Forget a partition that is no longer on this broker."""
        self.leader.throttled.discard(tp)
        self.follower.throttled.discard(tp)


def _names(replica: str, partition: int, broker_id: int) -> bool:
    if replica == "*":
        return True
    wanted_partition, _, wanted_broker = replica.partition(":")
    return (int(wanted_partition), int(wanted_broker)) == (partition, broker_id)
