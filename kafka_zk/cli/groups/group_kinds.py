"""The two kinds of groups, and their operations for the command line."""

import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kafka_zk.base.types import TopicPartition

Offsets = Mapping[TopicPartition, int]


class GroupKind(enum.StrEnum):
    """What coordinates a group: a broker, or its members through ZooKeeper."""

    BROKER = "broker"
    ZOOKEEPER = "zookeeper"

    @property
    def place(self) -> str:
        return "in ZooKeeper" if self is GroupKind.ZOOKEEPER else "at the brokers"


@dataclass(frozen=True, slots=True)
class PartitionOfGroup:
    """One line of a description, also for a member without partitions.

    ``owner``: a member's id, in ZooKeeper groups followed by the number of its stream. Only brokers know hosts and
    client ids. ``capacity``: what the owner registers for the strategy ``weighted``, only in ZooKeeper groups.
    """

    tp: TopicPartition | None
    offset: int | None
    owner: str | None
    host: str | None = None
    client_id: str | None = None
    capacity: int | None = None
    log_end: int | None = None

    @property
    def lag(self) -> int | None:
        return None if self.offset is None or self.log_end is None else self.log_end - self.offset


class GroupOverview(NamedTuple):
    """``state``: Kafka's state for a group at a broker; Live, Empty or Hidden for a group in ZooKeeper. Hidden means
    that an ACL hides the members; their count is then None.
    """

    state: str
    member_count: int | None


class Groups(Protocol):
    """All groups of one kind. Every method may raise CommandFailed, RegistryError and KafkaError."""

    kind: GroupKind

    def names(self) -> Collection[str]: ...

    def overviews(self) -> dict[str, GroupOverview]: ...

    def describe(self, groups: Sequence[str]) -> dict[str, list[PartitionOfGroup]]:
        """Describe partitions, without their log end offsets, then members without partitions."""
        ...

    def offsets(self, group: str) -> dict[TopicPartition, int]: ...

    def refuse_live(self, group: str) -> None:
        """Raises if the group exists and has live members."""
        ...

    def store(self, group: str, offsets: Offsets) -> None:
        """The group need not exist. Raises if it has live members."""
        ...

    def delete(self, group: str) -> None:
        """Raises if it has live members."""
        ...

    def delete_offsets(self, group: str, tps: Collection[TopicPartition]) -> None:
        """Raises if live members may use them."""
        ...
