"""Converts defaults of Avro fields to values; fastavro returns them as JSON."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

_DEFAULT = "default"
_MICROS = {"timestamp-millis": 1000, "timestamp-micros": 1, "local-timestamp-millis": 1000, "local-timestamp-micros": 1}


def set_defaults(schema: Any, named: Mapping[str, Any]) -> None:
    """``schema`` was parsed by fastavro."""
    if isinstance(schema, list):
        for each in schema:
            set_defaults(each, named)
    elif isinstance(schema, dict):
        for field in schema.get("fields", ()):
            set_defaults(field["type"], named)
            if _DEFAULT in field:
                field[_DEFAULT] = _value(field[_DEFAULT], field["type"], named)
        for part in ("items", "values", "type"):
            if part in schema:
                set_defaults(schema[part], named)


def _value(given: Any, schema: Any, named: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return _value(given, schema[0], named)  # a default has the first type of a union
    if isinstance(schema, str):
        return _value(given, named[schema], named) if schema in named else _plain_value(given, schema)
    logical, kind = schema.get("logicalType"), schema["type"]
    if logical in _MICROS:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=given * _MICROS[logical])
        return at.replace(tzinfo=None) if logical.startswith("local-") else at
    if logical == "date":
        return date(1970, 1, 1) + timedelta(days=given)
    if logical == "decimal":
        unscaled = int.from_bytes(given.encode("latin-1"), signed=True)
        return Decimal(unscaled).scaleb(-schema.get("scale", 0), Context(prec=max(1, schema["precision"])))
    if kind == "record":
        return {each["name"]: _value(given[each["name"]], each["type"], named) if each["name"] in given
                else each[_DEFAULT] for each in schema["fields"]}  # fmt: skip
    if kind == "array":
        return [_value(each, schema["items"], named) for each in given]
    if kind == "map":
        return {name: _value(each, schema["values"], named) for name, each in given.items()}
    return _plain_value(given, kind)


def _plain_value(given: Any, kind: str) -> Any:
    return given.encode("latin-1") if kind in ("bytes", "fixed") else given
