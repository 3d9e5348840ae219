"""The result of each topic of a database, and one exit code for all. Pure."""

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafka_zk.spark_jobs.errors import ForeignCommit, GroupBusy
from kafka_zk.spark_jobs.extraction.planning import Report


class Outcome(enum.StrEnum):
    EXTRACTED = "extracted"
    PLANNED = "planned"  # --dry-run
    NOTHING_NEW = "nothing new"
    EMPTY = "empty"  # the topic never had a record
    LEFT_OUT = "left out"
    SHORT = "short"  # transactions are open
    FAILED = "failed"
    BUSY = "busy"
    OVERTAKEN = "overtaken"
    NOT_TRIED = "not tried"


_EXIT_CODES = {
    Outcome.FAILED: 1,
    Outcome.NOT_TRIED: 1,
    Outcome.BUSY: 3,
    Outcome.OVERTAKEN: 4,
    Outcome.SHORT: 5,
}
"""The exit codes of an extraction of one topic. For several topics, the first outcome in this order decides."""


@dataclass(frozen=True, slots=True)
class TopicResult:
    """``reason``: why there is no table, or no more records; "" if everything requested is done. ``records``: number of
    records written, or of offsets that would be extracted.
    """

    topic: str
    target: str
    outcome: Outcome
    reason: str = ""
    group: str = ""
    records: int = 0
    seconds: float = 0.0
    report: Report | None = None

    def as_row(self) -> dict[str, Any]:
        told = f"{self.outcome}: {self.reason}" if self.reason else str(self.outcome)
        is_done = self.report is not None
        return {
            "topic": self.topic,
            "table": self.target or None,
            "records": self.records if is_done else None,
            "seconds": f"{self.seconds:.1f}" if is_done else None,
            "result": told,
        }

    def as_document(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "table": self.target or None,
            "group": self.group or None,
            "result": str(self.outcome),
            "reason": self.reason or None,
            "records": self.records,
            "seconds": round(self.seconds, 3),
            "report": None if self.report is None else self.report.as_document(),
        }


def reported(topic: str, target: str, group: str, report: Report, *, is_plan: bool) -> TopicResult:
    """The result of an extraction that ended well."""
    planned = sum(each.until_offset - each.from_offset for each in report.partitions)
    outcome, reason = Outcome.NOTHING_NEW, ""
    if report.short and not is_plan:
        outcome = Outcome.SHORT
        reason = f"{report.short:,} requested offsets are behind open transactions: run it again"
    elif is_plan and planned:
        outcome = Outcome.PLANNED
    elif report.published:
        outcome = Outcome.EXTRACTED
    records = planned if is_plan else report.records
    return TopicResult(topic, target, outcome, reason, group, records, report.seconds, report)


def failed(topic: str, target: str, group: str, error: Exception, reason: str) -> TopicResult:
    kinds = {GroupBusy: Outcome.BUSY, ForeignCommit: Outcome.OVERTAKEN}
    outcome = next((each for kind, each in kinds.items() if isinstance(error, kind)), Outcome.FAILED)
    return TopicResult(topic, target, outcome, reason, group)


def exit_code(results: Iterable[TopicResult]) -> int:
    """0 if everything requested is done."""
    found = {each.outcome for each in results}
    return next((code for outcome, code in _EXIT_CODES.items() if outcome in found), 0)


def summary(results: Iterable[TopicResult]) -> str:
    """Such as "200 topics: 3 extracted, 196 nothing new, 1 failed"."""
    counts = Counter(each.outcome for each in results)
    told = ", ".join(f"{counts[each]:,} {each}" for each in Outcome if counts[each])
    return f"{counts.total():,} topic{'s' if counts.total() != 1 else ''}: {told}"
