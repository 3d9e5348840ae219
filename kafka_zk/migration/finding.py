"""A rule, and its findings in a cluster. Pure."""

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka_zk.migration.facts import ClusterFacts, Fact, Node, Unknown

T = TypeVar("T")

Seen = Iterator[str | Unknown]
"""Sentences about a trap, and facts that were needed but are not known."""


class NotKnown(Exception):
    """A check needs an unknown fact."""

    def __init__(self, unknown: Unknown) -> None:
        super().__init__(unknown.reason)
        self.unknown = unknown


class DoesNotApply(Exception):
    """A check finds nothing to examine, because the cluster has no controllers yet."""


def known(fact: Fact[T]) -> T:
    """Return the fact. Raises NotKnown, which ends the check."""
    if isinstance(fact, Unknown):
        raise NotKnown(fact)
    return fact


def of_each(nodes: Iterable[Node], check: Callable[[Node], Seen]) -> Seen:
    """The results for all nodes. An unknown fact about one node does not end the check of the other nodes."""
    for node in nodes:
        try:
            yield from check(node)
        except NotKnown as error:
            yield error.unknown


class Verdict(enum.StrEnum):
    CLEAN = "clean"
    TRAP = "trap"
    NOT_CHECKED = "not checked"
    DOES_NOT_APPLY = "does not apply"


@dataclass(frozen=True, slots=True)
class Rule:
    """``why``: why the trap matters. ``fix``: how to fix it. ``source``: an issue, or a run of 3.9.1. ``until``: the
    release up to which the trap matters; empty if it matters in all releases."""

    name: str
    check: Callable[[ClusterFacts], Seen]
    why: str
    fix: str
    source: str
    until: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """``seen``: one sentence for each trap. ``missing``: the facts without which the rule is not fully checked.
    ``applies``: False if there was nothing to examine."""

    rule: Rule
    seen: tuple[str, ...]
    missing: tuple[Unknown, ...]
    applies: bool = True

    @property
    def verdict(self) -> Verdict:
        if self.seen:
            return Verdict.TRAP
        if self.missing:
            return Verdict.NOT_CHECKED
        return Verdict.CLEAN if self.applies else Verdict.DOES_NOT_APPLY

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
    applies = True
    try:
        for each in rule.check(facts):
            if isinstance(each, Unknown):
                missing[each] = None
            else:
                seen[each] = None
    except NotKnown as error:
        missing[error.unknown] = None
    except DoesNotApply:
        applies = False
    return Finding(rule, tuple(seen), tuple(missing), applies)


def exit_code(findings: Iterable[Finding]) -> int:
    """0: all rules that apply are clean. 1: there is a trap. 2: no trap, but something was not checked."""
    verdicts = {each.verdict for each in findings}
    return 1 if Verdict.TRAP in verdicts else 2 if Verdict.NOT_CHECKED in verdicts else 0
