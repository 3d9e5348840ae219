"""A scenario as text: its lesson, its statements and expectations, and its recorded trace.

    # An ordinary start                       the first line is the title; the lines up to an empty one are the lesson
    #
    # What a reader learns from it.

    question Who is obeyed?                   asked before it is played
    conclusion Only the newest controller.    said afterwards
    source KIP-570                            where it is described; there may be several
    old rule every_controller_is_obeyed       played twice: without a safeguard of the product, then with it
    brokers 3
    # What to look at now.                    shown at this place
    expect broker-1 is the controller
    [old] expect the judges find nothing      only with the old rule; [ours]: only with the safeguard

    === with the old rule                     from here on: the trace, which ``kafka-zk replay --write`` writes
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafka_zk.sim.campaign.plan import Fault
from kafka_zk.sim.campaign.run import TARGETS
from kafka_zk.sim.scenarios.conditions import CONDITIONS, JUDGES
from kafka_zk.sim.scenarios.old_rules import OLD_RULES
from kafka_zk.sim.scenarios.statements import Phrase, ScenarioError, matched, nearest
from kafka_zk.sim.scenarios.verbs import VERBS

TRACE_MARK = "==="
OLD, OURS = "old", "ours"
PLAYS = {OLD: "with the old rule", OURS: "with our rule"}
_ONLY = re.compile(r"\[(old|ours)\] +(.+)")
_FIRST_SEED = 1


class Statement(NamedTuple):
    """``only``: the run to which the statement belongs (OLD or OURS); None for both. ``condition``: what an expectation
    or a wait checks."""

    line: int
    text: str
    only: str | None
    phrase: Phrase
    slots: Mapping[str, Any]
    condition: "Condition | None"


class Condition(NamedTuple):
    text: str
    phrase: Phrase
    slots: Mapping[str, Any]


class Note(NamedTuple):
    """An author's comment, shown where it stands in the script."""

    line: int
    text: str


class Campaign(NamedTuple):
    """The random run that a seed generates, with the given faults in place of the generated ones."""

    seed: int
    plan: tuple[Fault, ...]


class Told(NamedTuple):
    """What the author tells a reader who runs the scenario: a question before it, a conclusion after it, and the
    sources."""

    question: str = ""
    conclusion: str = ""
    sources: tuple[str, ...] = ()


class Scenario(NamedTuple):
    """``script``: statements and notes in order. ``trace``: the lines after the first mark; empty if no trace was
    written.
    """

    title: str
    lesson: tuple[str, ...]
    seed: int
    old_rule: str | None
    campaign: Campaign | None
    script: tuple[Statement | Note, ...]
    source: tuple[str, ...]
    trace: tuple[str, ...]
    told: Told = Told()

    @property
    def plays(self) -> tuple[str, ...]:
        return (OLD, OURS) if self.old_rule else (OURS,)


def parse(text: str) -> Scenario:
    """Raises ScenarioError with the line and the reason."""
    lines = text.splitlines()
    end = next((number for number, line in enumerate(lines) if line.startswith(TRACE_MARK)), len(lines))
    source, trace = lines[:end], lines[end:]
    title, lesson, first = _beginning(source)
    reader = _Reader()
    for number, line in enumerate(source[first:], first + 1):
        reader.take(number, line.strip())
    if not any(isinstance(each, Statement) for each in reader.script) and reader.seed_line == 0:
        raise ScenarioError(0, "nothing happens in this scenario: it has no statements")
    campaign = Campaign(reader.seed, tuple(sorted(reader.plan))) if reader.seed_line else None
    script = tuple(reader.script)
    return Scenario(
        title, lesson, reader.seed, reader.old_rule, campaign, script, tuple(source), tuple(trace), reader.told
    )


def with_trace(scenario: Scenario, trace: Iterable[str]) -> str:
    """The content of a scenario file with this trace."""
    source = "\n".join(scenario.source).rstrip()
    return f"{source}\n\n" + "\n".join(trace) + "\n"


def _beginning(source: Sequence[str]) -> tuple[str, tuple[str, ...], int]:
    if not source or not source[0].startswith("# "):
        raise ScenarioError(1, "the first line is the title: # and what the scenario is called")
    count = next((number for number, line in enumerate(source) if not line.startswith("#")), len(source))
    lesson = [line[1:].strip() for line in source[1:count]]
    return source[0][2:].strip(), tuple(lesson[1:] if lesson and not lesson[0] else lesson), count


class _Reader:
    def __init__(self) -> None:
        self.seed = _FIRST_SEED
        self.seed_line = 0
        self.old_rule: str | None = None
        self.plan: list[Fault] = []
        self.told = Told()
        self.script: list[Statement | Note] = []

    def take(self, line: int, text: str) -> None:
        if text.startswith("#"):
            self.script.append(Note(line, text[1:].strip()))
        elif text.startswith("question "):
            self.told = self.told._replace(question=text.removeprefix("question ").strip())
        elif text.startswith("conclusion "):
            self.told = self.told._replace(conclusion=text.removeprefix("conclusion ").strip())
        elif text.startswith("source "):
            self.told = self.told._replace(sources=(*self.told.sources, text.removeprefix("source ").strip()))
        elif text.startswith("old rule "):
            self._take_old_rule(line, text.removeprefix("old rule ").strip())
        elif text.startswith(("seed ", "play seed ")):
            self._take_seed(line, text)
        elif text.startswith("fault "):
            self._take_fault(line, text.removeprefix("fault "))
        elif text:
            self.script.append(self._statement(line, text))

    def _take_old_rule(self, line: int, name: str) -> None:
        if name not in OLD_RULES:
            near = nearest(name, OLD_RULES)
            known = f'did you mean "{near}"?' if near else f"there are: {', '.join(OLD_RULES)}"
            raise ScenarioError(line, f"there is no old rule {name}; {known}")
        self.old_rule = name

    def _take_seed(self, line: int, text: str) -> None:
        number = text.rpartition("seed ")[2]
        if not re.fullmatch(r"\d{1,9}", number):
            raise ScenarioError(line, f'"{number}" is not a seed: a number of at most nine digits')
        if any(isinstance(each, Statement) for each in self.script):
            raise ScenarioError(line, "the seed must come before all statements")
        self.seed = int(number)
        if text.startswith("play"):
            self.seed_line = line

    def _take_fault(self, line: int, text: str) -> None:
        if not self.seed_line:
            raise ScenarioError(line, 'a fault belongs to the run of a seed: put "play seed 7" before it')
        try:
            fault = Fault.parse(text)
        except ValueError as error:
            raise ScenarioError(line, str(error)) from None
        if fault.target not in TARGETS:
            raise ScenarioError(line, f"unknown name {fault.target}; there are: {', '.join(TARGETS)}")
        self.plan.append(fault)

    def _statement(self, line: int, text: str) -> Statement:
        found = _ONLY.fullmatch(text)
        only, rest = (found[1], found[2]) if found else (None, text)
        if only is not None and self.old_rule is None:
            raise ScenarioError(line, f'[{only}] needs a line "old rule …" before it')
        phrase, slots = matched(VERBS, rest, line)
        condition = None
        if "condition" in slots:
            condition = Condition(slots["condition"], *matched(CONDITIONS | JUDGES, slots["condition"], line))
        if self.seed_line and (condition is None or condition.phrase not in JUDGES):
            raise ScenarioError(line, 'the run of a seed has only faults and "expect the judges find nothing"')
        return Statement(line, text, only, phrase, slots, condition)
