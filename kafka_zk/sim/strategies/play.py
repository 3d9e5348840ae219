"""Runs one change of a group's members under one strategy, on one simulated broker, and observes the members.

A producer sends RECORDS_PER_S records per second, distributed equally over PARTITION_COUNT partitions. Every SAMPLE_MS,
the partitions that each member may read are recorded. The same change and strategy give the same observations on every
machine.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.sim.scenarios.stage import Stage
from kafka_zk.sim.strategies.members import RECORD_MS, TOPIC, Processed, Strategy, Worker, join
from kafka_zk.sim.world.history import Acked

PARTITION_COUNT = 12
RECORDS_PER_S = 24
BEFORE_MS, AFTER_MS = 2_000, 13_000
"""The time before and after the change that is shown."""
SAMPLE_MS = 20
BUSY_MS = 4_000
_WARM_UP_MS = 4_000
_BUSY_BEFORE_MS = 500
"""In the change ``slow``, ben becomes busy for BUSY_MS, and cara joins this long afterwards."""
_STRIDE = 5
"""Distance between the partitions of two successive records, so that no member receives all its records in a row."""
_SEED = 7


class Change(NamedTuple):
    """``first``: the members before the change. ``begins``: what happens at 0 ms."""

    name: str
    title: str
    begins: str
    first: tuple[str, ...]


CHANGES: Mapping[str, Change] = {
    each.name: each
    for each in (
        Change("join", "cara joins anna and ben", "cara joins", ("anna", "ben")),
        Change(
            "leave",
            "cara leaves: it finishes its record and closes its consumer",
            "cara leaves",
            ("anna", "ben", "cara"),
        ),
        Change("die", "cara dies: its process is killed", "cara dies", ("anna", "ben", "cara")),
        Change(
            "slow", f"cara joins while ben takes {BUSY_MS // 1000} s for one record", "ben is busy", ("anna", "ben")
        ),
    )
}


class Acknowledged(NamedTuple):
    time_ms: float
    partition: int
    value: str


class Observed(NamedTuple):
    """Times are in ms since the change.

    ``owned``: at each time since -BEFORE_MS, the partitions that each member may read. ``joined``: when each member
    joined; -BEFORE_MS if it was there before. ``gone``: when a member began to close, or died.
    """

    owned: tuple[tuple[float, Mapping[str, tuple[int, ...]]], ...]
    acknowledged: tuple[Acknowledged, ...]
    processed: tuple[Processed, ...]
    joined: Mapping[str, float]
    gone: Mapping[str, float]


def play(change: Change, strategy: Strategy) -> Observed:
    stage = Stage(_SEED)
    with stage.world:
        return _Play(stage, change, strategy).observed()


class _Play:
    def __init__(self, stage: Stage, change: Change, strategy: Strategy) -> None:
        self._stage = stage
        self._change = change
        self._strategy = strategy
        self._processed: list[Processed] = []
        self._members: dict[str, Worker] = {}
        self._owned: list[tuple[float, Mapping[str, tuple[int, ...]]]] = []
        self._sent = 0

    def observed(self) -> Observed:
        world = self._stage.world
        self._stage.start_brokers(1)
        self._stage.create_topic(TOPIC, PARTITION_COUNT)
        for name in self._change.first:
            self._join(name)
        self._stage.until("the group is balanced", self._is_balanced)
        self._send()
        world.run_for(_WARM_UP_MS)
        self._run(BEFORE_MS)
        began_ms = world.now_ms
        act: dict[str, Callable[[], Any]] = {
            "join": lambda: self._join("cara"),
            "leave": lambda: self._members["cara"].leave(),
            "die": lambda: self._members["cara"].kill(),
            "slow": self._slow,
        }
        act[self._change.name]()
        self._run(AFTER_MS)
        world.run_for(RECORD_MS)  # finish the records in progress, so that they do not count as waiting
        assert not world.failures, world.failures
        return self._since(began_ms)

    def _join(self, name: str) -> None:
        self._members[name] = join(self._stage, self._strategy, name, self._processed)

    def _slow(self) -> None:
        self._members["ben"].busy_ms = BUSY_MS
        self._stage.world.scheduler.clock.callLater(_BUSY_BEFORE_MS / 1000, self._join, "cara")

    def _is_balanced(self) -> bool:
        counts = [len(member.consumer.assignment()) for member in self._members.values()]
        return all(counts) and sum(counts) == PARTITION_COUNT

    def _send(self) -> None:
        tp = TopicPartition(TOPIC, self._sent * _STRIDE % PARTITION_COUNT)
        self._stage.produce("shop", tp, [str(self._sent)])
        self._sent += 1
        self._stage.world.scheduler.clock.callLater(1 / RECORDS_PER_S, self._send)

    def _run(self, duration_ms: int) -> None:
        for _ in range(duration_ms // SAMPLE_MS):
            self._owned.append((self._stage.world.now_ms, self._now()))
            self._stage.world.run_for(SAMPLE_MS)

    def _now(self) -> Mapping[str, tuple[int, ...]]:
        return {
            name: tuple(tp.partition for tp in member.consumer.assignment())
            for name, member in self._members.items()
            if not member.is_over
        }

    def _since(self, began_ms: float) -> Observed:
        """The observations, with times since the change."""
        end_ms = began_ms + AFTER_MS
        acked = [fact for fact in self._stage.history.facts if isinstance(fact, Acked) and fact.time_ms < end_ms]
        left_ms = {name: member.left_ms for name, member in self._members.items()}
        gone_ms = {name: at_ms - began_ms for name, at_ms in left_ms.items() if at_ms is not None}
        later_ms = _BUSY_BEFORE_MS if self._change.name == "slow" else 0
        return Observed(
            tuple((time_ms - began_ms, now) for time_ms, now in self._owned),
            tuple(Acknowledged(fact.time_ms - began_ms, fact.tp.partition, fact.value) for fact in acked),
            tuple(
                each._replace(began_ms=each.began_ms - began_ms, ended_ms=each.ended_ms - began_ms)
                for each in self._processed
                if each.began_ms < end_ms
            ),
            {name: -BEFORE_MS if name in self._change.first else later_ms for name in self._members},
            {"cara": 0} if self._change.name == "die" else gone_ms,
        )
