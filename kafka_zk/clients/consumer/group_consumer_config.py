"""The common configuration of the consumers of both kinds of groups.

Pure.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kafka_zk.clients.connection.config import CheckedConfig, option
from kafka_zk.clients.connection.errors import ConfigError
from kafka_zk.clients.consumer.config import ReaderConfig
from kafka_zk.clients.serdes import Deserializer, serde_named


@dataclass(frozen=True, kw_only=True)
class GroupConsumerConfig(CheckedConfig, ABC):
    """Keys of both kinds of consumers, and common names for keys that differ."""

    group_id: str = ""
    group_instance_id: str | None = None
    session_timeout_ms: int = option(45_000, 1)
    partition_assignment_strategy: str | tuple[str, ...] = "range"
    auto_commit_interval_ms: int = option(5_000, 1)
    exclude_internal_topics: bool = option(True)
    consumer_timeout_ms: int = option(-1, -1)
    key_deserializer: str | Deserializer | None = None
    value_deserializer: str | Deserializer | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("key_deserializer", "value_deserializer"):
            given = getattr(self, name)
            if isinstance(given, str):
                found = None if given == "bytes" else serde_named(name.replace("_", "."), given).deserializer
                object.__setattr__(self, name, found)

    @property
    @abstractmethod
    def reader(self) -> ReaderConfig:
        """The fetcher's configuration."""

    @property
    @abstractmethod
    def ahead_bytes(self) -> int:
        """Bytes of a partition that are fetched ahead."""

    @property
    @abstractmethod
    def backoff_ms(self) -> int:
        """How long a rebalance waits for the application to finish its records of revoked partitions."""

    @property
    @abstractmethod
    def auto_commit_enable(self) -> bool:
        """True if processed records are committed automatically."""

    @property
    @abstractmethod
    def commits_starts(self) -> bool:
        """True if a start chosen by ``auto.offset.reset`` is committed immediately."""

    @property
    def deserializers(self) -> tuple[Deserializer | None, Deserializer | None]:
        """The deserializers of keys and of values; None: raw bytes."""
        key, value = self.key_deserializer, self.value_deserializer
        assert not isinstance(key, str) and not isinstance(value, str), "names were looked up when this was made"
        return key, value


def parse_strategies(
    given: str | tuple[str, ...], known: Collection[str], aliases: Mapping[str, str], prefix: str = ""
) -> tuple[str, ...]:
    """The strategies in ``partition.assignment.strategy``, without duplicates. Raises ConfigError for unknown ones."""
    names = [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given)
    wanted = [aliases.get(name.removeprefix(prefix), name) for name in names]
    for name in wanted:
        if name not in known:
            raise ConfigError(f"partition.assignment.strategy: {name!r} is not one of {', '.join(known)}")
    return tuple(dict.fromkeys(wanted))
