"""Decodes keys and values: unchanged, as text, or as a schema's columns."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafka_zk.spark_jobs.errors import WronglyAsked, reason_only
from kafka_zk.spark_jobs.extraction.undecodable import CHOICES, FAIL, KEEP, RAW_VALUE
from kafka_zk.spark_jobs.source.schema import COLUMNS
from kafka_zk.spark_jobs.values.avro_types import decode_avro, parse_avro_schema
from kafka_zk.spark_jobs.values.framing import ValueUndecodable
from kafka_zk.spark_jobs.values.json_round_trip import TO_JSON, ChangedFields
from kafka_zk.spark_jobs.values.value_decoder import ValueDecoder

DECODINGS = ("json", "avro", "string")
FORMATS = ("parquet", "json", "csv")
KEPT = ("key", "topic", "partition", "offset", "timestamp")
FITS = "_kafka_zk_fits"
"""Column: whether the value was decoded; null without a value."""
REASON = "_kafka_zk_reason"
"""Column: why the value was not decoded; null if no reason is known."""
_CHANGED = "_kafka_zk_changed"
"""Column: the fields of a JSON value that the table's types would change."""
_CORRUPT = "_kafka_zk_corrupt"
_NOT_BACK = "does not come back as written: "
_JSON_SPACE = " \t\r\n"
_CORRUPT_OPTION = "columnNameOfCorruptRecord"


def read_schema(text: str) -> str:
    return Path(text[1:]).read_text() if text.startswith("@") else text


def check(
    decode: str | None, schema: str | None, format: str, on_undecodable: str = FAIL, value_format: str | None = None
) -> None:
    """Check what needs no Spark. Raises WronglyAsked for impossible combinations."""
    if decode in ("json", "avro") and not schema:
        raise WronglyAsked(f"--decode {decode} needs --schema")
    if schema and decode not in ("json", "avro") and value_format is None:
        raise WronglyAsked("--schema is for --decode json and avro, and for --value-format")
    if on_undecodable not in CHOICES:
        raise WronglyAsked(f"--on-undecodable: {on_undecodable!r} is not {', '.join(CHOICES[:-1])} or {CHOICES[-1]}")
    if on_undecodable == KEEP and decode is None and value_format is None:
        raise WronglyAsked(f"--on-undecodable {KEEP} is for --decode and --value-format: bytes are not decoded")
    if format == "csv" and decode is None and value_format is None:
        raise WronglyAsked(
            "CSV contains only text: --format csv needs --decode string, json or avro, or --value-format"
        )


def known_columns(decode: str | None, schema: str | None, on_undecodable: str = FAIL) -> Any:
    """The written columns as a ``StructType``; None for a DDL schema, which only Spark's parser knows.

    Raises: WronglyAsked if the schema is invalid.
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
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    if not schema.lstrip().startswith("{"):
        return None
    try:
        return StructType.fromJson(json.loads(schema))
    except (ValueError, KeyError, TypeError, AttributeError, PySparkException) as error:
        raise WronglyAsked(f"--schema is neither DDL nor the JSON of a Spark StructType: {error}") from error


def check_fields(values: Any, on_undecodable: str, included: Sequence[str] = ()) -> None:
    """Check the schema's fields (a ``StructType``) against the other columns. Raises WronglyAsked."""
    for name in values.fieldNames():
        if name.lower() in (*KEPT, *included):
            raise WronglyAsked(f"--schema: the field {name} has the same name as a column of the source")
        if name.lower() == RAW_VALUE and on_undecodable == KEEP:
            raise WronglyAsked(f"--schema: the field {name} has the same name as the column of --on-undecodable {KEEP}")


def check_columns(columns: Any, format: str, partition_by: Sequence[str]) -> None:
    """Find errors in the columns (a ``StructType``) that Spark would report only when it writes. Raises
    WronglyAsked.
    """
    types = {field.name: field.dataType for field in columns}
    if twice := [name for name, count in Counter(field.name.lower() for field in columns).items() if count > 1]:
        raise WronglyAsked(f"--schema: several columns are called {twice[0]}, except for upper and lower case")
    for name in partition_by:
        if name not in types:
            raise WronglyAsked(f"--partition-by: there is no column {name}, only {', '.join(types)}")
        if not _is_plain(types[name]):
            raise WronglyAsked(
                f"--partition-by: {name} is {types[name].simpleString()}, which cannot be part of a folder's name"
            )
    if len(set(partition_by)) < len(partition_by):
        raise WronglyAsked("--partition-by: a column is listed twice")
    written = {name: kind for name, kind in types.items() if name not in partition_by}
    if not written:
        raise WronglyAsked("--partition-by: all columns are listed, so none is left to write")
    for name, kind in written.items():
        if format == "csv" and not _is_plain(kind):
            raise WronglyAsked(f"--format csv: {name} is {kind.simpleString()}, which CSV cannot store")


def _is_plain(kind: Any) -> bool:
    from pyspark.sql.types import AtomicType, VariantType

    return isinstance(kind, AtomicType) and not isinstance(kind, VariantType)


def decoded(
    frame: Any, decode: str | ValueDecoder, schema: str | None, on_undecodable: str, format: str,
    included: Sequence[str] = (),
) -> Any:  # fmt: skip
    """Decode key and value, and add the columns FITS and REASON.

    Except for string, each field of the schema becomes a column beside key (as text), topic, partition, offset,
    timestamp and ``included`` columns; fields that do not fit are null. KEEP adds RAW_VALUE, in CSV as Base64.
    Raises: WronglyAsked, and the errors of Spark's parser for a DDL schema.
    """
    from pyspark.sql import functions as f

    reason = f.lit(None).cast("string")
    changed = None
    if decode == "string":
        value, fits = f.try_validate_utf8(f.col("value").cast("string")), f.col("_value").isNotNull()
        columns = [name if name != "value" else f.col("_value").alias("value") for name in frame.columns]
    else:
        record = f.col("_value")
        if isinstance(decode, ValueDecoder):
            fields, value, fits = _framed(decode)
            record, reason = f.col("_value.record"), f.col("_value.reason")
        else:
            assert schema is not None, "checked before"
            fields, value, fits = _json(schema) if decode == "json" else _avro(schema)
        if decode == "json":
            changed, told = _changed(fields), f.concat(f.lit(_NOT_BACK), f.array_join(_CHANGED, ", "))
            reason = f.when((f.size(_CHANGED) > 0) & record.getField(_CORRUPT).isNull(), told)
        check_fields(fields, on_undecodable, included)
        columns = [*KEPT, *included, *(_field(record, name, changed) for name in fields.fieldNames())]
    judged = frame.withColumn("key", f.col("key").cast("string")).withColumn("_value", value)
    if changed is not None:
        judged = judged.withColumn(_CHANGED, changed)
    judged = judged.withColumn(FITS, f.when(f.col("value").isNotNull(), fits)).withColumn(REASON, reason)
    if on_undecodable == KEEP:
        raw = f.base64("value") if format == "csv" else f.col("value")
        columns.append(f.when(~f.col(FITS), raw).alias(RAW_VALUE))
    return judged.select(*columns, FITS, REASON)


def _field(record: Any, name: str, changed: Any) -> Any:
    """The field as a column, which is null if the table's type would change the field."""
    from pyspark.sql import functions as f

    field = record.getField(name)
    return (field if changed is None else f.when(~f.array_contains(_CHANGED, name), field)).alias(name)


def _changed(fields: Any) -> Any:
    """A column of changed fields' names, from the bytes in ``value`` and the result of ``_json`` in ``_value``."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, StringType

    compare = ChangedFields(fields)
    changed = f.udf(lambda value, came_back: compare(value, came_back), ArrayType(StringType()))
    record = f.struct(*(f.col("_value").getField(name).alias(name) for name in fields.fieldNames()))
    return changed(f.col("value"), f.to_json(record, TO_JSON))


def _framed(decoder: ValueDecoder) -> tuple[Any, Any, Any]:
    """Like ``_json``, with columns for the record and for the reason of a failure."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    fields = decoder.columns
    result = StructType([StructField("record", fields), StructField("reason", StringType())])
    return fields, f.udf(lambda value: _read(decoder, value), result)(f.col("value")), f.col("_value.reason").isNull()


def _read(decoder: ValueDecoder, value: bytes | None) -> Any:
    """Decode one value in an executor."""
    if value is None:
        return None
    with reason_only():
        try:
            return {"record": decoder.decode(bytes(value)), "reason": None}
        except ValueUndecodable as error:
            return {"record": None, "reason": str(error)}


def _json(schema: str) -> tuple[Any, Any, Any]:
    """The fields, a column with a struct of them, and the condition that the value is an object that fits.

    Spark's parser marks most values that do not fit, but not a value without any of the fields, an empty value, bytes
    that are not text, or fields that it changes (``_changed``). JSON's null counts as no value.
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
    fits = fits & (f.size(_CHANGED) == 0)
    return fields, value, fits | (f.btrim(text, f.lit(_JSON_SPACE)) == "null")


def _avro(schema: str) -> tuple[Any, Any, Any]:
    """Like ``_json``: one Avro record per value, with or without the five bytes of Confluent's serializers."""
    from pyspark.sql import functions as f

    parsed, fields = parse_avro_schema(schema)
    has_decimals = "decimal" in schema
    value = f.udf(lambda value: decode_avro(parsed, value, has_decimals=has_decimals), fields)(f.col("value"))
    return fields, value, f.col("_value").isNotNull()


def ddl_struct(schema: str) -> Any:
    """Parse DDL with Spark's own parser, in Java. Raises WronglyAsked and the parser's errors."""
    from pyspark.sql.types import DataType, StructType

    fields = DataType.fromDDL(schema)
    if not isinstance(fields, StructType):
        raise WronglyAsked(f"--schema: columns are needed, as in 'a INT, b STRING', not {fields.simpleString()}")
    return fields
