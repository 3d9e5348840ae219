"""Administration for threads: ``Admin`` run in the process's reactor thread."""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.admin import BROKER_DEFAULT, Admin, ConfigEntry, CreatedTopic, NewTopic, Reassignment
from kafka_zk.clients.admin.blocking_group_admin import BlockingGroupAdmin
from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.clients.connection.errors import BrokerError
from kafka_zk.clients.connection.list_offsets import ListedOffset
from kafka_zk.clients.connection.metadata import ClusterMetadata, TopicMetadata
from kafka_zk.clients.connection.reactor_thread import reactor_thread


class BlockingAdmin:
    """Methods promise and raise what ``Admin``'s do; a context manager.

    Raises: ConfigError naming the key and what is allowed; KafkaError in the thread that the reactor runs in.
    """

    def __init__(self, config: ClientConfig | None = None, **options: Any) -> None:
        self._thread = reactor_thread()
        self._admin = Admin(self._thread.reactor, config, **options)
        self.config = self._admin.config
        self.groups = BlockingGroupAdmin(self._thread, self._admin.groups)

    def list_topics(self) -> list[str]:
        """The names of all topics, sorted."""
        return self._thread.call(self._admin.list_topics)

    def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, TopicMetadata]:
        """Partitions, leaders, replicas and ISR of these topics (None: all)."""
        return self._thread.call(self._admin.describe_topics, names)

    def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> list[CreatedTopic]:
        """Create topics."""

        async def create() -> list[CreatedTopic]:
            return await self._admin.create_topics(topics, validate_only=validate_only)

        return self._thread.call(create)

    def create_topic(
        self,
        name: str,
        partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
    ) -> CreatedTopic:
        """Create one topic."""
        return self._thread.call(self._admin.create_topic, name, partitions, replication_factor, configs)

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics."""
        self._thread.call(self._admin.delete_topics, names)

    def create_partitions(self, name: str, total_count: int) -> None:
        """Let a topic have ``total_count`` partitions from now on."""
        self._thread.call(self._admin.create_partitions, name, total_count)

    def elect_leaders(
        self, tps: Sequence[TopicPartition] | None, *, unclean: bool = False
    ) -> dict[TopicPartition, BrokerError | None]:
        """Have preferred leaders elected, or (``unclean``) any live ones where the whole ISR is gone."""

        async def elect() -> dict[TopicPartition, BrokerError | None]:
            return await self._admin.elect_leaders(tps, unclean=unclean)

        return self._thread.call(elect)

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, BrokerError | None]:
        """Move partitions to other replicas, or take a move back (None as target)."""
        return self._thread.call(self._admin.alter_reassignments, targets)

    def list_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """The partitions that are being moved."""
        return self._thread.call(self._admin.list_reassignments)

    def describe_topic_configs(self, names: Sequence[str]) -> dict[str, list[ConfigEntry]]:
        """All configuration values of topics."""
        return self._thread.call(self._admin.describe_topic_configs, names)

    def describe_broker_configs(self, broker_id: int) -> list[ConfigEntry]:
        """All configuration values of a broker."""
        return self._thread.call(self._admin.describe_broker_configs, broker_id)

    def alter_topic_config(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Set some keys of a topic, those with None back to their default."""
        self._thread.call(self._admin.alter_topic_config, name, changes)

    def alter_broker_config(self, broker_id: int, changes: Mapping[str, str | None]) -> None:
        """Set some keys of a broker, those with None back to their default."""
        self._thread.call(self._admin.alter_broker_config, broker_id, changes)

    def log_sizes(self, broker_id: int, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The bytes of a broker's replicas; those that it does not have are missing."""
        return self._thread.call(self._admin.log_sizes, broker_id, tps)

    def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        """One offset per partition: EARLIEST, LATEST, MAX_TIMESTAMP, or the first at or after a time (ms)."""
        return self._thread.call(self._admin.list_offsets, wanted)

    def describe_cluster(self) -> ClusterMetadata:
        """The cluster's id, controller and live brokers, now (and its topics)."""
        return self._thread.call(self._admin.describe_cluster)

    def close(self) -> None:
        """Close all connections."""
        self._thread.call(self._admin.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
