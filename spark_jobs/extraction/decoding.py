"""From the source's columns to what is written: keys and values as they are, as text, or as the columns of a schema."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafka_zk.spark_jobs.extraction.errors import WronglyAsked

DECODINGS = ("json", "avro", "string")
FORMATS = ("parquet", "json", "csv")
KEPT = ("key", "topic", "partition", "offset", "timestamp")
_CONFLUENT_HEADER_BYTES = 5
_AVRO_TYPES = {
    "null": "string",
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
    "enum": "string",
    "fixed": "binary",
}
_AVRO_LOGICAL_TYPES = {
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
    "date": "date",
    "decimal": "decimal({precision},{scale})",
}


def read_schema(text: str) -> str:
    """A schema given as it is or as ``@file``. Raises: OSError."""
    return Path(text[1:]).read_text() if text.startswith("@") else text


def check(decode: str | None, schema: str | None, format: str) -> None:
    """What can be judged without Spark. Raises: WronglyAsked for what cannot be decoded or written like this."""
    if decode in ("json", "avro") and not schema:
        raise WronglyAsked(f"--decode {decode} needs --schema")
    if schema and decode not in ("json", "avro"):
        raise WronglyAsked("--schema is for --decode json and avro")
    if format == "csv" and decode is None:
        raise WronglyAsked("CSV holds text: --format csv needs --decode string, json or avro")
    if decode == "avro" and schema:
        parse_avro_schema(schema)


def check_columns(columns: Any, format: str, partition_by: Sequence[str]) -> None:
    """What Spark would say of these columns (a ``StructType``) only when it writes. Raises: WronglyAsked."""
    types = {field.name: field.dataType for field in columns}
    if twice := [name for name, count in Counter(field.name.lower() for field in columns).items() if count > 1]:
        raise WronglyAsked(f"--schema: several columns are called {twice[0]}, but for upper and lower case")
    for name in partition_by:
        if name not in types:
            raise WronglyAsked(f"--partition-by: there is no column {name}, only {', '.join(types)}")
        if not _is_plain(types[name]):
            raise WronglyAsked(f"--partition-by: {name} is {types[name].simpleString()}, which makes no folder's name")
    if len(set(partition_by)) < len(partition_by):
        raise WronglyAsked("--partition-by: a column is named twice")
    written = {name: kind for name, kind in types.items() if name not in partition_by}
    if not written:
        raise WronglyAsked("--partition-by: all columns are named, so none is left to be written")
    for name, kind in written.items():
        if format == "csv" and not _is_plain(kind):
            raise WronglyAsked(f"--format csv: {name} is {kind.simpleString()}, which CSV cannot hold")


def _is_plain(kind: Any) -> bool:
    from pyspark.sql.types import AtomicType, VariantType

    return isinstance(kind, AtomicType) and not isinstance(kind, VariantType)


def decoded(frame: Any, decode: str | None, schema: str | None) -> Any:
    """The frame with key and value decoded; what does not decode is null, as Spark's ``from_json`` has it.

    json and avro give a column for each field of the schema beside key (as text), topic, partition, offset, timestamp.
    """
    from pyspark.sql import functions as f

    if decode is None:
        return frame
    key = f.col("key").cast("string").alias("key")
    if decode == "string":
        others = [name for name in frame.columns if name not in ("key", "value")]
        return frame.select(key, f.col("value").cast("string").alias("value"), *others)
    assert schema is not None, "checked before"
    if decode == "json":
        value = f.from_json(f.col("value").cast("string"), schema)
    else:
        value = _avro_udf(schema)(f.col("value"))
    wide = frame.select(key, *KEPT[1:], value.alias("_value"))
    fields = wide.schema["_value"].dataType.fieldNames()
    if clash := [name for name in fields if name.lower() in KEPT]:  # Spark does not look at the case of names
        raise WronglyAsked(f"--schema: the field {clash[0]} has the name of a column of the source")
    return wide.select(*KEPT, "_value.*")


def avro_to_ddl(schema: Any) -> str:
    """An Avro schema as Spark's DDL type. Raises: WronglyAsked for unions of several types and recursion."""
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        if len(kinds) != 1:
            raise WronglyAsked("--schema: an Avro union of more than one type beside null has no Spark type")
        return avro_to_ddl(kinds[0])
    if isinstance(schema, str):
        schema = {"type": schema}
    kind = schema["type"]
    if schema.get("logicalType") in _AVRO_LOGICAL_TYPES:
        return _AVRO_LOGICAL_TYPES[schema["logicalType"]].format(**{"scale": 0, **schema})
    if kind == "record":
        fields = [f"`{each['name']}`:{avro_to_ddl(each['type'])}" for each in schema["fields"]]
        return f"struct<{','.join(fields)}>"
    if kind == "array":
        return f"array<{avro_to_ddl(schema['items'])}>"
    if kind == "map":
        return f"map<string,{avro_to_ddl(schema['values'])}>"
    if not isinstance(kind, str):
        return avro_to_ddl(kind)
    if kind not in _AVRO_TYPES:
        raise WronglyAsked(f"--schema: the Avro type {kind!r} is not known here")
    return _AVRO_TYPES[kind]


def parse_avro_schema(text: str) -> tuple[Any, str]:
    """The schema as fastavro reads records by, and its Spark type. Raises: WronglyAsked."""
    import fastavro

    try:
        document = json.loads(text)
        ddl = avro_to_ddl(document)
        parsed = fastavro.parse_schema(_plain(document))
    except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
        raise WronglyAsked(f"--schema is no Avro schema: {error}") from error
    if not ddl.startswith("struct<"):
        raise WronglyAsked("--schema: an Avro record is needed")
    return parsed, ddl


def _plain(schema: Any) -> Any:
    """Without the logical types that Spark has none for: uuid and times of day stay the text and numbers they are."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _plain(each)
        for name, each in schema.items()
        if name != "logicalType" or each in _AVRO_LOGICAL_TYPES
    }


def _avro_udf(schema: str) -> Any:
    """One Avro record a value, with or without the five bytes that Confluent's serializers put in front."""
    from pyspark.sql.functions import udf

    parsed, ddl = parse_avro_schema(schema)
    return udf(lambda value: decode_avro(parsed, value), ddl)


def decode_avro(schema: Any, value: bytes | None) -> Any:
    """The record in ``value``; None if there is none, or it is no whole record of this schema. Runs in executors."""
    import io

    import fastavro

    if value is None:
        return None
    framed = value[:1] == b"\0" and len(value) > _CONFLUENT_HEADER_BYTES
    for start in (_CONFLUENT_HEADER_BYTES, 0) if framed else (0,):
        stream = io.BytesIO(bytes(value[start:]))
        try:
            record = fastavro.schemaless_reader(stream, schema, None)
        except (EOFError, ValueError, IndexError, UnicodeDecodeError):
            continue
        if stream.tell() == len(value) - start:
            return record
    return None
