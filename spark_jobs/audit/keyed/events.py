"""First step of an audit by keys: executors turn a topic's records into events, which determine the expected rows.

Each row of EVENTS_DDL has a ``kind``: KEY for an event of one key, TRUNCATE, or REFUSED for a record that is not a
change, with the reason in ``content``. Records that change no row yield no event.

``rank`` orders the events of a key. It is the event's position in the database, or else the record's offset.
Events with equal ``content`` lead to equal rows. If an event changes a key, ``moved`` is its transaction and its row,
as JSON.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

from kafka_zk.spark_jobs.cdc.changes import DEBEZIUM, Change, Op, Rank
from kafka_zk.spark_jobs.cdc.connect_types import ColumnType
from kafka_zk.spark_jobs.cdc.given_types import given_types
from kafka_zk.spark_jobs.cdc.readers import (
    ChangeRecord,
    avro_record,
    debezium_change,
    json_record,
    keyed_change,
    unpacked,
)
from kafka_zk.spark_jobs.cdc.stored_states import change_text
from kafka_zk.spark_jobs.errors import ChangeRefused
from kafka_zk.spark_jobs.values.value_decoder import ValueDecoder

KEY, TRUNCATE, REFUSED = "key", "truncate", "refused"
EVENTS_DDL = (
    "kind STRING, keys ARRAY<STRING>, key STRING, partition INT, offset BIGINT, rank ARRAY<BIGINT>, "
    "has_position BOOLEAN, is_delete BOOLEAN, content STRING, moved STRING"
)
_EVENTS = pa.schema(
    [
        ("kind", pa.string()),
        ("keys", pa.list_(pa.string())),
        ("key", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("rank", pa.list_(pa.int64())),
        ("has_position", pa.bool_()),
        ("is_delete", pa.bool_()),
        ("content", pa.string()),
        ("moved", pa.string()),
    ]
)
_NO_RANK = Rank((), 0)


class ReadEvents:
    """``events`` is for ``mapInArrow``. Its input columns are topic, partition, offset, key, value and headers; its
    output columns are EVENTS_DDL.

    ``schema``: as for ``--schema``, or None. ``key``: the table's key columns. ``compared``: the columns to keep.
    ``avro``: decodes keys and values; None for JSON.
    """

    def __init__(
        self, mode: str, schema: str | None, key: Sequence[str], compared: Iterable[str],
        avro: ValueDecoder | None = None,
    ) -> None:  # fmt: skip
        self._mode = mode
        self._schema = schema
        self._key = tuple(key)
        self._compared = frozenset(compared)
        self._avro = avro

    def events(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        types = given_types(self._schema) if self._schema else {}
        for batch in batches:
            found = (self._event(row, types) for row in batch.to_pylist())
            yield pa.RecordBatch.from_pylist([each for each in found if each is not None], schema=_EVENTS)

    def _event(self, row: Mapping[str, Any], types: Mapping[str, ColumnType]) -> dict[str, Any] | None:
        read = debezium_change if self._mode == DEBEZIUM else keyed_change
        place = {"partition": row["partition"], "offset": row["offset"], "rank": [row["offset"]]}
        try:
            record = self._record(row)
            change = read(record, types)
            return None if change is None else self._row(change, record, types)
        except ChangeRefused as error:
            return {"kind": REFUSED, **place, "content": str(error)}

    def _record(self, row: Mapping[str, Any]) -> ChangeRecord:
        headers = {each["key"]: each["value"] for each in row["headers"] or ()}
        given = row["topic"], row["partition"], row["offset"], row["key"], row["value"], headers
        return json_record(*given) if self._avro is None else avro_record(*given, self._avro.decode)

    def _row(self, change: Change, record: ChangeRecord, types: Mapping[str, ColumnType]) -> dict[str, Any]:
        position = list(change.rank.position)
        truncates = change.op is Op.TRUNCATE
        keys = {} if truncates else self._keys(record, types)
        return {
            "kind": TRUNCATE if truncates else KEY,
            "keys": None if truncates else [_key_text(value) for value in keys.values()],
            "key": json.dumps({name: _shown(value) for name, value in keys.items()}, ensure_ascii=False),
            "partition": change.partition,
            "offset": change.rank.offset,
            "rank": position or [change.rank.offset],
            "has_position": bool(position),
            "is_delete": change.op is Op.DELETE,
            "content": _content(change, self._compared),
            "moved": _moved(change, record.value),
        }

    def _keys(self, record: ChangeRecord, types: Mapping[str, ColumnType]) -> dict[str, Any]:
        _, found = unpacked(record.key)
        if absent := [name for name in self._key if found.get(name) is None]:
            raise ChangeRefused(f"{record}: the key has {', '.join(found)}, and no {absent[0]}, which --key names")
        values = ((name, found[name]) for name in self._key)
        return {name: types[name].read(name, value) if name in types else value for name, value in values}


def _key_text(value: Any) -> str:
    """The value as a string that Spark can cast to the column's type; bytes are in hexadecimal."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value.isoformat() if isinstance(value, date) else str(value)


def _shown(value: Any) -> Any:
    return value if isinstance(value, (bool, int, str)) else _key_text(value)


def _content(change: Change, compared: frozenset[str]) -> str:
    """What the row must contain, without the event's offset and position. Nested values are left out, because they are
    not compared."""
    columns = {
        name: value
        for name, value in change.columns.items()
        if name in compared and not isinstance(value, (dict, list))
    }
    placeholders = change.placeholders & compared
    return change_text(Change(change.op, _NO_RANK, 0, columns=columns, placeholders=placeholders))


def _moved(change: Change, value: Any) -> str | None:
    """None unless the envelope names a transaction. Only PostgreSQL's envelopes do, and only PostgreSQL can defer the
    check of a key.
    """
    if value is None or (change.moved_from is None and change.moved_to is None):
        return None
    envelope = value.get("payload", value)
    transaction = (envelope.get("source") or {}).get("txId")
    row = envelope.get("before") if change.op is Op.DELETE else envelope.get("after")
    if transaction is None or not row:
        return None
    return json.dumps({"transaction": transaction, "row": row}, default=str)


def is_shift(left: str | None, taken: str | None) -> bool:
    """True if, in one transaction, one row gave up the key and another row took it, while the key's check was deferred.
    ``left``, ``taken``: ``moved`` of the newest delete and of the newest upsert.

    In this case the deleted row differs from the upserted one. Old values that the event lacks are null, and are not
    compared.
    """
    if left is None or taken is None:
        return False
    old, new = json.loads(left), json.loads(taken)
    if old["transaction"] != new["transaction"]:
        return False
    return any(value is not None and name in new["row"] and new["row"][name] != value
               for name, value in old["row"].items())  # fmt: skip
