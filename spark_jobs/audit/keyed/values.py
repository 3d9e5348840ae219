"""Compares the values of an event with those of a table's row. Pure.

Only values of the same kind can be compared. A number and a timestamp, for example, are of different kinds, unless a
type says what the number means.
"""

import math
import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (int, "a number"),
    (float, "a number"),
    (Decimal, "a decimal"),
    (str, "text"),
    (bytes, "bytes"),
    (datetime, "a timestamp"),  # listed before date, its base class
    (date, "a date"),
)


class Compared(NamedTuple):
    """``differing``: names of columns. ``unlike``: sentences about columns whose values are of different kinds."""

    differing: list[str]
    unlike: list[str]


def compare(columns: Mapping[str, Any], row: Mapping[str, Any]) -> Compared:
    """``columns``: the event's columns; others are not compared."""
    found = Compared([], [])
    for name, value in sorted(columns.items()):
        cell = row[name]
        if _is_equal(value, cell):
            continue
        kinds = _kind(value), _kind(cell)
        if None in (value, cell) or kinds[0] == kinds[1]:
            found.differing.append(name)
        else:
            found.unlike.append(f"{name} is {kinds[0]} in the events and {kinds[1]} in the table")
    return found


def _kind(value: Any) -> str:
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "of another type")


def _is_equal(value: Any, cell: Any) -> bool:
    if value is None or cell is None:
        return value is cell
    if isinstance(value, datetime) and isinstance(cell, datetime):
        return _in_utc(value) == _in_utc(cell)
    if isinstance(value, float) and isinstance(cell, float):
        return value == cell or (math.isnan(value) and math.isnan(cell)) or _as_single(value) == cell
    return bool(value == cell)


def _in_utc(value: datetime) -> datetime:
    """A timestamp without a zone is in UTC."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


def _as_single(value: float) -> float:
    """The number as a column of the type FLOAT stores it."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.inf
