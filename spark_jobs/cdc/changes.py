"""One change of one row, as the readers produce it and ``key_states.py`` merges it.

A position is a tuple of integers that the source database assigned: ``(lsn,)`` for PostgreSQL, ``(file, pos, row)`` for
MariaDB and MySQL, ``()`` for records that carry none. The rank of a change is its position, then its offset.
"""

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

DEBEZIUM, KEYED = "debezium", "keyed"
MODES = (DEBEZIUM, KEYED)
"""How records say what changed: events of Debezium, or rows and tombstones."""
Position = tuple[int, ...]
Key = str
"""The columns of a key as JSON with sorted names: equal keys are equal texts."""


class Op(enum.Enum):
    UPSERT = "upsert"
    DELETE = "delete"
    TRUNCATE = "truncate"  # all rows whose position is not newer


class Rank(NamedTuple):
    """Ranks of one key are comparable if their positions have the same length."""

    position: Position
    offset: int


@dataclass(frozen=True, slots=True)
class Change:
    """``columns``: the known values; columns that the record lacks are absent. ``placeholders``: the columns whose
    unchanged value the connector did not send. ``moved_from``, ``moved_to``: the other key of a changed primary key.
    A truncate has no key.
    """

    op: Op
    rank: Rank
    partition: int
    key: Key = ""
    columns: Mapping[str, Any] = field(default_factory=dict)
    placeholders: frozenset[str] = frozenset()
    moved_from: Key | None = None
    moved_to: Key | None = None


def key_of(columns: Mapping[str, Any]) -> Key:
    return json.dumps(columns, sort_keys=True, separators=(",", ":"), default=str)
