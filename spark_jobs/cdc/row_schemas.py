"""Derives a table's columns from the schemas of its change events: in JSON, or Avro schemas in a schema registry.

The result is a Kafka Connect struct as a string, which ``given_types`` accepts like columns that a user gives. An Avro
schema has the original Connect schema in ``connect.name`` and ``connect.parameters``.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kafka_zk.spark_jobs.cdc.connect_types import columns_of
from kafka_zk.spark_jobs.cdc.readers import DELETED, METADATA, unpacked
from kafka_zk.spark_jobs.errors import ChangeRefused
from kafka_zk.spark_jobs.values.schema_registry import Schema

_TYPES_MAX = 10_000
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_NO_ROWS = {"SchemaChangeValue": "schema changes", "TransactionMetadataValue": "transactions"}
_INTEGERS = ("int8", "int16", "int32", "int64")
_PLAIN = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "fixed": "bytes",
    "string": "string",
    "enum": "string",
}
_LOGICAL = {
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "io.debezium.time.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "io.debezium.time.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-millis": "io.debezium.time.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
}
"""Connect's names of Avro's logical types, for Avro schemas that Connect's converters did not write."""


def of_json_value(value: bytes) -> str | None:
    """The columns; None for a value without a schema. Raises ChangeRefused for a value that is not JSON, or not a
    row."""
    try:
        document = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ChangeRefused("the newest value is not JSON: Avro needs --value-format avro --schema-registry") from error
    schema, _ = unpacked(document)
    return None if schema is None else _text(_row(schema))


def of_avro_versions(versions: Sequence[Schema], subject: str, written: Schema | None = None) -> str:
    """The columns of ``written``, the schema of the newest record; by default the last version. ``versions``: all
    versions of the subject, oldest first.

    Raises ChangeRefused for a column whose numbers or bytes mean something else in another version, because a decoded
    record does not say with which version it was written.
    """
    row = _row(connect_schema(versions[-1] if written is None else written))
    newest = {each["field"]: each for each in row["fields"]}
    for number, version in enumerate(versions, 1):
        for field in _row(connect_schema(version))["fields"]:
            now = newest.get(field["field"])
            if now is not None and _reads_otherwise(field, now):
                raise ChangeRefused(
                    f"the column {field['field']} is {_told(field)} in version {number} of the {len(versions)} "
                    f"versions of {subject}, and {_told(now)} in the newest record's: the records cannot be told apart"
                )
    return _text(row)


def _reads_otherwise(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """True if numbers or bytes have different meanings in the two versions, but look alike. After any other change of
    type, the newest type refuses the old values.
    """
    kinds = {"integer" if each["type"] in _INTEGERS else each["type"] for each in (old, new)}
    return kinds in ({"integer"}, {"bytes"}) and old.get("name") != new.get("name")


def _told(field: Mapping[str, Any]) -> str:
    return str(field.get("name") or field["type"])


def _row(schema: Any) -> dict[str, Any]:
    """The struct of the row: an envelope's ``after``, or the schema itself. Debezium's own fields in an unwrapped row
    are left out.
    """
    columns = _fields(schema)
    by_name = {each.get("field"): each for each in columns}
    if {"op", "source", "after"} <= by_name.keys():
        columns = _fields(by_name["after"])
    elif DELETED in by_name:
        columns = [each for each in columns if not str(each.get("field")).startswith(METADATA)]
    if not columns:
        raise ChangeRefused("the schema of the values has no columns of a row")
    for name in (str(each.get("field")) for each in columns):
        if "`" in name:
            raise ChangeRefused(f"the column {name} has a backtick in its name, which a merge cannot quote")
    row = {"type": "struct", "fields": columns}
    columns_of(row)
    return row


def _fields(schema: Any) -> list[dict[str, Any]]:
    if not isinstance(schema, dict) or schema.get("type") != "struct":
        raise ChangeRefused("the schema of the values is not that of a row")
    if told := _NO_ROWS.get(str(schema.get("name")).rpartition(".")[2]):
        raise ChangeRefused(f"the values are {told} of Debezium, not rows of a table")
    found: list[dict[str, Any]] = schema.get("fields") or []
    return found


def _text(row: Mapping[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"))


def connect_schema(schema: Schema) -> dict[str, Any]:
    """The Connect schema from which Connect's converter made this Avro schema. Raises ChangeRefused."""
    return _FromAvro().converted(schema)


class _FromAvro:
    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._left = _TYPES_MAX

    def converted(self, schema: Schema) -> dict[str, Any]:
        try:
            for referenced in schema.referenced().values():
                self._type(json.loads(referenced.text), "")
            return self._type(json.loads(schema.text), "")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ChangeRefused(f"the schema in the registry is not one of Kafka Connect: {error}") from error

    def _type(self, avro: Any, namespace: str) -> dict[str, Any]:
        self._left -= 1
        if self._left < 0:
            raise ChangeRefused(f"the schema in the registry has more than {_TYPES_MAX:,} types")
        if isinstance(avro, list):
            return self._of_union(avro, namespace)
        if isinstance(avro, str):
            if avro in _PLAIN:
                return {"type": _PLAIN[avro]}
            full_name = _full_name(avro, namespace)
            return self._of_object(*self._named[full_name if full_name in self._named else avro])
        if isinstance(avro["type"], (dict, list)):
            return self._type(avro["type"], namespace)
        return self._of_object(avro, namespace)

    def _of_union(self, branches: list[Any], namespace: str) -> dict[str, Any]:
        kinds = [each for each in branches if each != "null"]
        if len(kinds) != 1:
            raise ChangeRefused("the schema in the registry has a union of several types, which is no column")
        return self._type(kinds[0], namespace)

    def _of_object(self, avro: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        kind = avro["type"]
        if "name" in avro:
            full_name = _full_name(avro["name"], str(avro.get("namespace") or namespace))
            self._named[full_name] = (avro, namespace)
            namespace = full_name.rpartition(".")[0]
        if kind == "record":
            fields = [{**self._type(each["type"], namespace), "field": each["name"]} for each in avro["fields"]]
            found: dict[str, Any] = {"type": "struct", "fields": fields}
        elif kind == "array":
            found = {"type": "array", "items": self._type(avro["items"], namespace)}
        elif kind == "map":
            found = {"type": "map", "keys": {"type": "string"}, "values": self._type(avro["values"], namespace)}
        elif kind in _PLAIN:
            found = {"type": avro.get("connect.type", _PLAIN[kind])}
        else:
            return self._type(kind, namespace)
        return {**found, **_named_as(avro)}


def _named_as(avro: Mapping[str, Any]) -> dict[str, Any]:
    if "connect.name" in avro:
        return {"name": avro["connect.name"], "parameters": avro.get("connect.parameters") or {}}
    logical = avro.get("logicalType")
    if logical == "decimal":
        parameters = {"scale": str(avro.get("scale", 0)), "connect.decimal.precision": str(avro["precision"])}
        return {"name": _DECIMAL, "parameters": parameters}
    return {"name": _LOGICAL[logical]} if logical in _LOGICAL else {}


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
