"""The museum: outages and counter-examples of the ZooKeeper era, each a built-in scenario with an old rule.

A scenario has its question, conclusion and sources; this is the order in which they are shown.
"""

from collections.abc import Callable
from typing import NamedTuple

from kafka_zk.sim.museum.fates import FAULTS, Fate, RecordFate, fates
from kafka_zk.sim.replay.player import Line, Played, replay
from kafka_zk.sim.scenarios import library
from kafka_zk.sim.scenarios.scenario import OLD, OURS, Scenario, parse
from kafka_zk.sim.scenarios.stage import Stage

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
    "unclean-election",
    "zookeeper-rolled-back",
)


class Wing(NamedTuple):
    """One play of an exhibit. ``faults``: the names of records that this rule lost, doubled or left unread."""

    violations: tuple[str, ...]
    records: tuple[RecordFate, ...]
    faults: frozenset[str]


class Seen(NamedTuple):
    """``lines``: the traces of both plays. ``failed``: expectations of the scenario that did not hold."""

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
    """Play an exhibit with the old rule and with ours. Raises ScenarioError if a statement fails."""
    lines: list[Line] = []
    stages: list[Played] = []
    played = replay(scenario, lines.append, prepare=stages.append)
    records = {play: _records(stage) for play, stage in zip(scenario.plays, stages, strict=True)}
    walls = {
        play: Wing(tuple(played.violations[play]), tuple(records[play]), _faults(records[play], records[other]))
        for play, other in ((OLD, OURS), (OURS, OLD))
    }
    return Seen(scenario, tuple(lines), walls[OLD], walls[OURS], tuple(played.failed))


def _records(played: Played) -> list[RecordFate]:
    assert isinstance(played, Stage), "an exhibit is a script"
    return fates(played.history.facts, played.logs, played.to_be_read)


def _faults(records: list[RecordFate], others: list[RecordFate]) -> frozenset[str]:
    """Records that are lost, doubled or unread, and those that are read twice under this rule only."""
    read_twice = {each.name for each in others if each.fate is Fate.READ_TWICE}
    is_fault: Callable[[RecordFate], bool] = lambda each: (
        each.fate in FAULTS or (each.fate is Fate.READ_TWICE and each.name not in read_twice)
    )
    return frozenset(each.name for each in records if is_fault(each))
