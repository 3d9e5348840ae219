"""A table's data files, as the table's metadata describe them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafka_zk.base.types import TopicPartition

TOPIC, PARTITION, OFFSET = "topic", "partition", "offset"


class Columns(NamedTuple):
    """The paths of the columns, with dots, as the table names them. ``topic``: None if the table has no such column."""

    topic: str | None
    partition: str
    offset: str

    def named(self) -> dict[str, str]:
        """The paths of the columns by TOPIC, PARTITION and OFFSET, without columns that do not exist."""
        return {name: path for name, path in zip((TOPIC, PARTITION, OFFSET), self, strict=True) if path is not None}


class Bounds(NamedTuple):
    """The exact minimum and maximum of a column in a file, and its number of nulls; None where not known."""

    low: Any
    high: Any
    null_count: int | None


class Run(NamedTuple):
    tp: TopicPartition
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """``path``: in the file system's form. ``row_count``: None if only the file itself contains it. ``bounds``: by
    TOPIC, PARTITION and OFFSET, where known. ``fixed``: the values of columns that only the name of the file's folder
    contains. ``commit``: the commit that added the file, empty if not known. ``size_bytes``: None if not known.
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
    """The offsets of a file or row group, if its bounds and its row count agree; None if the rows must be read.

    ``topic``: the topic of a table that has no column for it, else None. The bounds and the count agree if all rows are
    of one partition, and there are as many rows as offsets between the bounds.
    """
    offsets = bounds.get(OFFSET)
    tp = TopicPartition(_only(TOPIC, bounds, fixed, topic), _only(PARTITION, bounds, fixed, None))
    if row_count is None or offsets is None or offsets.null_count != 0:
        return None
    if not (isinstance(tp.topic, str) and _is_whole(tp.partition, offsets.low, offsets.high)):
        return None
    if offsets.high - offsets.low + 1 != row_count:
        return None
    return Run(tp, offsets.low, offsets.high)


def _is_whole(*values: Any) -> bool:
    """True for integers only: strings may contain integers, too, but are not ordered like them."""
    return all(isinstance(each, int) for each in values)


def _only(name: str, bounds: Mapping[str, Bounds], fixed: Mapping[str, Any], default: Any) -> Any:
    """The column's value if all rows have the same value, else None."""
    if name in fixed:
        return fixed[name]
    found = bounds.get(name)
    if found is None:
        return default
    if found.low != found.high or found.null_count != 0:
        return None
    is_number = name == PARTITION and isinstance(found.low, str) and found.low.isdecimal()
    return int(found.low) if is_number else found.low
