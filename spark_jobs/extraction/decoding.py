"""Decodes keys and values: unchanged, as text, or as a schema's columns."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kafka_zk.spark_jobs.errors import WronglyAsked, reason_only
from kafka_zk.spark_jobs.extraction.keys import BYTES, TEXT_KEYS, Keys
from kafka_zk.spark_jobs.extraction.undecodable import CHOICES, FAIL, KEEP, RAW_KEY, RAW_VALUE
from kafka_zk.spark_jobs.source.schema import COLUMNS
from kafka_zk.spark_jobs.values.avro_types import decode_avro, parse_avro_schema
from kafka_zk.spark_jobs.values.framing import ValueUndecodable
from kafka_zk.spark_jobs.values.json_round_trip import TO_JSON, ChangedFields
from kafka_zk.spark_jobs.values.value_decoder import ValueDecoder

DECODINGS = ("json", "avro", "string")
FORMATS = ("parquet", "json", "csv")
KEPT = ("key", "topic", "partition", "offset", "timestamp")
INTERNAL = "_kafka_zk_"
"""Prefix of columns that are not written."""
FITS = f"{INTERNAL}fits"
"""Column: whether key and value were decoded. Null if the record has no value and its key was decoded."""
REASON = f"{INTERNAL}reason"
"""Column: why the key or the value was not decoded; null if no reason is known."""
KEY_MISFIT = f"{INTERNAL}key_misfit"
"""Column: whether the record has a key that was not decoded."""
JUDGEMENT = (FITS, KEY_MISFIT, REASON)
_CORRUPT = f"{INTERNAL}corrupt"
_NOT_BACK = "does not come back as written: "
_JSON_SPACE = " \t\r\n"
_CORRUPT_OPTION = "columnNameOfCorruptRecord"


def read_schema(text: str) -> str:
    return Path(text[1:]).read_text() if text.startswith("@") else text


def check(
    decode: str | None, schema: str | None, format: str, on_undecodable: str = FAIL, value_format: str | None = None,
    key_format: str | None = None,
) -> None:  # fmt: skip
    """Check the options, as far as possible without Spark. Raises WronglyAsked for impossible combinations."""
    if decode in ("json", "avro") and not schema:
        raise WronglyAsked(f"--decode {decode} needs --schema")
    if schema and decode not in ("json", "avro") and value_format is None:
        raise WronglyAsked("--schema is for --decode json and avro, and for --value-format")
    if on_undecodable not in CHOICES:
        raise WronglyAsked(f"--on-undecodable: {on_undecodable!r} is not {', '.join(CHOICES[:-1])} or {CHOICES[-1]}")
    if on_undecodable == KEEP and decode is None and value_format is None and key_format in (None, BYTES):
        raise WronglyAsked(
            f"--on-undecodable {KEEP} is for --decode, --value-format and --key-format: bytes are not decoded"
        )
    if format == "csv" and decode is None and value_format is None:
        raise WronglyAsked(
            "CSV contains only text: --format csv needs --decode string, json or avro, or --value-format"
        )


def known_columns(
    decode: str | None, schema: str | None, on_undecodable: str = FAIL, key_type: Any = None, prefix: str = ""
) -> Any:
    """The written columns as a ``StructType``; None for a DDL schema, which only Spark's parser knows.

    ``key_type``: the Spark type of decoded keys; by default text, and bytes without ``decode``. Raises: WronglyAsked if
    the schema is invalid.
    """
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType

    key_type = key_type or (BinaryType() if decode is None else StringType())
    source = StructType([StructField("key", key_type), *_source_columns().fields[1:]])
    fields: list[Any] = []
    if decode in (None, "string"):
        value = StructField("value", BinaryType() if decode is None else StringType())
        others = [value if each.name == "value" else each for each in source]
    else:
        assert schema is not None, "checked before"
        values = parse_avro_schema(schema)[1] if decode == "avro" else _json_struct(schema)
        if values is None:
            return None
        check_fields(values, on_undecodable, [f"{prefix}{name}" for name in KEPT])
        fields, others = list(values), [source[name] for name in KEPT]
    if on_undecodable == KEEP:
        fields += [StructField(RAW_VALUE, BinaryType())] if decode is not None else []
        fields += [StructField(RAW_KEY, BinaryType())] if key_type != BinaryType() else []
    return StructType([*(StructField(_written(each.name, prefix), each.dataType) for each in others), *fields])


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


def check_fields(values: Any, on_undecodable: str, others: Sequence[str]) -> None:
    """Check the schema's fields (a ``StructType``) against the other columns. Raises WronglyAsked."""
    for name in values.fieldNames():
        if name.lower() in map(str.lower, others):
            raise WronglyAsked(
                f"--schema: the field {name} has the same name as a column of the source: --metadata-prefix _kafka_ "
                "renames those columns"
            )
        if name.lower() in (RAW_VALUE, RAW_KEY) and on_undecodable == KEEP:
            raise WronglyAsked(f"--schema: the field {name} has the same name as the column of --on-undecodable {KEEP}")


def check_columns(columns: Any, format: str, partition_by: Sequence[str]) -> None:
    """Find errors in the columns (a ``StructType``) that Spark would report only when it writes. Raises
    WronglyAsked.
    """
    types = {field.name: field.dataType for field in columns}
    if twice := [name for name, count in Counter(field.name.lower() for field in columns).items() if count > 1]:
        raise WronglyAsked(f"--schema: several column names differ only in case: {twice[0]}")
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


class _Part(NamedTuple):
    """A decoded key or value. ``content`` is null if it is absent or undecodable; ``changed`` has the names of fields
    that the table's types would change; ``fits`` and ``reason`` are for a part that is present.
    """

    frame: Any
    content: Any
    fields: Any
    changed: Any
    fits: Any
    reason: Any


def decoded(
    frame: Any, decode: str | ValueDecoder | None, schema: str | None, on_undecodable: str, format: str,
    included: Sequence[str] = (), keys: Keys = TEXT_KEYS, prefix: str = "",
) -> Any:  # fmt: skip
    """Decode key and value, and add the columns FITS, KEY_MISFIT and REASON.

    Except for string and bytes, each field of the schema becomes a column beside key, topic, partition, offset,
    timestamp and ``included`` columns; fields that do not fit are null. ``prefix``: precedes the name of each column
    except the value's. KEEP adds RAW_VALUE, and RAW_KEY unless keys are bytes; in CSV all bytes are Base64.
    Raises: WronglyAsked, and the errors of Spark's parser for a DDL schema.
    """
    from pyspark.sql import functions as f

    def raw(name: str) -> Any:
        return f.base64(name) if format == "csv" else f.col(name)

    key = _decoded_part(frame, "key", keys.decode, keys.schema)
    value = _decoded_part(key.frame, "value", decode, schema)
    has_fields = decode not in (None, "string")
    names = [*KEPT, *included] if has_fields else list(frame.columns)
    contents = {"key": raw("key") if keys.decode is None else _whole(key), "value": value.content}
    columns = [contents.get(name, f.col(name)).alias(_written(name, prefix)) for name in names]
    if has_fields:
        check_fields(value.fields, on_undecodable, [f"{prefix}{name}" for name in names])
        columns += [_field(value, name) for name in value.fields.fieldNames()]
    value_fits = f.when(f.col("value").isNotNull(), value.fits)
    key_misfit = f.col("key").isNotNull() & ~key.fits
    if on_undecodable == KEEP and decode is not None:
        columns.append(f.when(~value_fits, raw("value")).alias(RAW_VALUE))
    if on_undecodable == KEEP and keys.decode is not None:
        columns.append(f.when(key_misfit, raw("key")).alias(RAW_KEY))
    told = f.concat(f.lit(keys.misfit), f.coalesce(f.concat(f.lit(": "), key.reason), f.lit("")))
    return value.frame.select(
        *columns,
        f.when(key_misfit, False).otherwise(value_fits).alias(FITS),
        key_misfit.alias(KEY_MISFIT),
        f.when(key_misfit, told).otherwise(value.reason).alias(REASON),
    )


def _written(name: str, prefix: str) -> str:
    return name if name == "value" or name.startswith(INTERNAL) else f"{prefix}{name}"


def _decoded_part(frame: Any, name: str, decode: str | ValueDecoder | None, schema: str | None) -> _Part:
    from pyspark.sql import functions as f

    source, content, no_reason = f.col(name), f.col(f"_{name}"), f.lit(None).cast("string")
    if decode is None:
        return _Part(frame, source, None, None, f.lit(True), no_reason)
    if decode == "string":
        text = f.try_validate_utf8(source.cast("string"))
        return _Part(frame.withColumn(f"_{name}", text), content, None, None, content.isNotNull(), no_reason)
    if decode == "json":
        assert schema is not None, "checked before"
        return _decoded_json(frame, name, schema)
    if decode == "avro":
        assert schema is not None, "checked before"
        fields, column = _avro(schema, source, is_key=name == "key")
        return _Part(frame.withColumn(f"_{name}", column), content, fields, None, content.isNotNull(), no_reason)
    assert not isinstance(decode, str), "checked before"
    frame = frame.withColumn(f"_{name}", _framed(decode, source))
    reason = content.getField("reason")
    return _Part(frame, content.getField("record"), decode.columns, None, reason.isNull(), reason)


def _whole(part: _Part) -> Any:
    """The part as one column; null if one of its fields would be changed."""
    from pyspark.sql import functions as f

    if part.changed is None:
        return part.content
    fields = f.struct(*(part.content.getField(name).alias(name) for name in part.fields.fieldNames()))
    return f.when(part.content.isNotNull() & part.fits, fields)


def _field(part: _Part, name: str) -> Any:
    """The field as a column, which is null if the table's type would change the field."""
    from pyspark.sql import functions as f

    field = part.content.getField(name)
    return (field if part.changed is None else f.when(~f.array_contains(part.changed, name), field)).alias(name)


def _framed(decoder: Any, source: Any) -> Any:
    """A column with the record and the reason of a failure. ``decoder``: a ValueDecoder or NumberDecoder."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    result = StructType([StructField("record", decoder.columns), StructField("reason", StringType())])
    return f.udf(lambda value: _read(decoder, value), result)(source)


def _read(decoder: Any, value: bytes | None) -> Any:
    """Decode one value in an executor."""
    if value is None:
        return None
    with reason_only():
        try:
            return {"record": decoder.decode(bytes(value)), "reason": None}
        except ValueUndecodable as error:
            return {"record": None, "reason": str(error)}


def _decoded_json(frame: Any, name: str, schema: str) -> _Part:
    """A struct of the schema's fields, from a JSON object.

    Spark's parser marks most values that do not fit, but not a value without any of the fields, an empty value, bytes
    that are not text, or fields that it changes (``_changed``). JSON's null counts as no value.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    fields = _json_struct(schema) or ddl_struct(schema)
    text, found, changed = f.col(name).cast("string"), f.col(f"_{name}"), f.col(f"_{name}_changed")
    content = f.from_json(text, StructType([*fields, StructField(_CORRUPT, StringType())]), {_CORRUPT_OPTION: _CORRUPT})
    frame = frame.withColumn(f"_{name}", content)
    frame = frame.withColumn(f"_{name}_changed", _changed(fields, f.col(name), found))
    names = f.array(*(f.lit(each) for each in fields.fieldNames()))
    keys = f.json_object_keys(text)
    is_empty = f.lit(True)
    for each in fields.fieldNames():
        is_empty = is_empty & found.getField(each).isNull()
    is_foreign = f.coalesce(is_empty & (f.size(keys) > 0) & ~f.arrays_overlap(keys, names), f.lit(False))
    is_whole = found.getField(_CORRUPT).isNull()
    fits = found.isNotNull() & is_whole & f.is_valid_utf8(text) & ~is_foreign & (f.size(changed) == 0)
    told = f.concat(f.lit(_NOT_BACK), f.array_join(changed, ", "))
    reason = f.when((f.size(changed) > 0) & is_whole, told)
    return _Part(frame, found, fields, changed, fits | (f.btrim(text, f.lit(_JSON_SPACE)) == "null"), reason)


def _changed(fields: Any, source: Any, parsed: Any) -> Any:
    """A column of changed fields' names, from the bytes and what Spark's parser made of them."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, StringType

    compare = ChangedFields(fields)
    changed = f.udf(lambda value, came_back: compare(value, came_back), ArrayType(StringType()))
    record = f.struct(*(parsed.getField(name).alias(name) for name in fields.fieldNames()))
    return changed(source, f.to_json(record, TO_JSON))


def _avro(schema: str, source: Any, *, is_key: bool) -> tuple[Any, Any]:
    """The type and a column: one Avro datum per value, with or without the five bytes of Confluent's serializers."""
    from pyspark.sql import functions as f

    parsed, kind = parse_avro_schema(schema, is_key=is_key)
    has_decimals = "decimal" in schema
    return kind, f.udf(lambda value: decode_avro(parsed, value, has_decimals=has_decimals), kind)(source)


def ddl_struct(schema: str) -> Any:
    """Parse DDL with Spark's own parser, in Java. Raises WronglyAsked and the parser's errors."""
    from pyspark.sql.types import DataType, StructType

    fields = DataType.fromDDL(schema)
    if not isinstance(fields, StructType):
        raise WronglyAsked(f"--schema: columns are needed, as in 'a INT, b STRING', not {fields.simpleString()}")
    return fields
