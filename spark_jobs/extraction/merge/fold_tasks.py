"""An executor's part of a merge: it reads staged records as changes, and folds the changes of some keys into rows.

Both steps work on Arrow batches. This module imports neither Spark nor the driver's modules.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

from kafka_zk.spark_jobs.cdc.changes import DEBEZIUM, Change, Key, Op, Position
from kafka_zk.spark_jobs.cdc.folding import Fold
from kafka_zk.spark_jobs.cdc.given_types import ends_of, given_types
from kafka_zk.spark_jobs.cdc.key_states import KeyState
from kafka_zk.spark_jobs.cdc.readers import (
    METADATA,
    ChangeRecord,
    avro_record,
    debezium_change,
    json_record,
    keyed_change,
)
from kafka_zk.spark_jobs.cdc.stored_states import change_of, change_text, merged, state_of, state_text
from kafka_zk.spark_jobs.errors import ChangeRefused
from kafka_zk.spark_jobs.values.value_decoder import ValueDecoder

CHANGES_DDL = "key STRING, other STRING, truncated_at ARRAY<BIGINT>, partition INT, offset BIGINT, change STRING"
"""``other``: the other key, if the key of a row has changed."""
ORDERED = ("name", "key", "partition", "offset", "change", "state", "row")
"""``name``: the name of the group of keys that are folded together. A row has either a change, with its partition and
offset, or a state."""
_ROWS_AT_ONCE = 1_000


class ReadChanges:
    """``changes`` is for ``mapInArrow``: it gets staged records, and returns CHANGES_DDL. It raises ChangeRefused.

    ``avro``: decodes keys and values; None for JSON.
    """

    def __init__(self, mode: str, schema: str, avro: ValueDecoder | None = None) -> None:
        self._mode = mode
        self._schema = schema
        self._avro = avro

    def changes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        types, ends = given_types(self._schema), ends_of(self._schema)
        read = debezium_change if self._mode == DEBEZIUM else keyed_change
        for batch in batches:
            found = []
            for row in batch.to_pylist():
                record = self._record(row)
                if (change := read(record, types)) is not None:
                    if ends is not None and record.offset >= ends.get(record.partition, 0):
                        _check_has_columns(change, types.keys(), record)
                    found.append(_row_of(_of_columns(change, types.keys())))
            yield pa.RecordBatch.from_pylist(found, schema=_CHANGES)

    def _record(self, row: Mapping[str, Any]) -> ChangeRecord:
        where = row["topic"], row["partition"], row["offset"]
        headers = dict(row["headers"] or ())
        if self._avro is None:
            return json_record(*where, row["key"], row["value"], headers)
        return avro_record(*where, row["key"], row["value"], headers, self._avro.decode)


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


def _check_has_columns(change: Change, names: Set[str], record: ChangeRecord) -> None:
    """Raises ChangeRefused for a column that the database got after the columns had been derived."""
    columns = change.columns.keys() | change.placeholders
    if newer := sorted(name for name in columns - names if not name.startswith(METADATA)):
        raise ChangeRefused(f"{record}: the column {newer[0]} is newer than the columns of this run: run it again")


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
    """``folded`` is for ``mapInArrow``. It gets rows with the columns of ORDERED, sorted by name, partition and offset,
    nulls first. So the keys of one name are together, and their known states come before their changes. It returns a
    row for each key: key, lives, position, state, before (the state that the table's row had), and the columns. It
    holds one batch and the states of one name in memory, however many changes a key has.
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
