"""Polls the coordinators of brokers without traces, such as Apache Kafka's, for assignments."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from kafka_zk.base.clock import wall_ms
from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.events import AssignmentCompleted
from kafka_zk.clients.admin.group_admin import DEAD, EMPTY, STABLE, GroupDescription, ListedGroup
from kafka_zk.clients.connection.errors import KafkaError

ACTOR = "page"
UNKNOWN_GENERATION = -1
"""Coordinators do not report the generation."""
_CONSUMERS = ("consumer", "")
_SETTLED = (STABLE, EMPTY, DEAD)

Assignments = Mapping[str, tuple[TopicPartition, ...]]


class Groups(Protocol):
    async def list_groups(self) -> Mapping[str, ListedGroup]: ...

    async def describe_groups(self, groups: Iterable[str]) -> Mapping[str, GroupDescription]: ...


class AskedGroups:
    """``take``: receives an ``AssignmentCompleted`` for each group whose assignment changed. ``most``: maximum number
    of groups to describe.
    """

    def __init__(self, take: Callable[[list[Event]], object], most: int) -> None:
        self._take = take
        self._most = most
        self._assigned: dict[str, Assignments] = {}
        self.names: tuple[str, ...] = ()

    async def ask(self, groups: Groups) -> None:
        """Reports changes. No effect if a coordinator does not respond."""
        try:
            listed = await groups.list_groups()
            names = [name for name, each in listed.items() if each.protocol_type in _CONSUMERS][: self._most]
            gone = [name for name, members in self._assigned.items() if members and name not in listed]
            described = await groups.describe_groups([*names, *gone])
        except (KafkaError, OSError):
            return
        self.names = tuple(names)
        now = {name: _assignments(each) for name, each in described.items() if each.state in _SETTLED}
        changed = {name: each for name, each in now.items() if self._assigned.get(name, {}) != each}
        self._assigned.update(now)
        if changed:
            at_ms, cause = wall_ms(), "the coordinator was asked"
            self._take([AssignmentCompleted(at_ms, ACTOR, cause, 0, name, UNKNOWN_GENERATION, each)
                        for name, each in changed.items()])  # fmt: skip


def _assignments(described: GroupDescription) -> Assignments:
    return {each.member_id: tuple(sorted(each.partitions)) for each in described.members}
