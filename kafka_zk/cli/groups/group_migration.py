"""Copy a group's committed offsets between ZooKeeper and the brokers, without decreasing any offset.

The source side keeps its offsets.
"""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.groups.group_brokers import GroupBrokers, existing
from kafka_zk.cli.groups.group_kinds import GroupKind, Groups, Offsets
from kafka_zk.cli.groups.group_reset import parse_topics
from kafka_zk.cli.groups.groups_in_zookeeper import GroupsInZookeeper, registered_brokers
from kafka_zk.cli.groups.groups_of_brokers import GroupsOfBrokers
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.nearest import did_you_mean
from kafka_zk.cli.terminal.zookeeper_client import DEFAULT_ZOOKEEPER, zookeeper_client
from kafka_zk.registry.offsets import NO_VERSION, StoredOffset

COPIED = "copied"
TO_COPY = "would be copied"
KEPT = "kept"

EQUAL = "equal"
GOES_BACK = "would go back"
NOTHING_THERE = "nothing to copy"
NO_PARTITION = "no such partition"
EARLIER_TOPIC = "of a deleted topic"
CHANGED = "changed meanwhile"


class Row(NamedTuple):
    """``source``, ``target``: the committed offsets on both sides before the copy; None if there is none. ``result``:
    COPIED, TO_COPY or KEPT. ``reason``: why the target keeps its offset; None if it does not."""

    tp: TopicPartition
    source: int | None
    target: int | None
    result: str
    reason: str | None


def plan(source: Offsets, target: Offsets, unusable: Mapping[TopicPartition, str], wanted: Collection[TopicPartition],
         *, copied: str) -> list[Row]:  # fmt: skip
    """A row for each wanted partition, sorted.

    Args:
        unusable: partitions whose offset must not be copied, with the reason.
        copied: the result of partitions to copy.
    """
    rows = []
    for tp in sorted(wanted):
        reason = _why_kept(source.get(tp), target.get(tp), unusable.get(tp))
        rows.append(Row(tp, source.get(tp), target.get(tp), copied if reason is None else KEPT, reason))
    return rows


def _why_kept(source: int | None, target: int | None, unusable: str | None) -> str | None:
    if source is None:
        return NOTHING_THERE
    if unusable is not None:
        return unusable
    if target is None or target < source:
        return None
    return EQUAL if target == source else GOES_BACK


@contextlib.contextmanager
def migration(zookeeper: str | None, bootstrap: str | None) -> "Iterator[Migration]":
    """``bootstrap``: if None, the brokers that are registered in ZooKeeper. Raises CommandFailed, RegistryError."""
    with (
        zookeeper_client(zookeeper or DEFAULT_ZOOKEEPER) as client,
        GroupBrokers(bootstrap or registered_brokers(client)) as brokers,
    ):
        yield Migration(GroupsInZookeeper(client), GroupsOfBrokers(brokers), brokers)


class Migration:
    """Every method may raise CommandFailed, RegistryError and KafkaError."""

    def __init__(self, zookeeper: GroupsInZookeeper, brokers: GroupsOfBrokers, asked: GroupBrokers) -> None:
        self._zookeeper = zookeeper
        self._brokers = brokers
        self._asked = asked

    def migrate(self, group: str, topics: Collection[str], to: GroupKind, *, dry_run: bool) -> list[Row]:
        """Args: ``topics``: ``topic`` or ``topic:0,1``; empty for all.
        Raises: CommandFailed if the group does not exist on the source side; GroupNotEmpty if it has live members on
        either.
        """
        sides: dict[GroupKind, Groups] = {
            GroupKind.ZOOKEEPER: self._zookeeper,
            GroupKind.BROKER: self._brokers,
        }
        target = sides.pop(to)
        (source,) = sides.values()
        if group not in (names := source.names()):
            raise CommandFailed(f"there is no group {group} {source.kind.place}{did_you_mean(group, names)}")
        source.refuse_live(group)
        target.refuse_live(group)
        offsets = source.offsets(group)
        present = target.offsets(group) if group in target.names() else {}
        wanted = _wanted(group, source.kind, topics, offsets, present)
        rows = plan(offsets, present, self._unusable(group, source.kind, offsets), wanted,
                    copied=TO_COPY if dry_run else COPIED)  # fmt: skip
        moves = {row.tp: row.source for row in rows if row.result == COPIED and row.source is not None}
        if not moves:
            return rows
        refused = self._write(group, to, moves)
        return [row._replace(result=KEPT, reason=CHANGED) if row.tp in refused else row for row in rows]

    def _unusable(self, group: str, source: GroupKind, offsets: Offsets) -> dict[TopicPartition, str]:
        with self._asked.asked() as admin:
            there = set(existing(admin, sorted(offsets)))
        unusable = {tp: NO_PARTITION for tp in offsets if tp not in there}
        if source is GroupKind.ZOOKEEPER:
            unusable |= dict.fromkeys(self._zookeeper.outdated(group, there), EARLIER_TOPIC)
        return unusable

    def _write(self, group: str, to: GroupKind, moves: Offsets) -> Collection[TopicPartition]:
        """Return the partitions that another client has written since ``moves`` was planned. Empty for brokers, which
        refuse to store offsets while the group has members.
        """
        if to is GroupKind.BROKER:
            self._brokers.store(group, moves)
            return ()
        before = self._zookeeper.stored(group)
        writes = {
            tp: StoredOffset(offset, before[tp].version if tp in before else NO_VERSION)
            for tp, offset in moves.items()
            if tp not in before or before[tp].offset < offset
        }
        return {*self._zookeeper.store_unchanged(group, writes), *(moves.keys() - writes.keys())}


def _wanted(
    group: str, source: GroupKind, topics: Collection[str], offsets: Offsets, present: Offsets
) -> list[TopicPartition]:
    known: dict[str, set[int]] = {}
    for tp in (*offsets, *present):
        known.setdefault(tp.topic, set()).add(tp.partition)
    if not topics:
        return [*{*offsets, *present}]
    return parse_topics(topics, known, lacking=f"group {group} has no such offsets {source.place}")
