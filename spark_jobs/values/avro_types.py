"""Converts Avro schemas to Spark types, and decodes Avro records with a given schema."""

import json
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.values.avro_limits import (
    TYPES_MAX,
    amplifies,
    bound_decimals,
    has_too_many_types,
    needs_no_bytes_in_array,
)

MALFORMED = (EOFError, ValueError, LookupError, TypeError, ArithmeticError, struct.error)
"""Raised by fastavro for bytes that are not a record of the schema."""
_NO_SCHEMA = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
_CONFLUENT_HEADER_BYTES = 5
_NAMED = "__named_schemas"
"""Where fastavro stores the named types of a parsed schema."""
_AVRO_TYPES = {
    "null": "StringType",
    "boolean": "BooleanType",
    "int": "IntegerType",
    "long": "LongType",
    "float": "FloatType",
    "double": "DoubleType",
    "bytes": "BinaryType",
    "string": "StringType",
    "enum": "StringType",
    "fixed": "BinaryType",
}
LOGICAL_KINDS = {
    **dict.fromkeys(("timestamp-millis", "timestamp-micros", "timestamp-nanos"), ("long",)),
    **dict.fromkeys(("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"), ("long",)),
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
}
"""The types that each logical type may annotate; on another type, Avro ignores it."""
DECIMAL_DIGITS = 38
"""Spark's maximum; all of Connect's decimals declare 64."""
_AVRO_LOGICAL_TYPES = {
    "timestamp-millis": "TimestampType",
    "timestamp-micros": "TimestampType",
    "local-timestamp-millis": "TimestampNTZType",
    "local-timestamp-micros": "TimestampNTZType",
    "date": "DateType",
    "decimal": "DecimalType",
}


def avro_type(schema: Any, named: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """The Spark type of a schema. ``named``: the schemas of its named types.

    Raises: WronglyAsked for unions of several types, types that contain themselves, unknown types, and too many types.
    """
    return _SparkTypes(named).of(schema, "", ())


class _SparkTypes:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._count = 0

    def of(self, schema: Any, field: str, inside: tuple[str, ...]) -> Any:
        """``inside``: the named types that contain the field."""
        from pyspark.sql import types

        self._count += 1
        if self._count > TYPES_MAX:
            raise WronglyAsked(f"--schema: the Avro schema has more than {TYPES_MAX:,} fields and types")
        if isinstance(schema, list):
            kinds = [each for each in schema if each != "null"]
            if len(kinds) != 1:
                raise WronglyAsked("--schema: an Avro union of more than one type besides null has no Spark type")
            return self.of(kinds[0], field, inside)
        if isinstance(schema, str) and schema in self._named:
            if schema in inside:
                raise WronglyAsked(f"--schema: the Avro type {schema} contains itself, so it has no Spark type")
            return self.of(self._named[schema], field, (*inside, schema))
        if isinstance(schema, str):
            schema = {"type": schema}
        kind, logical = schema["type"], _logical_type(schema)
        if logical == "decimal":
            return _decimal_type(schema, field)
        if logical in _AVRO_LOGICAL_TYPES:
            return getattr(types, _AVRO_LOGICAL_TYPES[logical])()
        if kind == "record":
            fields = [(each["name"], self.of(each["type"], each["name"], inside)) for each in schema["fields"]]
            return types.StructType([types.StructField(name, each) for name, each in fields])
        if kind == "array":
            return types.ArrayType(self.of(schema["items"], field, inside))
        if kind == "map":
            return types.MapType(types.StringType(), self.of(schema["values"], field, inside))
        if not isinstance(kind, str) or kind in self._named:
            return self.of(kind, field, inside)
        if kind not in _AVRO_TYPES:
            raise WronglyAsked(f"--schema: the Avro type {kind!r} is not supported")
        return getattr(types, _AVRO_TYPES[kind])()


def _decimal_type(schema: dict[str, Any], field: str) -> Any:
    from pyspark.sql.types import DecimalType

    if (scale := schema.get("scale", 0)) > DECIMAL_DIGITS:
        raise WronglyAsked(
            f"--schema: the decimal {field} has {scale} decimal places, "
            f"Spark's have {DECIMAL_DIGITS} at most"
        )
    return DecimalType(min(schema["precision"], DECIMAL_DIGITS), scale)


def _logical_type(schema: dict[str, Any]) -> str | None:
    logical = schema.get("logicalType")
    if not isinstance(logical, str) or schema.get("type") not in LOGICAL_KINDS.get(logical, ()):
        return None
    return logical


def parse_avro_schema(text: str, *, is_key: bool = False) -> tuple[Any, Any]:
    """Parse the schema for fastavro, and as a Spark type: a ``StructType``, unless ``is_key``. Raises WronglyAsked."""
    import fastavro
    from pyspark.sql.types import StructType

    option = "--key-schema" if is_key else "--schema"
    named: dict[str, Any] = {}
    try:
        document = json.loads(text)
        if has_too_many_types(document):
            raise ValueError("it has too many types")
        parsed = fastavro.parse_schema(plain(document), named_schemas=named)
        kind = avro_type(parsed, named)
        if needs_no_bytes_in_array(parsed, named) or amplifies(parsed, named):
            raise ValueError("an array has items whose fields need no bytes")
    except (*_NO_SCHEMA, fastavro.schema.SchemaParseException) as error:
        raise WronglyAsked(f"{option} is not a valid Avro schema: {error}") from error
    if not is_key and not isinstance(kind, StructType):
        raise WronglyAsked("--schema must be an Avro record")
    return parsed, kind


def plain(schema: Any) -> Any:
    """Remove the logical types that Spark lacks: uuid stays text, and times of day stay numbers."""
    return _without(schema, lambda each: _logical_type(each) not in _AVRO_LOGICAL_TYPES)


def physical(schema: Any) -> Any:
    return _without(schema, lambda _: True)


def _without(schema: Any, is_dropped: Callable[[dict[str, Any]], bool]) -> Any:
    if isinstance(schema, list):
        return [_without(each, is_dropped) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _without(each, is_dropped)
        for name, each in schema.items()
        if name != "logicalType" or not is_dropped(schema)
    }


def decode_avro(schema: Any, value: bytes | None, *, has_decimals: bool = True) -> Any:
    """Decode the record in ``value``, in an executor; None if it is absent or not a complete record of the schema.

    ``has_decimals`` False: the schema has no decimals, so the check for them is skipped.
    """
    import io

    import fastavro

    if value is None:
        return None
    if has_decimals:
        bound_decimals()
    framed = value[:1] == b"\0" and len(value) > _CONFLUENT_HEADER_BYTES
    for start in (_CONFLUENT_HEADER_BYTES, 0) if framed else (0,):
        stream = io.BytesIO(bytes(value[start:]))
        try:
            record = fastavro.schemaless_reader(stream, schema, None)
        except MALFORMED:
            continue
        named = schema.get(_NAMED, {}) if isinstance(schema, dict) else {}
        if stream.tell() == len(value) - start and (not has_decimals or decimals_fit(record, schema, named)):
            return record
    return None


def decimals_fit(value: Any, schema: Any, named: Mapping[str, Any] = MappingProxyType({})) -> bool:
    """True if no decimal exceeds its schema's digits, which Spark requires but Avro does not enforce.

    ``schema``: without unions except with null. ``named``: the schemas of its named types.
    """
    if isinstance(schema, list):
        schema = next((each for each in schema if each != "null"), "null")
    if isinstance(schema, str):
        schema = named.get(schema, schema)
    if value is None or not isinstance(schema, dict):
        return True
    if isinstance(value, Decimal):
        exponent, digits = value.as_tuple().exponent, min(schema["precision"], DECIMAL_DIGITS)
        return isinstance(exponent, int) and value.adjusted() < digits - schema.get("scale", 0)
    if schema["type"] == "record":
        return all(decimals_fit(value[each["name"]], each["type"], named) for each in schema["fields"])
    if schema["type"] == "array":
        return all(decimals_fit(each, schema["items"], named) for each in value)
    if schema["type"] == "map":
        return all(decimals_fit(each, schema["values"], named) for each in value.values())
    return not isinstance(schema["type"], dict | list) or decimals_fit(value, schema["type"], named)
