"""Which kind of group a command means if both kinds may have a group with that name."""

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from kafka_zk.cli.groups.group_access import GroupAccess, where
from kafka_zk.cli.groups.group_brokers import GroupBrokers
from kafka_zk.cli.groups.group_kinds import GroupKind, PartitionOfGroup
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.clients.connection.errors import NoBrokersAvailable

BROKER, ZOOKEEPER = GroupKind.BROKER, GroupKind.ZOOKEEPER


class Side:
    """Groups without offsets; ``failure`` is raised instead of a response."""

    def __init__(self, kind: GroupKind, names: Collection[str], failure: Exception | None = None) -> None:
        self.kind = kind
        self._names = names
        self._failure = failure

    def names(self) -> Collection[str]:
        if self._failure is not None:
            raise self._failure
        return self._names

    def describe(self, groups: Sequence[str]) -> dict[str, list[PartitionOfGroup]]:
        return {group: [PartitionOfGroup(None, None, f"member of {group}")] for group in groups}


def access(*sides: Side) -> GroupAccess:
    by_kind: Any = {side.kind: side for side in sides}
    return GroupAccess(by_kind, GroupBrokers(""))


def both(failure: Exception | None = None) -> GroupAccess:
    return access(Side(ZOOKEEPER, ["old", "same"]), Side(BROKER, ["new", "same", "a/b"], failure))


AWAY = NoBrokersAvailable("cannot reach any of h:1")


@pytest.mark.parametrize(
    ("bootstrap", "names_zookeeper", "kind", "kinds"),
    [
        (None, False, None, [BROKER, ZOOKEEPER]),
        (None, True, None, [BROKER, ZOOKEEPER]),
        ("b:1", True, None, [BROKER, ZOOKEEPER]),
        ("b:1", False, None, [BROKER]),
        ("b:1", False, "zookeeper", [ZOOKEEPER]),
        (None, True, "broker", [BROKER]),
    ],
)
def test_brokers_without_a_zookeeper_mean_their_groups(
    bootstrap: str | None, names_zookeeper: bool, kind: str | None, kinds: list[GroupKind]
) -> None:
    """The environment variable only gives ZooKeeper's address."""
    assert where("z:1", bootstrap, kind, names_zookeeper=names_zookeeper).kinds() == kinds


def test_a_change_is_made_to_the_one_group_of_the_name() -> None:
    assert both().the_one("old").kind is ZOOKEEPER
    assert both().the_one("new").kind is BROKER
    assert both().the_one("a/b").kind is BROKER
    with pytest.raises(CommandFailed, match="a ZooKeeper group same and a broker group same"):
        both().the_one("same")
    with pytest.raises(CommandFailed, match=r"no group nwe in ZooKeeper or at the brokers; did you mean new\?"):
        both().the_one("nwe")


def test_a_new_group_needs_a_kind() -> None:
    assert access(Side(BROKER, [])).the_one("g", may_be_new=True).kind is BROKER
    with pytest.raises(CommandFailed, match=r"there is no group g at the brokers$"):
        access(Side(BROKER, [])).the_one("g")
    with pytest.raises(CommandFailed, match="choose with --type where to create it"):
        both().the_one("g", may_be_new=True)


def test_a_change_is_refused_while_it_is_unknown_which_group_is_meant() -> None:
    with pytest.raises(CommandFailed, match=r"the groups at the brokers cannot be read \(cannot reach"):
        both(AWAY).the_one("old")
    with pytest.raises(NoBrokersAvailable):
        access(Side(BROKER, [], AWAY)).the_one("new")


def test_every_group_of_a_name_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    shown = both().describe(["same", "old"])
    assert [(name, kind) for name, kind, _ in shown] == [("same", BROKER), ("same", ZOOKEEPER), ("old", ZOOKEEPER)]
    assert [name for name, _, _ in both().describe([])] == ["a/b", "new", "old", "same", "same"]
    assert [name for name, _, _ in both(AWAY).describe([])] == ["old", "same"]
    assert "The groups at the brokers are unknown: cannot reach any of h:1" in capsys.readouterr().err
    with pytest.raises(CommandFailed, match="there is no group nobody"):
        both().describe(["same", "nobody"])
    with pytest.raises(NoBrokersAvailable):
        access(Side(BROKER, [], AWAY)).describe([])
