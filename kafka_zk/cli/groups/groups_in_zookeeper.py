"""The groups of one ZooKeeper."""

from collections.abc import Collection, Mapping, Sequence

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.groups.group_kinds import GroupKind, GroupOverview, Offsets, PartitionOfGroup
from kafka_zk.cli.terminal.command_config import command_security
from kafka_zk.clients.connection.config import format_bootstrap_servers
from kafka_zk.registry import group_topics
from kafka_zk.registry import groups as group_registry
from kafka_zk.registry.brokers import BrokerRegistry
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.registry.consumers import ConsumerRegistry
from kafka_zk.registry.offsets import OffsetRegistry, StoredOffset
from kafka_zk.registry.owners import OwnerRegistry
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.registry.znodes.consumers import NO_OFFSET, consumer_of


def registered_brokers(client: RegistryClient) -> str:
    """The bootstrap servers; empty without live brokers. Raises RegistryError."""
    live = run_blocking(BrokerRegistry(client).live())
    protocol = command_security().protocol
    addresses = [info.address(protocol) for info, _ in live.values()]
    return format_bootstrap_servers(address for address in addresses if address is not None)


def _state(member_count: int | None) -> str:
    if member_count is None:
        return "Hidden"  # an ACL forbids it
    return "Live" if member_count else "Empty"


class GroupsInZookeeper:
    kind = GroupKind.ZOOKEEPER

    def __init__(self, client: RegistryClient) -> None:
        self._client = client

    def names(self) -> Collection[str]:
        return run_blocking(group_registry.groups(self._client))

    def overviews(self) -> dict[str, GroupOverview]:
        counts = run_blocking(group_registry.groups(self._client))
        return {name: GroupOverview(_state(count), count) for name, count in counts.items()}

    def describe(self, groups: Sequence[str]) -> dict[str, list[PartitionOfGroup]]:
        """Describe all partitions of topics that a group owns or has offsets for."""
        return {group: self._describe(group) for group in groups}

    def _describe(self, group: str) -> list[PartitionOfGroup]:
        offsets = self.offsets(group)
        owners = run_blocking(OwnerRegistry(self._client, group).owners())
        tps = sorted({*offsets, *owners, *self._partitions({tp.topic for tp in (*offsets, *owners)})})
        members = run_blocking(ConsumerRegistry(self._client, group).members())
        capacities = {name: member.registration.capacity for name, member in members.items()}
        owning = {tp: consumer_of(owner) for tp, owner in owners.items()}
        rows = [
            PartitionOfGroup(tp, offsets.get(tp), owners.get(tp), capacity=capacities.get(owning.get(tp, "")))
            for tp in tps
        ]
        idle = sorted(members.keys() - set(owning.values()))
        return rows + [PartitionOfGroup(None, None, name, capacity=capacities[name]) for name in idle]

    def offsets(self, group: str) -> dict[TopicPartition, int]:
        return {tp: each.offset for tp, each in self.stored(group).items() if each.offset != NO_OFFSET}

    def stored(self, group: str) -> dict[TopicPartition, StoredOffset]:
        """The offset znodes with their versions, including those without an offset."""
        registry = OffsetRegistry(self._client, group)
        return run_blocking(registry.fetch(run_blocking(registry.partitions())))

    def refuse_live(self, group: str) -> None:
        if run_blocking(group_registry.groups(self._client)).get(group, 0) != 0:
            run_blocking(group_registry.check_empty(self._client, group))

    def store(self, group: str, offsets: Offsets) -> None:
        self.refuse_live(group)
        run_blocking(OffsetRegistry(self._client, group).store(offsets))

    def store_unchanged(self, group: str, writes: Mapping[TopicPartition, StoredOffset]) -> list[TopicPartition]:
        """Raises GroupNotEmpty."""
        self.refuse_live(group)
        return run_blocking(OffsetRegistry(self._client, group).store_unchanged(writes))

    def outdated(self, group: str, tps: Collection[TopicPartition]) -> set[TopicPartition]:
        """Those of ``tps`` whose offsets belong to an earlier topic of the same name."""
        return run_blocking(group_topics.outdated(self._client, group, tps))

    def delete(self, group: str) -> None:
        run_blocking(group_registry.delete_group(self._client, group))

    def delete_offsets(self, group: str, tps: Collection[TopicPartition]) -> None:
        """Deleting the last offset of a topic also deletes the rest of the topic's state."""
        stored = self.offsets(group)
        for topic in sorted({tp.topic for tp in tps}):
            part = [tp for tp in tps if tp.topic == topic]
            if {tp for tp in stored if tp.topic == topic} <= set(part):
                run_blocking(group_registry.delete_group_topic(self._client, group, topic))
            else:
                run_blocking(group_registry.delete_group_offsets(self._client, group, part))

    def _partitions(self, topics: Collection[str]) -> list[TopicPartition]:
        assignments = run_blocking(TopicRegistry(self._client).assignments(topics))
        return [TopicPartition(name, number) for name, each in assignments.items() for number in each.partitions]
