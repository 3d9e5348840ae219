"""A table's data files, as its metadata describe them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafka_zk.base.types import TopicPartition

TOPIC, PARTITION, OFFSET = "topic", "partition", "offset"


class Columns(NamedTuple):
    """Paths with dots, as the table names them. ``topic``: None if the table has no such column."""

    topic: str | None
    partition: str
    offset: str

    def named(self) -> dict[str, str]:
        """TOPIC, PARTITION and OFFSET, as far as they exist -> the column's path."""
        return {name: path for name, path in zip((TOPIC, PARTITION, OFFSET), self, strict=True) if path is not None}


class Bounds(NamedTuple):
    """The least and greatest value of a column in a file, both exact, and the number of nulls (None: not known)."""

    low: Any
    high: Any
    null_count: int | None


class Run(NamedTuple):
    tp: TopicPartition
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """``path``: as the file system has it. ``row_count``: None if only the file itself says. ``bounds``: by TOPIC,
    PARTITION and OFFSET, as far as known. ``fixed``: values of columns that are in the file's folder, not in the file.
    ``commit``: what added the file, empty if not known. ``size_bytes``: None if not known.
    """

    path: str
    row_count: int | None = None
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    commit: str = ""
    size_bytes: int | None = None


def dense_run(
    row_count: int | None, bounds: Mapping[str, Bounds], fixed: Mapping[str, Any], topic: str | None
) -> Run | None:
    """The offsets of a file or row group whose bounds and count agree; None if only its rows can say.

    ``topic``: of a table without a column for it, else None. Bounds and count of one partition agree if there
    are as many rows as offsets between the bounds.
    """
    offsets = bounds.get(OFFSET)
    tp = TopicPartition(_only(TOPIC, bounds, fixed, topic), _only(PARTITION, bounds, fixed, None))
    if row_count is None or offsets is None or offsets.null_count != 0 or None in tp:
        return None
    if offsets.high - offsets.low + 1 != row_count:
        return None
    return Run(tp, offsets.low, offsets.high)


def _only(name: str, bounds: Mapping[str, Bounds], fixed: Mapping[str, Any], default: Any) -> Any:
    """The column's value if all rows have the same one, else None."""
    if name in fixed:
        return fixed[name]
    found = bounds.get(name)
    if found is None:
        return default
    return found.low if found.low == found.high and found.null_count == 0 else None
