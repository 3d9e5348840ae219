"""Converts Avro schemas to Spark types, and decodes Avro records with a given schema."""

import json
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from kafka_zk.spark_jobs.errors import WronglyAsked

MALFORMED = (EOFError, ValueError, LookupError, TypeError, ArithmeticError, struct.error)
"""Raised by fastavro for bytes that are not a record of the schema."""
_CONFLUENT_HEADER_BYTES = 5
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
"""The types that each logical type may annotate; Avro ignores a logical type of another type."""
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


def avro_type(schema: Any, field: str = "") -> Any:
    """The Spark type of a field's schema. Raises WronglyAsked for unions of several types and unknown types."""
    from pyspark.sql import types

    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        if len(kinds) != 1:
            raise WronglyAsked("--schema: an Avro union of more than one type besides null has no Spark type")
        return avro_type(kinds[0], field)
    if isinstance(schema, str):
        schema = {"type": schema}
    kind, logical = schema["type"], _logical_type(schema)
    if logical == "decimal":
        if (scale := schema.get("scale", 0)) > DECIMAL_DIGITS:
            raise WronglyAsked(
                f"--schema: the decimal {field} has {scale} decimal places, "
                f"Spark's have {DECIMAL_DIGITS} at most"
            )
        return types.DecimalType(min(schema["precision"], DECIMAL_DIGITS), scale)
    if logical in _AVRO_LOGICAL_TYPES:
        return getattr(types, _AVRO_LOGICAL_TYPES[logical])()
    if kind == "record":
        fields = [(each["name"], avro_type(each["type"], each["name"])) for each in schema["fields"]]
        return types.StructType([types.StructField(name, each) for name, each in fields])
    if kind == "array":
        return types.ArrayType(avro_type(schema["items"], field))
    if kind == "map":
        return types.MapType(types.StringType(), avro_type(schema["values"], field))
    if not isinstance(kind, str):
        return avro_type(kind, field)
    if kind not in _AVRO_TYPES:
        raise WronglyAsked(f"--schema: the Avro type {kind!r} is not supported")
    return getattr(types, _AVRO_TYPES[kind])()


def _logical_type(schema: dict[str, Any]) -> str | None:
    logical = schema.get("logicalType")
    if not isinstance(logical, str) or schema.get("type") not in LOGICAL_KINDS.get(logical, ()):
        return None
    return logical


def parse_avro_schema(text: str) -> tuple[Any, Any]:
    """Parse the schema for fastavro, and as a ``StructType``. Raises WronglyAsked."""
    import fastavro
    from pyspark.sql.types import StructType

    try:
        document = json.loads(text)
        fields = avro_type(document)
        parsed = fastavro.parse_schema(plain(document))
    except (ValueError, KeyError, TypeError, AttributeError, fastavro.schema.SchemaParseException) as error:
        raise WronglyAsked(f"--schema is not a valid Avro schema: {error}") from error
    if not isinstance(fields, StructType):
        raise WronglyAsked("--schema must be an Avro record")
    return parsed, fields


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
    framed = value[:1] == b"\0" and len(value) > _CONFLUENT_HEADER_BYTES
    for start in (_CONFLUENT_HEADER_BYTES, 0) if framed else (0,):
        stream = io.BytesIO(bytes(value[start:]))
        try:
            record = fastavro.schemaless_reader(stream, schema, None)
        except MALFORMED:
            continue
        if stream.tell() == len(value) - start and (not has_decimals or decimals_fit(record, schema)):
            return record
    return None


def decimals_fit(value: Any, schema: Any) -> bool:
    """No decimal exceeds its schema's digits, which Spark requires but Avro does not enforce.

    ``schema``: with all names replaced by their schemas, and without unions except with null.
    """
    if isinstance(schema, list):
        schema = next((each for each in schema if each != "null"), "null")
    if value is None or not isinstance(schema, dict):
        return True
    if isinstance(value, Decimal):
        exponent, digits = value.as_tuple().exponent, min(schema["precision"], DECIMAL_DIGITS)
        return isinstance(exponent, int) and value.adjusted() < digits - schema.get("scale", 0)
    if schema["type"] == "record":
        return all(decimals_fit(value[each["name"]], each["type"]) for each in schema["fields"])
    if schema["type"] == "array":
        return all(decimals_fit(each, schema["items"]) for each in value)
    if schema["type"] == "map":
        return all(decimals_fit(each, schema["values"]) for each in value.values())
    return not isinstance(schema["type"], dict | list) or decimals_fit(value, schema["type"])
