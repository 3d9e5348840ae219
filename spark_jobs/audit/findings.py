"""What an audit may find, and its report. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from kafka_zk.base.types import TopicPartition


class Kind(Enum):
    """In the order of the report."""

    FILE = "missing or damaged file"
    TWICE = "file listed twice"
    DUPLICATE = "duplicates"
    GAP = "gap"
    BEFORE = "records before the first row"
    ABSENT = "partition without rows"
    AHEAD = "offsets that the topic does not have"
    NO_PLACE = "rows without partition or offset"


@dataclass(frozen=True, slots=True)
class Finding:
    """``count``: rows or offsets concerned; None if not known. ``first`` and ``last``: the offsets, both included.
    ``commits``: what brought it, as far as known. ``repair``: statements, or a sentence.
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

    def as_document(self) -> dict[str, Any]:
        return {
            "kind": self.kind.name, "topic": self.tp and self.tp.topic, "partition": self.tp and self.tp.partition,
            "first": self.first, "last": self.last, "count": self.count, "said": self.said, "files": list(self.files),
            "commits": list(self.commits), "repair": list(self.repair),
        }  # fmt: skip


class PartitionRow(NamedTuple):
    """``missing``: the offsets of its gaps that the topic, if it was asked, does not explain. ``earliest`` and
    ``latest``: of the topic's log; None if it was not asked.
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
    """``left_out``: findings beyond those that are described, by kind. ``files_read``: files whose rows were read."""

    format: str
    files: int
    files_read: int
    rows: int
    partitions: Sequence[PartitionRow]
    findings: Sequence[Finding]
    left_out: dict[Kind, int]
    not_checked: Sequence[str]

    def as_document(self) -> dict[str, Any]:
        return {
            "format": self.format, "files": self.files, "filesRead": self.files_read, "rows": self.rows,
            "partitions": [each._asdict() for each in self.partitions],
            "findings": [each.as_document() for each in self.findings],
            "leftOut": {kind.name: count for kind, count in self.left_out.items()},
            "notChecked": list(self.not_checked),
        }  # fmt: skip
