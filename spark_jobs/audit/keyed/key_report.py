"""The report of an audit by keys. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka_zk.spark_jobs.audit.findings import Finding, Kind

NO_FAULT = (Kind.SHIFTED, Kind.BEHIND)
"""Kinds of findings that do not prove that a key's row is wrong."""


class KeyPartition(NamedTuple):
    """Counts the keys whose last event is in the partition: ``keys`` in all, of which ``agree`` agree with their row,
    ``behind`` are behind, and ``problems`` have other problems. ``shown``: the greatest offset that was consumed
    according to the table or the group; -1 if unknown. ``earliest`` and ``latest``: the bounds of the log.
    """

    topic: str
    partition: int
    keys: int
    agree: int
    behind: int
    problems: int
    shown: int
    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class KeyReport:
    """``has_ranks``: True if the table stores the position of each row's event; otherwise only values were compared.
    ``counts``: the number of all findings, by kind; ``findings`` describes some of them.
    """

    format: str
    key: Sequence[str]
    has_ranks: bool
    compared: Sequence[str]
    partitions: Sequence[KeyPartition]
    findings: Sequence[Finding]
    counts: dict[Kind, int]
    not_checked: Sequence[str]

    @property
    def exit_code(self) -> int:
        """0: clean. 1: faults. 2: no fault, but something was not checked, or some events may still be unread."""
        if any(kind not in NO_FAULT for kind in self.counts):
            return 1
        return 2 if self.counts or self.not_checked else 0

    def as_document(self) -> dict[str, Any]:
        return {
            "format": self.format, "key": list(self.key), "comparedBy": "position" if self.has_ranks else "values",
            "columns": list(self.compared), "partitions": [each._asdict() for each in self.partitions],
            "counts": {kind.name: count for kind, count in self.counts.items()},
            "findings": [each.as_document() for each in self.findings], "notChecked": list(self.not_checked),
        }  # fmt: skip
