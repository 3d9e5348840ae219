"""Runs a scenario and yields the trace: commands, events, expectations, and violations that the judges find.

The trace is yielded line by line, and stored in scenario files. The same scenario gives the same trace on every
machine.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from kafka_zk.sim.campaign.run import Run, play
from kafka_zk.sim.replay import narration
from kafka_zk.sim.replay.narration import SAFEGUARD
from kafka_zk.sim.scenarios import old_rules
from kafka_zk.sim.scenarios.conditions import CONDITIONS, JUDGES
from kafka_zk.sim.scenarios.old_rules import OLD_RULES
from kafka_zk.sim.scenarios.scenario import OLD, PLAYS, TRACE_MARK, Condition, Note, Scenario, Statement
from kafka_zk.sim.scenarios.stage import Stage, StageError
from kafka_zk.sim.scenarios.statements import ScenarioError
from kafka_zk.sim.scenarios.verbs import VERBS, expect, expect_not

Played = Stage | Run
"""The stage of a scenario, or a run that a seed generates. Both have a ``world`` and a ``history``."""
COMMAND, NOTE, FACT, FOUND, HELD, FAILED = "command", "note", "fact", "violation", "held", "failed"
_SHOWN_VIOLATIONS = 5
_WHO_WIDTH = 12
_TIMED = re.compile(r"(\d+\.\d+): (.*)", re.DOTALL)


class Line(NamedTuple):
    """``kind``: a command, an author's note, a fact, a violation, or an expectation that held or failed.

    ``number``: the scenario's line of a command, note or expectation; 0 for facts and violations.
    """

    play: str
    time_ms: float
    kind: str
    who: str
    text: str
    number: int = 0

    def document(self) -> dict[str, Any]:
        return {**self._asdict(), "time_ms": round(self.time_ms, 3)}

    def __str__(self) -> str:
        marks = {COMMAND: "> ", NOTE: "# ", FOUND: "!! ", HELD: "ok: ", FAILED: "FAILED: "}
        if self.kind == FACT:
            return f"{self.time_ms / 1000:>7.1f}  {self.who:<{_WHO_WIDTH}} {self.text}".rstrip()
        return f"{'':>7}  {marks[self.kind]}{self.text}"


class Replayed(NamedTuple):
    """``safeguards``: the safeguards that acted, by run (OLD, OURS). ``violations``: the judges' last findings, by
    run."""

    trace: list[str]
    failed: list[Line]
    safeguards: dict[str, list[str]]
    violations: dict[str, list[str]]


def replay(
    scenario: Scenario,
    tell: Callable[[Line], None],
    *,
    everything: bool = False,
    prepare: Callable[[Played], None] = lambda played: None,
) -> Replayed:
    """Run a scenario with and without the old rule. ``prepare``: called with the stage (or campaign run) before each
    run begins.

    Raises ScenarioError if a statement fails.
    """
    replayed = Replayed([], [], {}, {})
    for name in scenario.plays:
        replayed.trace.append(heading(scenario, name))
        player = _Player(scenario, name, everything, prepare)
        for line in player.lines():
            replayed.trace.append(str(line))
            if line.kind == FAILED:
                replayed.failed.append(line)
            tell(line)
        replayed.safeguards[name] = player.safeguards
        replayed.violations[name] = player.violations
    return replayed


def heading(scenario: Scenario, name: str) -> str:
    rule = f": {OLD_RULES[scenario.old_rule].says}" if name == OLD and scenario.old_rule else ""
    return f"{TRACE_MARK} {PLAYS[name]}{rule}"


class _Player:
    def __init__(self, scenario: Scenario, name: str, everything: bool, prepare: Callable[[Played], None]) -> None:
        self._prepare = prepare
        self._scenario = scenario
        self._name = name
        self._everything = everything
        self._told = 0
        self.safeguards: list[str] = []
        self.violations: list[str] = []

    def lines(self) -> Iterator[Line]:
        with old_rules.in_place(self._scenario.old_rule if self._name == OLD else None):
            yield from self._campaign() if self._scenario.campaign is not None else self._scripted()

    def _scripted(self) -> Iterator[Line]:
        stage = Stage(self._scenario.seed)
        self._prepare(stage)
        with stage.world:
            for each in self._scenario.script:
                if isinstance(each, Note):
                    if each.text:
                        yield self._line(stage, NOTE, each.text, each.line)
                elif each.only in (None, self._name):
                    yield from self._done(stage, each)

    def _done(self, stage: Stage, statement: Statement) -> Iterator[Line]:
        is_expected = VERBS[statement.phrase] in (expect, expect_not)
        if not is_expected:
            yield self._line(stage, COMMAND, statement.text, statement.line)
        kind = HELD
        try:
            self._act(stage, statement)
        except StageError as error:
            if statement.condition is None:
                raise ScenarioError(statement.line, f"{statement.text}: {error}") from None
            kind = FAILED
        yield from self._happened(stage)
        if is_expected and statement.condition is not None and statement.condition.phrase in JUDGES:
            yield from (self._line(stage, FOUND, each, 0) for each in _shown(self.violations))
        if is_expected or kind == FAILED:
            yield self._line(stage, kind, statement.text, statement.line)

    def _act(self, stage: Stage, statement: Statement) -> None:
        act = VERBS[statement.phrase]
        if statement.condition is None:
            act(stage, **statement.slots)
            return
        holds = partial(self._holds, stage, statement.condition)
        act(stage, **{**statement.slots, "condition": holds})

    def _holds(self, stage: Stage, condition: Condition) -> bool:
        if condition.phrase not in JUDGES:
            return CONDITIONS[condition.phrase](stage, **condition.slots)
        self.violations = [_first_line(each) for each in stage.violations()]
        return JUDGES[condition.phrase](self.violations, **condition.slots)

    def _happened(self, stage: Stage) -> Iterator[Line]:
        facts, self._told = stage.history.facts[self._told :], len(stage.history.facts)
        for fact in facts:
            told = narration.told(fact, self._everything)
            if told is not None:
                if told.sentence.startswith(SAFEGUARD):
                    self.safeguards.append(f"{told.who}: {told.sentence.removeprefix(SAFEGUARD)}")
                yield Line(self._name, told.time_ms, FACT, told.who, told.sentence)

    def _line(self, stage: Stage, kind: str, text: str, number: int) -> Line:
        return Line(self._name, stage.world.now_ms, kind, "", text, number)

    # -- the run of a seed ----------------------------------------------------------------------------------------

    def _campaign(self) -> Iterator[Line]:
        campaign = self._scenario.campaign
        assert campaign is not None
        outcome = play(campaign.seed, campaign.plan, prepare=self._prepare)
        self.violations = [_first_line(each) for each in outcome.violations]
        for fact in outcome.history.facts:
            told = narration.told(fact, self._everything)
            if told is not None and (self._everything or told.who == "" or SAFEGUARD in told.sentence):
                yield Line(self._name, told.time_ms, FACT, told.who, told.sentence)
        end_ms = outcome.simulated_ms
        for each in self._scenario.script:
            if isinstance(each, Statement) and each.condition is not None and each.only in (None, self._name):
                yield from (Line(self._name, end_ms, FOUND, "", found) for found in _shown(self.violations))
                holds = JUDGES[each.condition.phrase](self.violations, **each.condition.slots)
                kind = HELD if holds is (VERBS[each.phrase] is expect) else FAILED
                yield Line(self._name, end_ms, kind, "", each.text, each.line)


def _shown(violations: Sequence[str]) -> Iterator[str]:
    more = [f"and {len(violations) - _SHOWN_VIOLATIONS} more"] if len(violations) > _SHOWN_VIOLATIONS else []
    return chain(violations[:_SHOWN_VIOLATIONS], more)


def _first_line(violation: str) -> str:
    timed = _TIMED.fullmatch(violation)
    if timed is not None:
        violation = f"at {float(timed[1]) / 1000:.1f} s {timed[2]}"
    lines = violation.strip().splitlines()
    return lines[0] if len(lines) == 1 or not lines[0].startswith("an error") else f"{lines[0]} … {lines[-1]}"
