"""What an executor does for a merge: read staged records as changes, and fold those of some keys into rows.

Both work on Arrow tables. They import neither Spark nor anything of the driver's.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import pyarrow as pa

from kafka_zk.spark_jobs.cdc.changes import DEBEZIUM, Change, Key, Op, Position
from kafka_zk.spark_jobs.cdc.folding import Fold
from kafka_zk.spark_jobs.cdc.given_types import given_types
from kafka_zk.spark_jobs.cdc.key_states import KeyState
from kafka_zk.spark_jobs.cdc.readers import debezium_change, json_record, keyed_change
from kafka_zk.spark_jobs.cdc.stored_states import change_of, change_text, merged, state_of, state_text

CHANGES_DDL = "key STRING, other STRING, truncated_at ARRAY<BIGINT>, change STRING"
"""``other``: the other key of a changed key."""


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
    [("key", pa.string()), ("other", pa.string()), ("truncated_at", pa.list_(pa.int64())), ("change", pa.string())]
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
        "change": change_text(change),
    }


class FoldChanges:
    """``folded`` is for ``applyInArrow``: one group of keys, with columns key, change, state, row. Returns a row for
    each key: key, lives, position, state, before (the state that the table's row had), and the columns.
    """

    def __init__(self, schema: str, result: pa.Schema, truncated_at: Position | None) -> None:
        self._names = tuple(given_types(schema))
        self._result = result
        self._truncated_at = truncated_at

    def folded(self, table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        states, before = _states(rows)
        fold = Fold(states, self._truncated_at)
        changes = [change_of(row["change"]) for row in rows if row["change"] is not None]
        for change in sorted(changes, key=lambda each: (each.partition, each.rank.offset)):
            fold.apply(change)
        found = [self._row(key, state, before.get(key)) for key, state in sorted(fold.states.items())]
        return pa.Table.from_pylist(found, schema=self._result)

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


def _states(rows: Sequence[Mapping[str, Any]]) -> tuple[dict[Key, KeyState], dict[Key, str]]:
    """The states that both tables have, and as text those of the rows."""
    states: dict[Key, KeyState] = {}
    before: dict[Key, str] = {}
    for row in rows:
        if row["state"] is None:
            continue
        key = row["key"]
        if row["row"] is not None:
            before[key] = row["state"]
        found = state_of(row["state"], row["row"])
        states[key] = merged(states[key], found) if key in states else found
    return states, before
