"""The museum: outages and counter-examples of the ZooKeeper era, each a built-in scenario with an old rule.

A scenario contains its question, conclusion and sources. This module defines the order in which exhibits are shown.
"""

from typing import NamedTuple

from kafka_zk.sim.judges.fates import RecordFate, fates, faults
from kafka_zk.sim.museum.side_by_side import LOG
from kafka_zk.sim.replay.player import FACT, Line, Played, replay
from kafka_zk.sim.scenarios import library
from kafka_zk.sim.scenarios.scenario import OLD, OURS, Scenario, parse
from kafka_zk.sim.scenarios.stage import Stage
from kafka_zk.sim.world.replica_contents import Replicas, changes, replicas

EXHIBITS = (
    "zombie-controller",
    "lost-watch",
    "isr-of-one",
    "truncation-by-watermark",
    "two-logs",
    "two-owners",
    "overtaken-commit",
    "herd-effect",
    "long-pause",
    "torn-transaction",
    "unclean-election",
    "zookeeper-rolled-back",
)


class Wing(NamedTuple):
    """One run of an exhibit. ``faults``: names of the records that were lost, duplicated, left unread or left out of a
    transaction under this rule."""

    violations: tuple[str, ...]
    records: tuple[RecordFate, ...]
    faults: frozenset[str]


class Seen(NamedTuple):
    """``lines``: the traces of both runs. ``failed``: expectations of the scenario that did not hold."""

    scenario: Scenario
    lines: tuple[Line, ...]
    old: Wing
    ours: Wing
    failed: tuple[Line, ...]


def exhibit(name: str) -> Scenario:
    """Raises KeyError if the museum has no exhibit of this name."""
    if name not in EXHIBITS:
        raise KeyError(name)
    return parse(library.built_in()[name].read_text())


def see(scenario: Scenario) -> Seen:
    """Run an exhibit with the old rule and with ours. Raises ScenarioError if a statement fails."""
    visitor = _Visitor()
    played = replay(scenario, visitor.tell, prepare=visitor.enter)
    records = {play: _records(stage) for play, stage in zip(scenario.plays, visitor.stages, strict=True)}
    wings = {
        play: Wing(
            tuple(played.violations[play]),
            tuple(records[play]),
            frozenset(each.name for each in faults(records[play], records[other])),
        )
        for play, other in ((OLD, OURS), (OURS, OLD))
    }
    return Seen(scenario, tuple(visitor.lines), wings[OLD], wings[OURS], tuple(played.failed))


class _Visitor:
    """Collects the lines of both runs, and adds the replicas' contents whenever they have changed."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.stages: list[Played] = []
        self._last: Replicas = {}

    def enter(self, stage: Played) -> None:
        self.stages.append(stage)
        self._last = {}

    def tell(self, line: Line) -> None:
        if line.kind != FACT:
            world = self.stages[-1].world
            now = replicas(world)
            for broker, said in changes(self._last, now):
                self.lines.append(Line(line.play, world.now_ms, LOG, broker, said))
            self._last = now
        self.lines.append(line)


def _records(played: Played) -> list[RecordFate]:
    assert isinstance(played, Stage), "an exhibit is a script"
    return fates(played.history.facts, played.logs, played.to_be_read, played.committed)
