"""From the source's columns to what is written: keys and values as they are, as text, or as the columns of a schema."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafka_zk.spark_jobs.extraction.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.undecodable import CHOICES, FAIL, KEEP, RAW_VALUE
from kafka_zk.spark_jobs.schema import COLUMNS

DECODINGS = ("json", "avro", "string")
FORMATS = ("parquet", "json", "csv")
KEPT = ("key", "topic", "partition", "offset", "timestamp")
FITS = "_kafka_zk_fits"
"""The column that says whether the value was decoded; null if there is no value."""
_CORRUPT = "_kafka_zk_corrupt"
_CORRUPT_OPTION = "columnNameOfCorruptRecord"
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
_AVRO_LOGICAL_TYPES = {
    "timestamp-millis": "TimestampType",
    "timestamp-micros": "TimestampType",
    "local-timestamp-millis": "TimestampNTZType",
    "local-timestamp-micros": "TimestampNTZType",
    "date": "DateType",
    "decimal": "DecimalType",
}


def read_schema(text: str) -> str:
    """A schema given as it is or as ``@file``. Raises: OSError."""
    return Path(text[1:]).read_text() if text.startswith("@") else text


def check(decode: str | None, schema: str | None, format: str, on_undecodable: str = FAIL) -> None:
    """What can be judged without Spark. Raises: WronglyAsked for what cannot be decoded or written like this."""
    if decode in ("json", "avro") and not schema:
        raise WronglyAsked(f"--decode {decode} needs --schema")
    if schema and decode not in ("json", "avro"):
        raise WronglyAsked("--schema is for --decode json and avro")
    if on_undecodable not in CHOICES:
        raise WronglyAsked(f"--on-undecodable: {on_undecodable!r} is not {', '.join(CHOICES[:-1])} or {CHOICES[-1]}")
    if on_undecodable != FAIL and decode is None:
        raise WronglyAsked("--on-undecodable is for --decode: bytes are taken as they are")
    if format == "csv" and decode is None:
        raise WronglyAsked("CSV holds text: --format csv needs --decode string, json or avro")


def known_columns(decode: str | None, schema: str | None, on_undecodable: str = FAIL) -> Any:
    """The columns that are written, as a ``StructType``; None where only Spark's parser can tell: of a DDL schema.

    Raises: WronglyAsked for a schema that is none.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    source = _source_columns()
    if decode is None:
        return source
    raw = [StructField(RAW_VALUE, source["value"].dataType)] if on_undecodable == KEEP else []
    if decode == "string":
        texts = [StructField("key", StringType()), StructField("value", StringType())]
        return StructType([*texts, *(field for field in source if field.name not in ("key", "value")), *raw])
    assert schema is not None, "checked before"
    values = parse_avro_schema(schema)[1] if decode == "avro" else _json_struct(schema)
    if values is None:
        return None
    check_fields(values, on_undecodable)
    kept = [StructField("key", StringType()), *(source[name] for name in KEPT[1:])]
    return StructType([*kept, *values, *raw])


def _source_columns() -> Any:
    from pyspark.sql import types

    kinds = {
        "binary": types.BinaryType(),
        "string": types.StringType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "timestamp": types.TimestampType(),
    }
    columns = (column.split(" ") for column in COLUMNS.split(", "))
    return types.StructType([types.StructField(name, kinds[kind]) for name, kind in columns])


def _json_struct(schema: str) -> Any:
    """A schema in the JSON of Spark's ``StructType.json()``; None for DDL. Raises: WronglyAsked."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    if not schema.lstrip().startswith("{"):
        return None
    try:
        return StructType.fromJson(json.loads(schema))
    except (ValueError, KeyError, TypeError, AttributeError, PySparkException) as error:
        raise WronglyAsked(f"--schema is neither DDL nor the JSON of a Spark StructType: {error}") from error


def check_fields(values: Any, on_undecodable: str) -> None:
    """The fields of the schema (a ``StructType``), beside the columns that are kept. Raises: WronglyAsked."""
    for name in values.fieldNames():  # Spark ignores the case of names
        if name.lower() in KEPT:
            raise WronglyAsked(f"--schema: the field {name} has the name of a column of the source")
        if name.lower() == RAW_VALUE and on_undecodable == KEEP:
            raise WronglyAsked(f"--schema: the field {name} has the name of the column of --on-undecodable {KEEP}")


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


def decoded(frame: Any, decode: str, schema: str | None, on_undecodable: str, format: str) -> Any:
    """The frame with key and value decoded, and the column FITS beside.

    json and avro give a column for each field of the schema beside key (as text), topic, partition, offset, timestamp;
    fields that do not fit are null. With KEEP there is the column RAW_VALUE, in CSV as Base64.
    Raises: WronglyAsked, and what Spark's parser says of a DDL schema.
    """
    from pyspark.sql import functions as f

    if decode == "string":
        value, fits = f.try_validate_utf8(f.col("value").cast("string")), f.col("_value").isNotNull()
        columns = [name if name != "value" else f.col("_value").alias("value") for name in frame.columns]
    else:
        assert schema is not None, "checked before"
        fields, value, fits = _json(schema) if decode == "json" else _avro(schema)
        check_fields(fields, on_undecodable)
        columns = [*KEPT, *(f.col("_value").getField(name).alias(name) for name in fields.fieldNames())]
    judged = frame.withColumn("key", f.col("key").cast("string")).withColumn("_value", value)
    judged = judged.withColumn(FITS, f.when(f.col("value").isNotNull(), fits))
    if on_undecodable == KEEP:
        raw = f.base64("value") if format == "csv" else f.col("value")
        columns.append(f.when(~f.col(FITS), raw).alias(RAW_VALUE))
    return judged.select(*columns, FITS)


def _json(schema: str) -> tuple[Any, Any, Any]:
    """The fields, the column of a struct of them, and the condition on it that the value is an object that fits.

    Spark's parser says of a value that does not fit what it is. It says nothing of one that has none of the fields, of
    an empty one, and of bytes that are no text. JSON's null is no value.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    fields = _json_struct(schema) or ddl_struct(schema)
    text, found = f.col("value").cast("string"), f.col("_value")
    value = f.from_json(text, StructType([*fields, StructField(_CORRUPT, StringType())]), {_CORRUPT_OPTION: _CORRUPT})
    names = f.array(*(f.lit(name) for name in fields.fieldNames()))
    keys = f.json_object_keys(text)
    is_empty = f.lit(True)
    for name in fields.fieldNames():
        is_empty = is_empty & found.getField(name).isNull()
    is_foreign = f.coalesce(is_empty & (f.size(keys) > 0) & ~f.arrays_overlap(keys, names), f.lit(False))
    fits = found.isNotNull() & found.getField(_CORRUPT).isNull() & f.is_valid_utf8(text) & ~is_foreign
    return fields, value, fits | (f.trim(text) == "null")


def _avro(schema: str) -> tuple[Any, Any, Any]:
    """As ``_json``: one Avro record a value, with or without the five bytes that Confluent's serializers add."""
    from pyspark.sql import functions as f

    parsed, fields = parse_avro_schema(schema)
    value = f.udf(lambda value: decode_avro(parsed, value), fields)(f.col("value"))
    return fields, value, f.col("_value").isNotNull()


def ddl_struct(schema: str) -> Any:
    """By Spark's own parser, in its Java. Raises: WronglyAsked, and what the parser raises."""
    from pyspark.sql.types import DataType, StructType

    fields = DataType.fromDDL(schema)
    if not isinstance(fields, StructType):
        raise WronglyAsked(f"--schema: columns are needed, as in 'a INT, b STRING', not {fields.simpleString()}")
    return fields


def avro_type(schema: Any) -> Any:
    """An Avro schema as a Spark type. Raises: WronglyAsked for unions of several types and unknown ones."""
    from pyspark.sql import types

    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        if len(kinds) != 1:
            raise WronglyAsked("--schema: an Avro union of more than one type beside null has no Spark type")
        return avro_type(kinds[0])
    if isinstance(schema, str):
        schema = {"type": schema}
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return types.DecimalType(schema["precision"], schema.get("scale", 0))
    if logical in _AVRO_LOGICAL_TYPES:
        return getattr(types, _AVRO_LOGICAL_TYPES[logical])()
    if kind == "record":
        return types.StructType([types.StructField(each["name"], avro_type(each["type"])) for each in schema["fields"]])
    if kind == "array":
        return types.ArrayType(avro_type(schema["items"]))
    if kind == "map":
        return types.MapType(types.StringType(), avro_type(schema["values"]))
    if not isinstance(kind, str):
        return avro_type(kind)
    if kind not in _AVRO_TYPES:
        raise WronglyAsked(f"--schema: the Avro type {kind!r} is not known here")
    return getattr(types, _AVRO_TYPES[kind])()


def parse_avro_schema(text: str) -> tuple[Any, Any]:
    """The schema as fastavro reads records by, and as a ``StructType``. Raises: WronglyAsked."""
    import fastavro
    from pyspark.sql.types import StructType

    try:
        document = json.loads(text)
        fields = avro_type(document)
        parsed = fastavro.parse_schema(_plain(document))
    except (ValueError, KeyError, TypeError, AttributeError, fastavro.schema.SchemaParseException) as error:
        raise WronglyAsked(f"--schema is no Avro schema: {error}") from error
    if not isinstance(fields, StructType):
        raise WronglyAsked("--schema: an Avro record is needed")
    return parsed, fields


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
