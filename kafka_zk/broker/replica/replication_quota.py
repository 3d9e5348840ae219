"""How fast throttled replicas may be copied: at most so many bytes a second, measured over a sliding window.

A partition is throttled on this broker as ``leader.replication.throttled.replicas`` and its twin for followers say.
All bytes of throttled replicas count, but only replicas out of sync are held back while the rate is exceeded: a
throttle must not push anybody out of the ISR. Who is held back gets nothing, or asks for nothing, until it has fallen.

Pure: times are ms on a clock that is never set. Source: ReplicationQuotaManager.scala@3.9. Tests:
tests/kafka_zk/broker/replica/test_replication_quota.py.
"""

from kafka_zk.base.rate import QuotaWindow, SimpleRate
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.storage.files.config_table import LONG_MAX
from kafka_zk.storage.files.log_config import LogConfig

UNLIMITED = LONG_MAX


class ReplicationQuota:
    """The throttled partitions of one direction, and their common rate."""

    def __init__(self, window: QuotaWindow) -> None:
        self.bytes_per_second = UNLIMITED
        self.throttled: set[TopicPartition] = set()
        self._rate = SimpleRate(window)

    def configure(self, bytes_per_second: int | None, window: QuotaWindow) -> None:
        """From now on so many bytes; None: as many as there are. What was recorded counts on in an unchanged window."""
        self.bytes_per_second = UNLIMITED if bytes_per_second is None else bytes_per_second
        if window != self._rate.window:
            self._rate = SimpleRate(window)

    def set_throttled(self, tp: TopicPartition, broker_id: int, replicas: tuple[str, ...]) -> None:
        """``replicas`` is the topic's list: ``*`` for all, or ``partition:broker``."""
        if replicas and any(_names(each, tp.partition, broker_id) for each in replicas):
            self.throttled.add(tp)
        else:
            self.throttled.discard(tp)

    def is_throttled(self, tp: TopicPartition) -> bool:
        """Whether its bytes count."""
        return tp in self.throttled

    def record(self, size_bytes: int, now_ms: int) -> None:
        """So many bytes of throttled partitions were sent or received."""
        self._rate.record(size_bytes, now_ms)

    def byte_rate(self, now_ms: int) -> float:
        """Bytes of throttled partitions a second."""
        return self._rate.per_second(now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether throttled replicas out of sync have to wait."""
        return self.bytes_per_second != UNLIMITED and self._rate.per_second(now_ms) > self.bytes_per_second


class ReplicationQuotas:
    """``leader``: what this broker sends to followers. ``follower``: what it fetches from leaders."""

    def __init__(self) -> None:
        window = QuotaWindow()
        self.leader = ReplicationQuota(window)
        self.follower = ReplicationQuota(window)

    def configure(self, config: KafkaConfig) -> None:
        """Take over ``leader.replication.throttled.rate``, its twin, and the window."""
        window = QuotaWindow(
            config.replication_quota_window_num, config.replication_quota_window_size_seconds * 1000
        )
        self.leader.configure(config.leader_replication_throttled_rate, window)
        self.follower.configure(config.follower_replication_throttled_rate, window)

    def apply(self, tp: TopicPartition, broker_id: int, config: LogConfig) -> None:
        """Take over what a topic's configuration says of its partition on this broker."""
        self.leader.set_throttled(tp, broker_id, config.leader_replication_throttled_replicas)
        self.follower.set_throttled(tp, broker_id, config.follower_replication_throttled_replicas)

    def forget(self, tp: TopicPartition) -> None:
        """The partition is not on this broker any more."""
        self.leader.throttled.discard(tp)
        self.follower.throttled.discard(tp)


def _names(replica: str, partition: int, broker_id: int) -> bool:
    if replica == "*":
        return True
    wanted_partition, _, wanted_broker = replica.partition(":")
    return (int(wanted_partition), int(wanted_broker)) == (partition, broker_id)
