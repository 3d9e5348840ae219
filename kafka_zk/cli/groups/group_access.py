"""Groups as the command line shows and changes them: two kinds, one interface.

Groups of different kinds are independent even if they have the same name. A command that changes a group must know the
kind; a command that shows groups shows both.
"""

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import click

from kafka_zk.cli.groups.group_brokers import GroupBrokers, log_ends
from kafka_zk.cli.groups.group_kinds import GroupKind, GroupOverview, Groups, PartitionOfGroup
from kafka_zk.cli.groups.groups_in_zookeeper import GroupsInZookeeper, registered_brokers
from kafka_zk.cli.groups.groups_of_brokers import GroupsOfBrokers
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.nearest import did_you_mean
from kafka_zk.cli.terminal.output import note
from kafka_zk.cli.terminal.zookeeper_client import DEFAULT_ZOOKEEPER, zookeeper_client
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.registry.znodes.consumers import is_znode_name


class Where(NamedTuple):
    """``kind`` None means both kinds."""

    zookeeper: str | None
    bootstrap: str | None = None
    kind: GroupKind | None = None

    def kinds(self) -> list[GroupKind]:
        return list(GroupKind) if self.kind is None else [self.kind]


def where(zookeeper: str | None, bootstrap: str | None, kind: str | None, *, names_zookeeper: bool) -> Where:
    """``bootstrap`` without a named ZooKeeper means only the groups of these brokers.

    Args: ``names_zookeeper``: ``zookeeper`` comes from the command line, not from the environment.
    """
    if kind is None and bootstrap is not None and not names_zookeeper:
        kind = GroupKind.BROKER
    return Where(zookeeper, bootstrap, GroupKind(kind) if kind else None)


@contextlib.contextmanager
def group_access(at: Where) -> "Iterator[GroupAccess]":
    """ZooKeeper provides its own groups, and the brokers' addresses if ``bootstrap`` is not given.

    Raises: CommandFailed, RegistryError, KafkaError.
    """
    kinds = at.kinds()
    with contextlib.ExitStack() as cleanup:
        sides: dict[GroupKind, Groups] = {}
        bootstrap = at.bootstrap
        if GroupKind.ZOOKEEPER in kinds or bootstrap is None:
            client = cleanup.enter_context(zookeeper_client(at.zookeeper or DEFAULT_ZOOKEEPER))
            bootstrap = bootstrap or registered_brokers(client)
            if GroupKind.ZOOKEEPER in kinds:
                sides[GroupKind.ZOOKEEPER] = GroupsInZookeeper(client)
        brokers = cleanup.enter_context(GroupBrokers(bootstrap))
        if GroupKind.BROKER in kinds:
            sides[GroupKind.BROKER] = GroupsOfBrokers(brokers)
        yield GroupAccess(sides, brokers)


class GroupAccess:
    """``sides``: the requested kinds."""

    def __init__(self, sides: Mapping[GroupKind, Groups], brokers: GroupBrokers) -> None:
        self.sides = sides
        self.brokers = brokers
        self._names: dict[GroupKind, Collection[str]] = {}

    def overviews(self) -> list[tuple[str, GroupKind, GroupOverview]]:
        """All groups by name and kind. If the brokers do not respond, a note gives the reason."""
        found = []
        for kind, side in self.sides.items():
            with self._may_fail(kind):
                found += [(name, kind, overview) for name, overview in side.overviews().items()]
        return sorted(found, key=lambda each: each[:2])

    def describe(self, wanted: Sequence[str]) -> list[tuple[str, GroupKind, PartitionOfGroup]]:
        """The groups of these names and all kinds; default: all groups.

        Raises: CommandFailed if neither kind has a group of a given name.
        """
        known: dict[GroupKind, Collection[str]] = {}
        for kind in self.sides:
            with self._may_fail(kind):
                known[kind] = self._known(kind)
        names = list(dict.fromkeys(wanted)) or sorted({name for each in known.values() for name in each})
        for name in names:
            if not any(name in each for each in known.values()):
                raise self._missing(name)
        described = {
            kind: self.sides[kind].describe([name for name in names if name in each]) for kind, each in known.items()
        }
        rows = [
            (name, kind, row)
            for name in names
            for kind, by_name in sorted(described.items())
            for row in by_name.get(name, ())
        ]
        ends = log_ends(self.brokers, sorted({row.tp for _, _, row in rows if row.tp is not None}))
        return [(name, kind, replace(row, log_end=ends.get(row.tp) if row.tp else None)) for name, kind, row in rows]

    @contextlib.contextmanager
    def _may_fail(self, kind: GroupKind) -> Iterator[None]:
        """Groups in ZooKeeper are shown even if the brokers do not respond."""
        try:
            yield
        except (CommandFailed, KafkaError) as error:
            if len(self.sides) == 1:
                raise
            note(f"The groups {kind.place} are unknown: {error}")

    def the_one(self, group: str, *, may_be_new: bool = False) -> Groups:
        """The groups of the kind to which this group belongs.

        Args: ``may_be_new``: the group need not exist if only one kind is requested.
        Raises: CommandFailed if no kind or both kinds have it.
        """
        sides = list(self.sides.values())
        if not is_znode_name(group):
            sides = [side for side in sides if side.kind is not GroupKind.ZOOKEEPER]
        if len(self.sides) == 1 and may_be_new:
            return sides[0]
        having = [side for side in sides if group in self._known_for_change(side.kind, group)]
        if len(having) > 1:
            raise CommandFailed(
                f"there is a ZooKeeper group {group} and a broker group {group}: choose one with --type"
            )
        if not having:
            missing = self._missing(group)
            raise CommandFailed(f"{missing.message}; choose with --type where to create it") if may_be_new else missing
        return having[0]

    def _known_for_change(self, kind: GroupKind, group: str) -> Collection[str]:
        try:
            return self._known(kind)
        except (CommandFailed, KafkaError) as error:
            if len(self.sides) == 1:
                raise
            raise CommandFailed(
                f"the groups {kind.place} cannot be read ({error}), so it is unknown whether {group} is one of them: "
                f"give --type {GroupKind.ZOOKEEPER} to use the ZooKeeper group"
            ) from None

    def _known(self, kind: GroupKind) -> Collection[str]:
        if kind not in self._names:
            self._names[kind] = self.sides[kind].names()
        return self._names[kind]

    def _missing(self, group: str) -> CommandFailed:
        places = " or ".join(kind.place for kind in sorted(self.sides, reverse=True))
        names = {name for known in self._names.values() for name in known}
        return CommandFailed(f"there is no group {group} {places}{did_you_mean(group, names)}")


def check_names(groups: Collection[str], kind: GroupKind | None) -> None:
    """Raises UsageError if a name is invalid for a group of that kind (None: of any)."""
    for group in groups:
        if not group:
            raise click.UsageError("a group must have a name")
        if kind is GroupKind.ZOOKEEPER and not is_znode_name(group):
            raise click.UsageError(f"{group!r} is not a valid name for a ZooKeeper group")
