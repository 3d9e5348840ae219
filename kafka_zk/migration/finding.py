"""A rule, and what it found in a cluster. Pure."""

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka_zk.migration.facts import ClusterFacts, Fact, Node, Unknown

T = TypeVar("T")

Seen = Iterator[str | Unknown]
"""Sentences about a trap, and facts that were needed but are not known."""


class NotKnown(Exception):
    """A check needs this fact."""

    def __init__(self, unknown: Unknown) -> None:
        super().__init__(unknown.reason)
        self.unknown = unknown


def known(fact: Fact[T]) -> T:
    """Raises NotKnown, which ends the check."""
    if isinstance(fact, Unknown):
        raise NotKnown(fact)
    return fact


def of_each(nodes: Iterable[Node], check: Callable[[Node], Seen]) -> Seen:
    """The results for all nodes. A fact that is not known about one node does not end the check of the others."""
    for node in nodes:
        try:
            yield from check(node)
        except NotKnown as error:
            yield error.unknown


class Verdict(enum.StrEnum):
    CLEAN = "clean"
    TRAP = "trap"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Rule:
    """``why`` the trap matters, how to ``fix`` it, its ``source`` (an issue, or a run of 3.9.1), and ``until`` which
    release it matters; empty if it matters in all of them."""

    name: str
    check: Callable[[ClusterFacts], Seen]
    why: str
    fix: str
    source: str
    until: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """``seen``: one sentence for each trap. ``missing``: the facts without which the rule is not fully checked."""

    rule: Rule
    seen: tuple[str, ...]
    missing: tuple[Unknown, ...]

    @property
    def verdict(self) -> Verdict:
        if self.seen:
            return Verdict.TRAP
        return Verdict.NOT_CHECKED if self.missing else Verdict.CLEAN

    def as_document(self) -> dict[str, Any]:
        return {
            "rule": self.rule.name,
            "verdict": self.verdict.value,
            "seen": list(self.seen),
            "why": self.rule.why,
            "fix": self.rule.fix,
            "source": self.rule.source,
            "until": self.rule.until or None,
            "not_checked": [{"reason": each.reason, "remedy": each.remedy} for each in self.missing],
        }


def examine(rule: Rule, facts: ClusterFacts) -> Finding:
    seen: dict[str, None] = {}
    missing: dict[Unknown, None] = {}
    try:
        for each in rule.check(facts):
            if isinstance(each, Unknown):
                missing[each] = None
            else:
                seen[each] = None
    except NotKnown as error:
        missing[error.unknown] = None
    return Finding(rule, tuple(seen), tuple(missing))


def exit_code(findings: Iterable[Finding]) -> int:
    """0: all clean. 1: a trap. 2: something was not checked, and nothing is a trap."""
    verdicts = {each.verdict for each in findings}
    return 1 if Verdict.TRAP in verdicts else 2 if Verdict.NOT_CHECKED in verdicts else 0
