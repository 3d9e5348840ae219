"""The findings of an audit, and its report. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from kafka_zk.base.types import TopicPartition


class Kind(Enum):
    """Kinds of findings, in the order of the report."""

    FILE = "missing or damaged file"
    TWICE = "file listed twice"
    DUPLICATE = "duplicates"
    GAP = "gap"
    BEFORE = "records before the first row"
    ABSENT = "partition without rows"
    AHEAD = "offsets that the topic does not have"
    NO_PLACE = "rows without topic, partition or offset"
    # kinds for merged tables, whose rows have keys
    MISSING = "missing row"
    REMAINS = "deleted row that remains"
    OUTDATED = "row of an older event"
    ALTERED = "row that differs from its event"
    EXTRA = "row without an event"
    NEWER = "row newer than the topic"
    SHIFTED = "key that changed places"
    BEHIND = "event that may not have been read yet"


@dataclass(frozen=True, slots=True)
class Finding:
    """``count``: number of rows or offsets concerned; None if not known. ``first`` and ``last``: the offsets, both
    included. ``commits``: the commits that caused the finding, where known. ``repair``: statements, or a sentence.
    ``key``: the row's key as JSON, in a merged table.
    """

    kind: Kind
    said: str
    tp: TopicPartition | None = None
    first: int | None = None
    last: int | None = None
    count: int | None = None
    files: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    repair: tuple[str, ...] = ()
    key: str | None = None

    def as_document(self) -> dict[str, Any]:
        return {
            "kind": self.kind.name, "topic": self.tp and self.tp.topic, "partition": self.tp and self.tp.partition,
            "first": self.first, "last": self.last, "count": self.count, "said": self.said, "files": list(self.files),
            "commits": list(self.commits), "repair": list(self.repair), "key": self.key,
        }  # fmt: skip


class PartitionRow(NamedTuple):
    """``missing``: the number of offsets in gaps that the topic, if it was read, does not explain. ``earliest`` and
    ``latest``: the bounds of the topic's log; None if it was not read.
    """

    topic: str
    partition: int
    first: int
    last: int
    rows: int
    duplicates: int
    missing: int
    earliest: int | None = None
    latest: int | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """``left_out``: number of findings that are not described, by kind. ``files_read``: files whose rows were read.
    ``files_by_bounds``: files whose rows were not all read, because row count and bounds agree.
    """

    format: str
    files: int
    files_read: int
    files_by_bounds: int
    rows: int
    partitions: Sequence[PartitionRow]
    findings: Sequence[Finding]
    left_out: dict[Kind, int]
    not_checked: Sequence[str]

    def as_document(self) -> dict[str, Any]:
        return {
            "format": self.format, "files": self.files, "filesRead": self.files_read,
            "filesByBounds": self.files_by_bounds, "rows": self.rows,
            "partitions": [each._asdict() for each in self.partitions],
            "findings": [each.as_document() for each in self.findings],
            "leftOut": {kind.name: count for kind, count in self.left_out.items()},
            "notChecked": list(self.not_checked),
        }  # fmt: skip
