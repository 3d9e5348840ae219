"""What an executor does for a merge: read staged records as changes, and fold those of some keys into rows.

Both work on Arrow batches. They import neither Spark nor anything of the driver's.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

from kafka_zk.spark_jobs.cdc.changes import DEBEZIUM, Change, Key, Op, Position
from kafka_zk.spark_jobs.cdc.folding import Fold
from kafka_zk.spark_jobs.cdc.given_types import given_types
from kafka_zk.spark_jobs.cdc.key_states import KeyState
from kafka_zk.spark_jobs.cdc.readers import debezium_change, json_record, keyed_change
from kafka_zk.spark_jobs.cdc.stored_states import change_of, change_text, merged, state_of, state_text

CHANGES_DDL = "key STRING, other STRING, truncated_at ARRAY<BIGINT>, partition INT, offset BIGINT, change STRING"
"""``other``: the other key of a changed key."""
ORDERED = ("name", "key", "partition", "offset", "change", "state", "row")
"""``name``: of the keys that are folded together. A row has a change, with its partition and offset, or a state."""
_ROWS_AT_ONCE = 1_000


class ReadChanges:
    """``changes`` is for ``mapInArrow``: staged records in, CHANGES_DDL out; raises ChangeRefused."""

    def __init__(self, mode: str, schema: str) -> None:
        self._mode = mode
        self._schema = schema

    def changes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        types = given_types(self._schema)
        read = debezium_change if self._mode == DEBEZIUM else keyed_change
        for batch in batches:
            found = []
            for row in batch.to_pylist():
                record = json_record(
                    row["topic"], row["partition"], row["offset"], row["key"], row["value"], dict(row["headers"] or ())
                )
                if (change := read(record, types)) is not None:
                    found.append(_row_of(_of_columns(change, types.keys())))
            yield pa.RecordBatch.from_pylist(found, schema=_CHANGES)


_CHANGES = pa.schema(
    [
        ("key", pa.string()),
        ("other", pa.string()),
        ("truncated_at", pa.list_(pa.int64())),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("change", pa.string()),
    ]
)


def _of_columns(change: Change, names: Set[str]) -> Change:
    known = {name: value for name, value in change.columns.items() if name in names}
    return replace(change, columns=known, placeholders=change.placeholders & names)


def _row_of(change: Change) -> dict[str, Any]:
    truncates = change.op is Op.TRUNCATE
    return {
        "key": None if truncates else change.key,
        "other": change.moved_from or change.moved_to,
        "truncated_at": list(change.rank.position) if truncates else None,
        "partition": change.partition,
        "offset": change.rank.offset,
        "change": change_text(change),
    }


class FoldChanges:
    """``folded`` is for ``mapInArrow``: rows with the columns of ORDERED in, sorted by name, partition and offset,
    nulls first, so that the keys of a name are together, and their known states come before their changes. Returns a
    row for each key: key, lives, position, state, before (the state that the table's row had), and the columns.

    Holds one batch, and the states of one name, however many changes a key has.
    """

    def __init__(self, schema: str, result: pa.Schema, truncated_at: Position | None) -> None:
        self._names = tuple(given_types(schema))
        self._result = result
        self._truncated_at = truncated_at

    def folded(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: list[dict[str, Any]] = []
        rows = (row for batch in batches for row in batch.to_pylist())
        for _, of_name in groupby(rows, key=itemgetter("name")):
            found += self._folded(of_name)
            if len(found) >= _ROWS_AT_ONCE:
                yield pa.RecordBatch.from_pylist(found, schema=self._result)
                found = []
        yield pa.RecordBatch.from_pylist(found, schema=self._result)

    def _folded(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        states: dict[Key, KeyState] = {}
        before: dict[Key, str] = {}
        fold = Fold(states, self._truncated_at)
        for row in rows:
            key = row["key"]
            if row["change"] is not None:
                fold.apply(change_of(row["change"]))
                continue
            if row["row"] is not None:
                before[key] = row["state"]
            found = state_of(row["state"], row["row"])
            states[key] = merged(states[key], found) if key in states else found
        for key, state in sorted(fold.states.items()):
            yield self._row(key, state, before.get(key))

    def _row(self, key: Key, state: KeyState, before: str | None) -> dict[str, Any]:
        row = state.row(self._truncated_at)
        newest = state.newest
        return {
            "key": key,
            "lives": row is not None,
            "position": list(newest.position) if newest is not None else [],
            "state": state_text(state, self._truncated_at),
            "before": before,
            **{name: (row or {}).get(name) for name in self._names},
        }
