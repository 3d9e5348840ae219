"""Reads the changes of rows from records: Debezium's envelopes and unwrapped rows, or plain rows and tombstones.

    debezium   {"before": …, "after": …, "source": …, "op": "c"}   ops c, r, u, d, t; m changes no row
               {columns…, "__deleted": "false", "__op": "c", "__lsn": 1}   unwrapped, deletes rewritten
               tombstones change nothing: a delete precedes each
    keyed      {columns…}, and a tombstone deletes; offsets give the order

Keys and values are JSON or Avro (``avro_record``). Values are converted by ``types``, or else by schemas in JSON.
Headers are JSON.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafka_zk.spark_jobs.cdc import positions
from kafka_zk.spark_jobs.cdc.changes import Change, Key, Op, Rank, key_of
from kafka_zk.spark_jobs.cdc.connect_types import ColumnType, columns_of, holds_all_of
from kafka_zk.spark_jobs.cdc.placeholders import is_placeholder
from kafka_zk.spark_jobs.errors import ChangeRefused

Types = Mapping[str, ColumnType]
_OLD_KEY, _NEW_KEY = "__debezium.oldkey", "__debezium.newkey"
METADATA = "__"
DELETED = "__deleted"
_UPSERTS = ("c", "r", "u")


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """``key``, ``value``: decoded, None for null. ``headers``: the headers that name changed keys, as JSON."""

    topic: str
    partition: int
    offset: int
    key: Any
    value: Any
    headers: Mapping[str, str | bytes | None]

    def __str__(self) -> str:
        return f"offset {self.offset} of {self.topic}-{self.partition}"


def json_record(
    topic: str, partition: int, offset: int, key: str | bytes | None, value: str | bytes | None,
    headers: Mapping[str, str | bytes | None],
) -> ChangeRecord:  # fmt: skip
    """Raises ChangeRefused if a key or value is not JSON."""
    record = ChangeRecord(topic, partition, offset, None, None, headers)
    return replace(record, key=_loaded(record, "key", key), value=_loaded(record, "value", value))


def avro_record(
    topic: str, partition: int, offset: int, key: bytes | None, value: bytes | None,
    headers: Mapping[str, str | bytes | None], decode: Callable[[bytes], Any],
) -> ChangeRecord:  # fmt: skip
    """``decode``: raises ValueError for bytes that are not Avro. Raises ChangeRefused."""
    record = ChangeRecord(topic, partition, offset, None, None, headers)
    return replace(record, key=_decoded(record, "key", key, decode), value=_decoded(record, "value", value, decode))


def debezium_change(record: ChangeRecord, types: Types | None = None) -> Change | None:
    """The change, or None if no row changes. ``types``: column types, in place of the schema's. Raises
    ChangeRefused."""
    schema, value = unpacked(record.value)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ChangeRefused(f"{record}: the value is not a Debezium event but of type {type(value).__name__}")
    if "op" in value and "source" in value:
        return _of_envelope(record, schema, value, types)
    if DELETED in value:
        return _of_unwrapped(record, schema, value, types)
    raise ChangeRefused(
        f"{record}: the value is neither a Debezium envelope nor a row with {DELETED}: give the connector's "
        "transform delete.tombstone.handling.mode=rewrite, or use --cdc keyed"
    )


def keyed_change(record: ChangeRecord, types: Types | None = None) -> Change:
    """Raises ChangeRefused."""
    schema, value = unpacked(record.value)
    rank = Rank((), record.offset)
    if value is None:
        return Change(Op.DELETE, rank, record.partition, **_keys(record))
    if not isinstance(value, dict):
        raise ChangeRefused(f"{record}: the value is not a row but of type {type(value).__name__}")
    return _upsert(record, rank, _converted(value, schema, types))


def _of_envelope(record: ChangeRecord, schema: Any, value: dict[str, Any], types: Types | None) -> Change | None:
    op = value["op"]
    if op == "m":
        return None
    rank = Rank(positions.of_source(value["source"]), record.offset)
    if op == "t":
        return Change(Op.TRUNCATE, rank, record.partition)
    if op == "d":
        return Change(Op.DELETE, rank, record.partition, **_keys(record))
    if op not in _UPSERTS:
        raise ChangeRefused(f"{record}: the op {op!r} of the envelope is unknown")
    after = value.get("after")
    if not isinstance(after, dict):
        raise ChangeRefused(f"{record}: the envelope of op {op} has no row in after")
    return _upsert(record, rank, _converted(after, _field_schema(schema, "after"), types))


def _of_unwrapped(record: ChangeRecord, schema: Any, value: dict[str, Any], types: Types | None) -> Change:
    rank = Rank(positions.of_unwrapped(value), record.offset)
    if str(value[DELETED]).lower() == "true":  # the other columns may contain defaults instead of the row's values
        return Change(Op.DELETE, rank, record.partition, **_keys(record))
    columns = {name: each for name, each in value.items() if not name.startswith(METADATA)}
    return _upsert(record, rank, _converted(columns, schema, types))


def _upsert(record: ChangeRecord, rank: Rank, found: tuple[dict[str, Any], frozenset[str]]) -> Change:
    columns, placeholders = found
    keys = _keys(record)
    if placeholders and keys["moved_from"] is not None:
        _check_names_old_key(record)
    return Change(Op.UPSERT, rank, record.partition, columns=columns, placeholders=placeholders, **keys)


def _check_names_old_key(record: ChangeRecord) -> None:
    """Raises ChangeRefused if the old key, which the header contains as JSON, may be encoded differently from the Avro
    keys of the old row's records."""
    _, key = unpacked(record.key)
    try:
        json.dumps(key)
    except TypeError as error:
        raise ChangeRefused(
            f"{record}: the key has changed; the header with the old key writes decimals, bytes or dates as "
            "JSON, differently from Avro, so unchanged values of the old row cannot be found: set "
            "decimal.handling.mode=string in the connector, or the corresponding mode of the column's type"
        ) from error


def _keys(record: ChangeRecord) -> dict[str, Any]:
    _, key = unpacked(record.key)
    if not isinstance(key, dict) or not key:
        raise ChangeRefused(
            f"{record}: the record has no key with columns, so its row cannot be found again: give the table a "
            "primary key, or the connector message.key.columns, or extract the topic without --cdc"
        )
    return {"key": key_of(key), "moved_from": _header(record, _OLD_KEY), "moved_to": _header(record, _NEW_KEY)}


def _header(record: ChangeRecord, name: str) -> Key | None:
    given = record.headers.get(name)
    if given is None:
        return None
    _, key = unpacked(_loaded(record, f"header {name}", given))
    return key_of(key) if isinstance(key, dict) else None


def _loaded(record: ChangeRecord, what: str, given: str | bytes | None) -> Any:
    if given is None:
        return None
    try:
        return json.loads(given)
    except (ValueError, RecursionError) as error:
        raise ChangeRefused(f"{record}: the {what} is not JSON") from error


def _decoded(record: ChangeRecord, what: str, given: bytes | None, decode: Callable[[bytes], Any]) -> Any:
    if given is None:
        return None
    try:
        return decode(given)
    except ValueError as error:
        raise ChangeRefused(f"{record}: the {what} cannot be decoded with a schema of the registry: {error}") from error


def unpacked(document: Any) -> tuple[Any, Any]:
    """The payload of a key or value, and its schema if it has one, as (schema, payload)."""
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        return document["schema"], document["payload"]
    return None, document


def _field_schema(schema: Any, name: str) -> Any:
    fields = schema.get("fields", ()) if isinstance(schema, dict) else ()
    return next((each for each in fields if each.get("field") == name), None)


def _converted(
    columns: Mapping[str, Any], schema: Any, types: Types | None
) -> tuple[dict[str, Any], frozenset[str]]:  # fmt: skip
    """The values, and the names of the columns that have the placeholder."""
    known = _known(columns_of(schema) if isinstance(schema, dict) else {}, types or {})
    placeholders = frozenset(name for name, value in columns.items() if is_placeholder(value))
    values = {name: value for name, value in columns.items() if name not in placeholders}
    return {
        name: known[name].read(name, value) if name in known else value for name, value in values.items()
    }, placeholders


def _known(own: Types, types: Types) -> Types:
    """``own``: the types in the record's schema. Raises ChangeRefused if a derived type cannot hold all values of the
    record's type."""
    found = {**own, **types}
    for name, kind in types.items():
        if kind.is_derived and name in own:
            if not holds_all_of(kind.spark, own[name].spark):
                raise ChangeRefused(
                    f"the column {name} is {own[name].spark} in one record, and {kind.spark} in the newest one: give "
                    "the table's columns with --schema"
                )
            found[name] = own[name]
    return found
