"""A lesson's live cluster and the members of its groups."""

import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka_zk.client.blocking_admin import BlockingAdmin
from kafka_zk.client.reactor_thread import reactor_thread
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.lesson.errors import LessonFailed
from kafka_zk.lesson.gate import Gate
from kafka_zk.lesson.member import LessonMember
from kafka_zk.lesson.teacher import Teacher
from kafka_zk.registry.events import Reread, WatchArmed, WatchFired
from kafka_zk.timeline.timeline import Timeline

PATIENCE_S = 60
_TICK_TIME_MS = 500
_TOLD_BY_THE_TEACHER = (Reread, WatchArmed, WatchFired)


class Group:
    """The members of one group and what they tell."""

    def __init__(self, name: str, topic: str, partitions: int, strategy: str) -> None:
        self.name = name
        self.topic = topic
        self.partitions = partitions
        self.strategy = strategy
        self.members: list[LessonMember] = []
        self.timeline = Timeline(name)
        self._told: dict[str, int] = {}

    @property
    def living(self) -> list[LessonMember]:
        return [member for member in self.members if member.alive]

    def settled(self) -> bool:
        """Every partition is owned, and the members have shares that differ by one at most."""
        shares = [len(member.owned) for member in self.living]
        return sum(shares) == self.partitions and max(shares) - min(shares) <= 1

    def news(self) -> Iterable[str]:
        """The timeline since the last call, without the watches (the teacher tells of those)."""
        for member in self.members:
            start = self._told.get(member.name, 0)
            events = member.events[start:]
            self._told[member.name] = start + len(events)
            for traced in events:
                if not isinstance(traced.event, _TOLD_BY_THE_TEACHER):
                    self.timeline.add(traced)
        return self.timeline.lines()


class Classroom:
    """One broker, one ZooKeeper, and everything that joins; a context manager.

    Raises: EmbeddedError, KafkaError, RegistryError; LessonFailed when a group does not settle.
    """

    def __init__(self, data_dir: Path, teacher: Teacher) -> None:
        self.teacher = teacher
        self._thread = reactor_thread()
        self._cluster = EmbeddedCluster(data_dir, broker_count=1, tick_time_ms=_TICK_TIME_MS, force_sync=False)
        self.gate = Gate(teacher.watch_fires, self._thread.reactor.callFromThread)
        self._groups: list[Group] = []

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    @property
    def zookeeper(self) -> str:
        return self._cluster.zookeeper_connect

    def __enter__(self) -> Self:
        self._cluster.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.gate.closed = False
        for group in self._groups:
            self.dismiss(group)
        self._cluster.stop()

    def topic(self, name: str, partitions: int) -> None:
        with BlockingAdmin(None, bootstrap_servers=self.bootstrap) as admin:
            admin.create_topic(name, partitions, 1)

    def group(self, name: str, topic: str, partitions: int, strategy: str) -> Group:
        self._groups.append(Group(name, topic, partitions, strategy))
        return self._groups[-1]

    def join(self, group: Group, name: str) -> LessonMember:
        """A new member; returns when the group has settled. Watches that fire meanwhile go through the gate."""
        member = LessonMember(
            self._thread, self.gate, self.zookeeper, group.name, name, group.topic, group.strategy
        )
        group.members.append(member)
        member.join()
        self.settle(group)
        return member

    def leave(self, group: Group, member: LessonMember) -> None:
        member.close()
        self.settle(group)

    def settle(self, *groups: Group) -> None:
        """Open the gate for one watch after the other until the groups have settled."""
        if not self.gate.open_until(lambda: all(group.settled() for group in groups), time.monotonic() + PATIENCE_S):
            names = " and ".join(group.name for group in groups)
            raise LessonFailed(f"the group {names} did not settle within {PATIENCE_S} s")

    def dismiss(self, group: Group) -> None:
        """All members leave."""
        was_closed, self.gate.closed = self.gate.closed, False
        for member in group.members:
            member.close()
        self.gate.open_until(lambda: True, time.monotonic() + PATIENCE_S)
        self.gate.closed = was_closed
