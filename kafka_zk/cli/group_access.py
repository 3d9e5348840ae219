"""Groups in ZooKeeper as the command line shows and changes them; log ends come from the brokers registered there."""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka_zk.cli.errors import CommandFailed
from kafka_zk.cli.nearest import did_you_mean
from kafka_zk.cli.output import note
from kafka_zk.cli.zk import DEFAULT_ZOOKEEPER, zookeeper_client
from kafka_zk.client.errors import KafkaError
from kafka_zk.registry import groups as group_registry
from kafka_zk.registry.brokers import BrokerRegistry
from kafka_zk.registry.client import RegistryClient
from kafka_zk.registry.consumers import ConsumerRegistry
from kafka_zk.registry.kazoo_blocking import run_blocking
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.owners import OwnerRegistry
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.registry.znodes.consumers import NO_OFFSET, consumer_of
from kafka_zk.storage.types import TopicPartition

if TYPE_CHECKING:
    from kafka_zk.client.blocking_admin import BlockingAdmin

STORE = "zookeeper"
"""Where the offsets shown come from. The brokers keep none of their own yet."""

_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class PartitionOfGroup:
    """One line of a description; a member that owns nothing has one without a partition."""

    tp: TopicPartition | None
    offset: int | None
    log_end: int | None
    owner: str | None

    @property
    def lag(self) -> int | None:
        return None if self.offset is None or self.log_end is None else self.log_end - self.offset


@contextlib.contextmanager
def group_access(zookeeper: str | None, bootstrap: str | None = None) -> "Iterator[GroupAccess]":
    """Raises: CommandFailed, RegistryError."""
    with zookeeper_client(zookeeper or DEFAULT_ZOOKEEPER) as client:
        yield GroupAccess(client, bootstrap)


class GroupAccess:
    """All groups of one ZooKeeper; ``bootstrap`` None: the brokers that are registered there."""

    def __init__(self, client: RegistryClient, bootstrap: str | None) -> None:
        self._client = client
        self._bootstrap = bootstrap

    def groups(self) -> dict[str, int]:
        """All groups with their counts of live members."""
        return run_blocking(group_registry.groups(self._client))

    def check_there(self, group: str) -> None:
        """Raises: CommandFailed if there is no such group."""
        names = self.groups()
        if group not in names:
            raise CommandFailed(f"there is no group {group} in ZooKeeper{did_you_mean(group, names)}")

    def describe(self, group: str) -> list[PartitionOfGroup]:
        """All partitions of the topics that the group owns or has offsets of, then the members that own nothing.

        Raises: CommandFailed if there is no such group.
        """
        self.check_there(group)
        offsets = self.offsets(group)
        owners = run_blocking(OwnerRegistry(self._client, group).owners())
        partitions = sorted({*offsets, *owners, *self._partitions({tp.topic for tp in (*offsets, *owners)})})
        ends = self._log_ends(partitions)
        rows = [PartitionOfGroup(tp, offsets.get(tp), ends.get(tp), owners.get(tp)) for tp in partitions]
        busy = {consumer_of(owner) for owner in owners.values()}
        members = run_blocking(ConsumerRegistry(self._client, group).members())
        return rows + [PartitionOfGroup(None, None, None, member) for member in members if member not in busy]

    def offsets(self, group: str) -> dict[TopicPartition, int]:
        """What is stored for the group."""
        registry = OffsetRegistry(self._client, group)
        stored = run_blocking(registry.fetch(run_blocking(registry.partitions())))
        return {tp: each.offset for tp, each in stored.items() if each.offset != NO_OFFSET}

    def store(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Raises: GroupNotEmpty if the group has live members."""
        self.refuse_live(group)
        run_blocking(OffsetRegistry(self._client, group).store(offsets))

    def refuse_live(self, group: str) -> None:
        """Raises: GroupNotEmpty if the group has live members."""
        if self.groups().get(group):
            run_blocking(group_registry.check_empty(self._client, group))

    def delete(self, group: str) -> None:
        """Raises: CommandFailed if there is no such group; GroupNotEmpty."""
        self.check_there(group)
        run_blocking(group_registry.delete_group(self._client, group))

    def delete_topic(self, group: str, topic: str) -> None:
        """Raises: CommandFailed if there is no such group; GroupNotEmpty."""
        self.check_there(group)
        run_blocking(group_registry.delete_group_topic(self._client, group, topic))

    @contextlib.contextmanager
    def admin(self) -> "Iterator[BlockingAdmin]":
        """To ask the brokers. Raises: CommandFailed if none is registered."""
        from kafka_zk.cli.brokers import broker_admin

        servers = self._bootstrap or self._registered_brokers()
        if not servers:
            raise CommandFailed("no broker is registered in this ZooKeeper")
        options: dict[str, Any] = {"default_api_timeout_ms": _TIMEOUT_MS, "request_timeout_ms": _TIMEOUT_MS}
        with broker_admin(servers, **options) as admin:
            yield admin

    def _registered_brokers(self) -> str:
        live = run_blocking(BrokerRegistry(self._client).live())
        return ",".join(f"{info.host}:{info.port}" for info, _ in live.values() if info.host is not None)

    def _partitions(self, topics: Collection[str]) -> list[TopicPartition]:
        """All partitions of those of the topics that exist."""
        assignments = run_blocking(TopicRegistry(self._client).assignments(topics))
        return [TopicPartition(name, number) for name, each in assignments.items() for number in each.partitions]

    def _log_ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """The log end offsets that the brokers tell; a note says why some are missing."""
        from kafka_zk.client.list_offsets import LATEST

        existing = self._partitions({tp.topic for tp in partitions})
        if not existing:
            return {}
        try:
            with self.admin() as admin:
                listed = admin.list_offsets(dict.fromkeys(_with_leader(admin, existing), LATEST))
        except (CommandFailed, KafkaError) as error:
            note(f"Log end offsets are unknown: {error}")
            return {}
        return {tp: found.offset for tp, found in listed.items()}


def _with_leader(admin: "BlockingAdmin", partitions: list[TopicPartition]) -> list[TopicPartition]:
    """Those that have a leader; a note names the others. Their log ends could be waited for in vain."""
    described = admin.describe_topics({tp.topic for tp in partitions})
    led = [tp for tp in partitions if tp.partition in described[tp.topic].available]
    if leaderless := sorted(set(partitions) - set(led)):
        note(f"Log end offsets are unknown where there is no leader: {', '.join(map(str, leaderless))}")
    return led
