"""Configuration of a consumer that coordinates through ZooKeeper.

Pure. Additional keys: ``group.instance.id`` with ``session.timeout.ms`` (static membership, as in Kafka 2.3),
``max.poll.records``, ``check.crcs``, ``isolation.level``, the deserializers, three additional strategies, and
``consumer.capacity`` for one of them.

Source: ConsumerConfig.scala@0.10.2.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from kafka_zk.clients.connection.config import ClientConfig, boolean, option, with_security
from kafka_zk.clients.connection.errors import ConfigError
from kafka_zk.clients.consumer.config import ISOLATION_LEVELS, ReaderConfig
from kafka_zk.clients.consumer.group_consumer_config import GroupConsumerConfig, parse_strategies
from kafka_zk.rebalance.config import DEFAULT_RETRIES, GroupConfig
from kafka_zk.rebalance.group_strategy import STRATEGIES, WEIGHTED, keeps_places
from kafka_zk.registry.client import connect_string
from kafka_zk.registry.client.errors import InvalidConnectString, InvalidSecurity
from kafka_zk.registry.client.security import NO_SECURITY, Security
from kafka_zk.registry.client.security_keys import KEYS as SECURITY_KEYS
from kafka_zk.registry.client.security_keys import zookeeper_security
from kafka_zk.registry.znodes.consumers import CAPACITIES, group_id_fault
from kafka_zk.security.client_security import NO_SECURITY as NO_CLIENT_SECURITY
from kafka_zk.security.client_security import ClientSecurity

_RESETS = {
    "smallest": "earliest",
    "earliest": "earliest",
    "largest": "latest",
    "latest": "latest",
    "error": "none",
    "none": "none",
}
_ALIASES = {"cooperative": "cooperative-sticky"}
_WITHOUT_MEANING_HERE = frozenset(
    {
        "num_consumer_fetchers",  # each broker has one request in flight anyway
        "socket_receive_buffer_bytes",  # the operating system adapts the buffer's size
    }
)
"""These keys have no effect here, but configuration files of Kafka's old consumer may contain them."""
_SECURITY_NAMES = {key: key.replace(".", "_") for key in SECURITY_KEYS}


@dataclass(frozen=True, kw_only=True)
class ZookeeperConsumerConfig(GroupConsumerConfig):
    """Kafka's keys with ``_`` for ``.``; sizes in bytes, times in milliseconds.

    ``partition_assignment_strategy``: the member's strategies, the preferred one first: ``range``, ``roundrobin``,
    ``sticky``, ``cooperative`` and ``weighted``, comma-separated or as a sequence. If a member (such as Kafka's old
    consumer) announces no strategies, the group runs ``range``, or ``roundrobin`` if the others list only that.
    ``consumer_capacity``: how much this member can process, compared with the others. ``weighted`` assigns partitions
    in proportion to this number; None counts as the number of streams.
    ``group_instance_id``: makes a static member. When its registration is gone, its partitions are reserved, and not
    read, for ``session_timeout_ms``. The registration is gone immediately when the member leaves, and
    ``zookeeper_session_timeout_ms`` after it dies. The timeout does not run while ZooKeeper is unavailable. Only
    ``sticky``, ``cooperative`` and ``weighted`` reserve partitions; the member logs a warning if its group falls back
    to another strategy.
    ``offsets_storage``: ``zookeeper``, or ``kafka`` for the group's coordinator. With ``kafka``,
    ``dual_commit_enabled`` (default) also writes offsets to ZooKeeper and starts at the larger one.
    ``key_deserializer``, ``value_deserializer``: a name of ``clients.serdes.SERDES``, an object with ``deserialize``,
    or None for raw bytes.
    """

    zookeeper_connect: str = "127.0.0.1:2181"
    zookeeper_session_timeout_ms: int = option(6_000, 1)
    zookeeper_connection_timeout_ms: int | None = option(None, 1)
    zookeeper_sync_time_ms: int = option(2_000, 0)
    consumer_id: str | None = None
    consumer_capacity: int | None = option(None, CAPACITIES[0], CAPACITIES[-1])
    client_id: str | None = None
    rebalance_max_retries: int = option(DEFAULT_RETRIES, 0)
    rebalance_backoff_ms: int | None = option(None, 0)
    auto_commit_enable: bool = option(True)
    auto_commit_interval_ms: int = option(60_000, 1)
    auto_offset_reset: str = option("largest", choices=tuple(_RESETS))
    offsets_storage: str = option("zookeeper", choices=("zookeeper", "kafka"))
    dual_commit_enabled: str | bool | None = None
    offsets_channel_backoff_ms: int = option(1_000, 0)
    offsets_channel_socket_timeout_ms: int = option(10_000, 1)
    offsets_commit_max_retries: int = option(5, 0)
    fetch_message_max_bytes: int = option(1_048_576, 1)
    fetch_max_bytes: int = option(52_428_800, 1)
    fetch_min_bytes: int = option(1, 0)
    fetch_wait_max_ms: int = option(100, 0)
    queued_max_message_chunks: int = option(2, 1)
    isolation_level: str = option("read_uncommitted", choices=ISOLATION_LEVELS)
    max_poll_records: int = option(500, 1)
    check_crcs: bool = option(True)
    socket_timeout_ms: int = option(30_000, 1)
    refresh_leader_backoff_ms: int = option(200, 0)
    zookeeper_security: Security = NO_SECURITY
    security: ClientSecurity = NO_CLIENT_SECURITY

    def __post_init__(self) -> None:
        super().__post_init__()
        if (fault := group_id_fault(self.group_id)) is not None:
            raise ConfigError(f"group.id: {fault}")
        for key, name in (("consumer.id", self.consumer_id), ("group.instance.id", self.group_instance_id)):
            if name is not None and (not name or "/" in name):
                raise ConfigError(
                    f"{key}: {name!r} becomes part of a znode's name, so it must not be empty or contain '/'"
                )
        if self.consumer_id is not None and self.group_instance_id is not None:
            raise ConfigError("group.instance.id: it already names the member; remove consumer.id")
        try:
            connect_string.parse(self.zookeeper_connect)
        except InvalidConnectString as error:
            raise ConfigError(f"zookeeper.connect: {error}") from error
        object.__setattr__(self, "dual_commit_enabled", self._dual_commit())
        if self.fetch_wait_max_ms >= self.socket_timeout_ms:
            raise ConfigError("socket.timeout.ms must be above fetch.wait.max.ms")
        strategies = parse_strategies(self.partition_assignment_strategy, (*STRATEGIES, *_ALIASES), _ALIASES)
        object.__setattr__(self, "partition_assignment_strategy", strategies)
        if self.group_instance_id is not None and not keeps_places(self.strategies):
            raise ConfigError(
                f"group.instance.id has no effect under {' and '.join(self.strategies)} alone: list sticky,"
                " cooperative or weighted in partition.assignment.strategy, too"
            )
        if self.consumer_capacity is not None and WEIGHTED.name not in self.strategies:
            raise ConfigError(
                f"consumer.capacity has no effect under {' and '.join(self.strategies)} alone: list {WEIGHTED.name} in"
                " partition.assignment.strategy, too"
            )

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> Self:
        """Keys in either spelling, with those for secure connections to ZooKeeper and brokers.

        Raises: ConfigError for an unknown key.
        """
        given = {key.replace(".", "_"): value for key, value in properties.items()}
        secured = {key: given.pop(name) for key, name in _SECURITY_NAMES.items() if name in given}
        if secured:
            try:
                given["zookeeper_security"] = zookeeper_security({key: str(value) for key, value in secured.items()})
            except InvalidSecurity as error:
                raise ConfigError(str(error)) from None
        return super().from_properties(
            with_security({name: value for name, value in given.items() if name not in _WITHOUT_MEANING_HERE})
        )

    def _dual_commit(self) -> bool:
        in_kafka = self.offsets_storage == "kafka"
        if self.dual_commit_enabled is None:
            return in_kafka
        is_dual = boolean("dual.commit.enabled", self.dual_commit_enabled)
        if is_dual and not in_kafka:
            raise ConfigError("dual.commit.enabled has an effect only with offsets.storage=kafka")
        return is_dual

    @property
    def strategies(self) -> tuple[str, ...]:
        """The strategies that this member registers, by their names in ZooKeeper, the preferred one first."""
        return tuple(self.partition_assignment_strategy)

    @property
    def backoff_ms(self) -> int:
        """``rebalance.backoff.ms``, by default ``zookeeper.sync.time.ms``."""
        return self.zookeeper_sync_time_ms if self.rebalance_backoff_ms is None else self.rebalance_backoff_ms

    @property
    def ahead_bytes(self) -> int:
        """Maximum bytes fetched ahead: ``queued.max.message.chunks`` - 1 chunks (at least one), as one chunk is in
        use."""
        return max(1, self.queued_max_message_chunks - 1) * self.fetch_message_max_bytes

    @property
    def commits_starts(self) -> bool:
        """Always True, as in Kafka's old consumer: without a commit, the next owner might start elsewhere."""
        return True

    @property
    def group(self) -> GroupConfig:
        return GroupConfig(self.backoff_ms, self.rebalance_max_retries, self.exclude_internal_topics)

    @property
    def offsets_channel(self) -> ClientConfig:
        """The configuration of the client that fetches offsets from the group's coordinator."""
        return ClientConfig(
            client_id=self.client_id or self.group_id,
            request_timeout_ms=self.offsets_channel_socket_timeout_ms,
            retry_backoff_ms=self.offsets_channel_backoff_ms,
            security=self.security,
        )

    @property
    def reader(self) -> ReaderConfig:
        """The settings of the fetcher, under the names of Kafka's new consumer."""
        return ReaderConfig(
            client_id=self.client_id or self.group_id,
            auto_offset_reset=_RESETS[self.auto_offset_reset],
            check_crcs=self.check_crcs,
            fetch_max_bytes=self.fetch_max_bytes,
            fetch_max_wait_ms=self.fetch_wait_max_ms,
            fetch_min_bytes=self.fetch_min_bytes,
            isolation_level=self.isolation_level,
            max_partition_fetch_bytes=self.fetch_message_max_bytes,
            max_poll_records=self.max_poll_records,
            request_timeout_ms=self.socket_timeout_ms,
            retry_backoff_ms=self.refresh_leader_backoff_ms,
            security=self.security,
        )
