"""The broker-coordinated groups of one cluster."""

from collections.abc import Collection, Sequence

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.groups.group_brokers import GroupBrokers
from kafka_zk.cli.groups.group_kinds import GroupKind, GroupOverview, Offsets, PartitionOfGroup
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.output import note
from kafka_zk.clients.admin.group_admin import DEAD, EMPTY, STABLE, CommittedOffset, GroupDescription, MemberDescription
from kafka_zk.protocol.errors import ErrorCode


class GroupsOfBrokers:
    kind = GroupKind.BROKER

    def __init__(self, brokers: GroupBrokers) -> None:
        self._brokers = brokers

    def names(self) -> Collection[str]:
        with self._brokers.asked() as admin:
            return admin.groups.list_groups()

    def overviews(self) -> dict[str, GroupOverview]:
        with self._brokers.asked() as admin:
            described = admin.groups.describe_groups(admin.groups.list_groups())
        return {name: GroupOverview(each.state, len(each.members)) for name, each in described.items()}

    def describe(self, groups: Sequence[str]) -> dict[str, list[PartitionOfGroup]]:
        """The partitions that are assigned or have committed offsets."""
        with self._brokers.asked() as admin:
            described = admin.groups.describe_groups(groups)
            offsets = admin.groups.committed_by(groups)
        for group, each in described.items():
            if each.members and each.state != STABLE:
                note(f"Group {group} is rebalancing ({each.state}): its members have no partitions now.")
        return {group: _rows(described[group], {tp: o.offset for tp, o in offsets[group].items()}) for group in groups}

    def offsets(self, group: str) -> dict[TopicPartition, int]:
        with self._brokers.asked() as admin:
            return {tp: each.offset for tp, each in admin.groups.committed(group).items()}

    def refuse_live(self, group: str) -> None:
        """Raises CommandFailed unless the group is Empty or Dead: Kafka's rule for changing offsets."""
        with self._brokers.asked() as admin:
            if group not in admin.groups.list_groups():
                return
            described = admin.groups.describe_groups([group])[group]
        if described.state not in (EMPTY, DEAD):
            names = ", ".join(member.member_id for member in described.members)
            raise CommandFailed(
                f"{ErrorCode.NON_EMPTY_GROUP.name}: the broker group {group} has {len(described.members)} live members "
                f"({names}); stop them first"
            )

    def store(self, group: str, offsets: Offsets) -> None:
        self.refuse_live(group)
        with self._brokers.asked() as admin:
            admin.groups.commit(group, {tp: CommittedOffset(offset) for tp, offset in offsets.items()})

    def delete(self, group: str) -> None:
        self.refuse_live(group)
        with self._brokers.asked() as admin:
            admin.groups.delete_groups([group])

    def delete_offsets(self, group: str, tps: Collection[TopicPartition]) -> None:
        with self._brokers.asked() as admin:
            admin.groups.delete_offsets(group, tps)


def _rows(described: GroupDescription, offsets: Offsets) -> list[PartitionOfGroup]:
    owners = {tp: member for member in described.members for tp in member.partitions}
    rows = [_row(tp, offsets.get(tp), owners.get(tp)) for tp in sorted({*offsets, *owners})]
    idle = sorted((member for member in described.members if not member.partitions), key=lambda each: each.member_id)
    return rows + [_row(None, None, member) for member in idle]


def _row(tp: TopicPartition | None, offset: int | None, member: MemberDescription | None) -> PartitionOfGroup:
    if member is None:
        return PartitionOfGroup(tp, offset, None)
    host = member.host.removeprefix("/")  # Java writes a host name, which is empty here, before the slash
    return PartitionOfGroup(tp, offset, member.member_id, host, member.client_id)
