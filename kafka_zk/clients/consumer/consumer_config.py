"""Configuration of a consumer in a broker-coordinated group.

Pure. Unlike in Java, ``key.deserializer`` and ``value.deserializer`` may be names of ``clients.serdes.SERDES``, and
there is ``consumer.timeout.ms``, as in Kafka's old consumer and kafka-python.
Source: ConsumerConfig.java@3.9.
"""

from dataclasses import dataclass

from kafka_zk.clients.connection.config import option
from kafka_zk.clients.connection.errors import ConfigError
from kafka_zk.clients.consumer.assignors import ASSIGNORS
from kafka_zk.clients.consumer.classic_member import MemberConfig
from kafka_zk.clients.consumer.config import ReaderConfig
from kafka_zk.clients.consumer.group_consumer_config import GroupConsumerConfig, parse_strategies

_JAVA_PACKAGE = "org.apache.kafka.clients.consumer."
_ALIASES = {
    "cooperative": "cooperative-sticky",
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(ReaderConfig, GroupConsumerConfig):
    """Kafka's keys with ``_`` for ``.``; sizes in bytes, times in milliseconds.

    ``partition_assignment_strategy``: the member's strategies, the preferred one first: ``range``, ``roundrobin`` and
    ``cooperative-sticky`` (or Java's class names), comma-separated or as a sequence. All members of a group need a
    common strategy.
    ``consumer_timeout_ms``: iterators end after this time without a record; -1: never.
    ``key_deserializer``, ``value_deserializer``: a name of ``clients.serdes.SERDES``, an object with ``deserialize``,
    or None for raw bytes.
    """

    client_id: str = ""
    heartbeat_interval_ms: int = option(3_000, 1)
    max_poll_interval_ms: int = option(300_000, 1)
    enable_auto_commit: bool = option(True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.group_id:
            raise ConfigError("group.id is required to subscribe")
        if self.group_instance_id is not None and not self.group_instance_id:
            raise ConfigError("group.instance.id must not be empty")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError("heartbeat.interval.ms must be below session.timeout.ms")
        if not self.client_id:
            object.__setattr__(self, "client_id", f"consumer-{self.group_id}")
        assignors = parse_strategies(self.partition_assignment_strategy, ASSIGNORS, _ALIASES, _JAVA_PACKAGE)
        object.__setattr__(self, "partition_assignment_strategy", assignors)

    @property
    def member(self) -> MemberConfig:
        return MemberConfig(
            tuple(self.partition_assignment_strategy),
            self.group_instance_id,
            self.session_timeout_ms,
            self.max_poll_interval_ms,
            self.heartbeat_interval_ms,
            self.retry_backoff_ms,
        )

    @property
    def reader(self) -> ReaderConfig:
        return self

    @property
    def ahead_bytes(self) -> int:
        return self.max_partition_fetch_bytes

    @property
    def backoff_ms(self) -> int:
        """``max.poll.interval.ms``: a rebalance waits for the application as long as the coordinator waits for this
        member to rejoin."""
        return self.max_poll_interval_ms

    @property
    def auto_commit_enable(self) -> bool:
        return self.enable_auto_commit

    @property
    def commits_starts(self) -> bool:
        return self.enable_auto_commit
