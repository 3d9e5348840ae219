"""The two kinds of groups, and what the command line asks of each."""

import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kafka_zk.base.types import TopicPartition

Offsets = Mapping[TopicPartition, int]


class GroupKind(enum.StrEnum):
    """Who coordinates a group: a broker, or the members among themselves, through ZooKeeper."""

    BROKER = "broker"
    ZOOKEEPER = "zookeeper"

    @property
    def place(self) -> str:
        """Where its groups are, in a sentence."""
        return "in ZooKeeper" if self is GroupKind.ZOOKEEPER else "at the brokers"


@dataclass(frozen=True, slots=True)
class PartitionOfGroup:
    """One line of a description; a member that owns nothing has one without a partition.

    ``owner`` is a member's id, in ZooKeeper with the number of its stream; only brokers know hosts and client ids.
    """

    tp: TopicPartition | None
    offset: int | None
    owner: str | None
    host: str | None = None
    client_id: str | None = None
    log_end: int | None = None

    @property
    def lag(self) -> int | None:
        return None if self.offset is None or self.log_end is None else self.log_end - self.offset


class GroupOverview(NamedTuple):
    """``state``: Live, Empty or Hidden (by an ACL, which hides the count, too) in ZooKeeper, Kafka's own word at a
    broker."""

    state: str
    member_count: int | None


class Groups(Protocol):
    """All groups of one kind. Every method may raise CommandFailed, RegistryError and KafkaError."""

    kind: GroupKind

    def names(self) -> Collection[str]: ...

    def overviews(self) -> dict[str, GroupOverview]: ...

    def describe(self, groups: Sequence[str]) -> dict[str, list[PartitionOfGroup]]:
        """Without the ends of logs: partitions, then the members that own none."""
        ...

    def offsets(self, group: str) -> dict[TopicPartition, int]: ...

    def refuse_live(self, group: str) -> None:
        """Raises if the group has live members; what does not exist has none."""
        ...

    def store(self, group: str, offsets: Offsets) -> None:
        """Raises if the group has live members; the group need not exist."""
        ...

    def delete(self, group: str) -> None:
        """Raises if the group has live members."""
        ...

    def delete_offsets(self, group: str, tps: Collection[TopicPartition]) -> None:
        """Raises if live members may use them."""
        ...
