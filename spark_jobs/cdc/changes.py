"""One change of one row. The readers produce changes, and ``key_states.py`` merges them.

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
"""The forms in which records describe changes: Debezium events, or rows and tombstones."""
Position = tuple[int, ...]
Key = str
"""The columns of a key as JSON with sorted names, so that equal keys are equal strings."""


class Op(enum.Enum):
    UPSERT = "upsert"
    DELETE = "delete"
    TRUNCATE = "truncate"  # deletes all rows whose position is not newer


class Rank(NamedTuple):
    """Ranks of one key are comparable if their positions have the same length."""

    position: Position
    offset: int


@dataclass(frozen=True, slots=True)
class Change:
    """``columns``: the known values; columns that the record lacks are absent. ``placeholders``: the columns whose
    unchanged value the connector did not send. ``moved_from``, ``moved_to``: the old and the new key, if the primary
    key has changed; each is set in the event of the other key. A truncate has no key.
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
