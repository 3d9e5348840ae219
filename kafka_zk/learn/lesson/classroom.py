"""A lesson's live cluster and its group members."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Self

from kafka_zk.broker.group.events import AssignmentCompleted, CoordinatorEvent, JoinCompleted, RebalancePrepared
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.reactor_thread import reactor_thread
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.learn.lesson.broker_member import BrokerMember
from kafka_zk.learn.lesson.clock import LessonClock
from kafka_zk.learn.lesson.errors import LessonFailed
from kafka_zk.learn.lesson.gate import Gate
from kafka_zk.learn.lesson.member import LessonMember, ZookeeperMember
from kafka_zk.learn.lesson.teacher import Teacher
from kafka_zk.recorder.timeline.broker_timeline import BrokerTimeline
from kafka_zk.recorder.timeline.lines import StepLines
from kafka_zk.recorder.timeline.picture import began_ms, picture
from kafka_zk.recorder.timeline.rebalances import GroupRebalance
from kafka_zk.recorder.timeline.summary import Summaries
from kafka_zk.recorder.timeline.timeline import Timeline
from kafka_zk.recorder.timeline.trace_file import Traced, TraceFollower
from kafka_zk.registry.client.events import Reread, WatchArmed, WatchFired

PATIENCE_S = 60
_TICK_TIME_MS = 500
_PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",  # the first member does not wait for others
    "group.min.session.timeout.ms": "1000",  # a reader does not wait six seconds after a kill
    "offsets.topic.num.partitions": "1",
}
_TOLD_BY_THE_TEACHER = (Reread, WatchArmed, WatchFired)


MakeMember = Callable[["Group", str], LessonMember]


class Group:
    """``make_member``: creates a member with a given name."""

    def __init__(
        self,
        name: str,
        topic: str,
        partitions: int,
        strategy: str,
        make_member: MakeMember,
        timeline: Timeline | None = None,
    ) -> None:
        self.name = name
        self.topic = topic
        self.partitions = partitions
        self.strategy = strategy
        self.members: list[LessonMember] = []
        self.timeline = timeline or Timeline()
        self._make_member = make_member
        self._last_ms = 0
        self._told: list[int] = []  # number of shown events by member
        self._summaries = Summaries(name)
        self._steps = StepLines(name, self.timeline)

    def new_member(self, name: str) -> LessonMember:
        """Create a member, which has not joined yet."""
        self.members.append(self._make_member(self, name))
        return self.members[-1]

    @property
    def living(self) -> list[LessonMember]:
        return [member for member in self.members if member.alive]

    def settled(self) -> bool:
        """True if every partition has an owner, and the members' shares differ by at most one."""
        shares = [len(member.owned) for member in self.living]
        return sum(shares) == self.partitions and max(shares) - min(shares) <= 1

    def member(self, name: str) -> LessonMember:
        return next(member for member in self.living if member.name == name)

    def firsts(self) -> dict[tuple[int, int], float]:
        firsts: dict[tuple[int, int], float] = {}
        for got in sorted((got for member in self.members for got in list(member.got)), key=lambda got: got.got_s):
            firsts.setdefault((got.partition, got.offset), got.got_s)
        return firsts

    def news(self, verbose: bool = False) -> Iterator[str]:
        """A line for each rebalance since the last call; ``verbose``: every step except watches."""
        self._told += [0] * (len(self.members) - len(self._told))
        for number, member in enumerate(self.members):
            events = member.events[self._told[number] :]
            self._told[number] += len(events)
            for traced in events:
                self._last_ms = max(self._last_ms, traced.event.time_ms)
                if not isinstance(traced.event, _TOLD_BY_THE_TEACHER):
                    self.timeline.add(traced)
        self._hear_of_others()
        for told in self.timeline.due():
            if verbose:
                yield from self._steps.of(told)
            elif isinstance(told, GroupRebalance):
                yield f"→ {self._summaries.line(told)}"

    def _hear_of_others(self) -> None:
        """Process events from sources other than the members."""

    def picture(self, width: int) -> Iterator[str]:
        """Partitions by time, from the first delivery until now."""
        history = self.timeline.rebalances.deliveries.history
        first_ms = began_ms(history)
        if first_ms is not None:
            after_ms = (self._last_ms - first_ms) // 10  # a margin after the last change
            yield from picture(self.name, history, first_ms, self._last_ms + after_ms, width)


class BrokerGroup(Group):
    """The coordinator also reports events in a trace."""

    def __init__(
        self,
        name: str,
        topic: str,
        partitions: int,
        strategy: str,
        make_member: MakeMember,
        trace: Path,
        clock: LessonClock,
    ) -> None:
        super().__init__(name, topic, partitions, strategy, make_member, BrokerTimeline(name))
        self._follower = TraceFollower(trace, from_start=False)
        self._clock = clock
        self._heard: list[Traced] = []
        self._assigned = True  # the latest generation has its assignment

    def settled(self) -> bool:
        """Also requires the coordinator's report, which arrives a moment after the members' reports."""
        self._follow()
        return self._assigned and super().settled()

    def _hear_of_others(self) -> None:
        self._follow()
        for traced in self._heard:
            self.timeline.add(traced)
        self._heard.clear()

    def _follow(self) -> None:
        for traced in self._follower.read():
            event = traced.event
            if isinstance(event, CoordinatorEvent) and event.group_id == self.name:
                in_lesson = replace(event, time_ms=self._clock.lesson_ms(event.time_ms))
                self._heard.append(Traced(in_lesson, None))
                if isinstance(event, RebalancePrepared | JoinCompleted | AssignmentCompleted):
                    self._assigned = isinstance(event, AssignmentCompleted)


class Classroom:
    """One broker, one ZooKeeper, and all members.

    Raises: EmbeddedError, KafkaError, RegistryError; LessonFailed if a group does not settle.
    """

    def __init__(self, data_dir: Path, teacher: Teacher, verbose: bool = False) -> None:
        self.teacher = teacher
        self.verbose = verbose
        self._thread = reactor_thread()
        self._data_dir = data_dir
        self._trace = data_dir / "trace"
        self._cluster = EmbeddedCluster(
            data_dir,
            broker_count=1,
            tick_time_ms=_TICK_TIME_MS,
            force_sync=False,
            properties=_PROPERTIES,
            trace=self._trace,
        )
        self.gate = Gate(teacher.watches_fire, self._thread.reactor.callFromThread, teacher.clock)
        self.gate.closed = teacher.holds_watches
        self.gate.observe = teacher.observe
        self._groups: list[Group] = []
        self._used: dict[str, int] = {}  # how often each name of a topic or group was used

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    @property
    def zookeeper(self) -> str:
        return self._cluster.zookeeper_connect

    def __enter__(self) -> Self:
        self._cluster.start()
        self.teacher.room_opened(self._data_dir / "zookeeper" / "data", self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        self.dismiss()
        self._cluster.stop()

    def topic(self, name: str, partitions: int) -> str:
        """Returns the name, with a number if it was used before."""
        unique = self._unique(name)
        with BlockingAdmin(None, bootstrap_servers=self.bootstrap) as admin:
            admin.create_topic(unique, partitions, 1)
        return unique

    def group(self, name: str, topic: str, partitions: int, strategy: str) -> Group:
        """Create a ZooKeeper group with this name, with a number if the name was used before."""
        made = Group(self._unique(name), topic, partitions, strategy, self._zookeeper_member)
        self._groups.append(made)
        return made

    def broker_group(self, name: str, topic: str, partitions: int, strategy: str) -> BrokerGroup:
        """A name that was used before gets a number."""
        unique = self._unique(name)
        member, clock = self._broker_member, self.teacher.clock
        made = BrokerGroup(unique, topic, partitions, strategy, member, self._trace, clock)
        self._groups.append(made)
        return made

    def news(self, group: Group) -> list[str]:
        self._thread.call(_nothing)
        return list(group.news(self.verbose))

    def rebalance(self, group: Group, known: int) -> GroupRebalance:
        """Wait until more than ``known`` rebalances are over; return the latest.

        The reports of a rebalance may arrive after the group has settled.
        """

        def is_over() -> bool:
            self.news(group)
            return len(group.timeline.summaries) > known

        if not self.gate.open_until(is_over, time.monotonic() + PATIENCE_S):
            raise LessonFailed(f"no rebalance of the group {group.name} ended within {PATIENCE_S} s")
        return group.timeline.summaries[-1]

    def join(self, group: Group, name: str) -> LessonMember:
        """Add a member; returns when the group has settled. Watches that fire until then pass the gate."""
        member = group.new_member(name)
        member.join()
        self.settle(group)
        return member

    def leave(self, group: Group, member: LessonMember) -> None:
        """Let a member leave; returns when the group has settled."""
        member.close()
        self.settle(group)

    def settle(self, *groups: Group) -> None:
        """Wait until the groups have settled, while the gate opens for one watch at a time."""
        if not self.gate.open_until(lambda: all(group.settled() for group in groups), time.monotonic() + PATIENCE_S):
            names = " and ".join(group.name for group in groups)
            raise LessonFailed(f"the group {names} did not settle within {PATIENCE_S} s")

    def dismiss(self) -> None:
        """Let all members leave, without showing the watches."""
        self.teacher.all_seen()
        self.gate.closed, self.gate.delay_s = False, 0.0
        self.gate.release()
        for group in self._groups:
            for member in group.members:
                member.close()
        self._groups.clear()
        self.gate.release()
        self.gate.closed = self.teacher.holds_watches

    def _zookeeper_member(self, group: Group, name: str) -> LessonMember:
        return ZookeeperMember(self._thread, self.gate, self.zookeeper, group.name, name, group.topic, group.strategy)

    def _broker_member(self, group: Group, name: str) -> LessonMember:
        return BrokerMember(self._thread, self.gate, self.bootstrap, group.name, name, group.topic, group.strategy)

    def _unique(self, name: str) -> str:
        count = self._used[name] = self._used.get(name, 0) + 1
        return name if count == 1 else f"{name}-{count}"


async def _nothing() -> None:
    """Do nothing: when this has run, all earlier calls on the reactor have run."""
