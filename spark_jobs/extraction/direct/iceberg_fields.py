"""Converts an Iceberg table's schema to that of Parquet files with field ids, and finds its partition values. Pure.

Source: Iceberg's table specification (Schemas, Partition Transforms, Appendix A: Parquet, Appendix C: JSON).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

import pyarrow as pa

from kafka_zk.spark_jobs.extraction import partitioning
from kafka_zk.spark_jobs.extraction.parquet.leaf_columns import FIELD_ID, columns
from kafka_zk.spark_jobs.extraction.parquet.partition_folders import NO_VALUE

_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "timestamp": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_TIME = re.compile(r"(?P<years>[+-]?\d+)(?:-(?P<months>\d\d))?(?:-(?P<days>\d\d))?(?:-(?P<hours>\d\d))?")
_EPOCH_YEAR = 1970
_DAYS_OF_400_YEARS = 146_097
_OF_WRITERS = ("write.", "encryption.")
_KNOWN = (
    "write.format.default", "write.parquet.compression-codec", "write.wap.enabled", "write.metadata.",
    "write.distribution-mode", "write.target-file-size-bytes", "write.spark.accept-any-schema", "write.delete.",
    "write.update.", "write.merge.", "write.summary.", "write.manifest.",
)  # fmt: skip
"""Settings that executors' files comply with, or that do not concern files."""
_OF_SESSIONS = ("spark.sql.iceberg.", "spark.wap.")
_OF_READERS = tuple(
    f"spark.sql.iceberg.{name}"
    for name in ("vectorization.", "planning.", "data-planning-mode", "delete-planning-mode", "read.", "locality.",
                 "executor-cache.", "aggregate-push-down.", "async-micro-batch-planning-enabled",
                 "report-column-stats", "identifier-fields-rely")
)  # fmt: skip


def setting_of_writer(session: Iterable[str]) -> str | None:
    """The first session setting by which Iceberg's own writer would override a setting of the table, if any."""
    found = (each for each in sorted(session) if each.startswith(_OF_SESSIONS) and not each.startswith(_OF_READERS))
    return next(found, None)


def sparks_writer_because(
    settings: Mapping[str, str], schema: Mapping[str, Any], fields: Sequence[Mapping[str, Any]], terms: Sequence[str],
    written: pa.Schema,
) -> str | None:  # fmt: skip
    """Why only Iceberg's own writer may add rows; None if files can be added.

    Args:
        settings: the table's properties.
        schema: the table's schema, as JSON.
        fields: the fields of its partition spec, as JSON.
        terms: ``--partition-by``.
        written: the files' columns, without field ids.
    """
    found = arrow_schema(schema)
    unknown = [name for name in sorted(settings) if name.startswith(_OF_WRITERS) and not name.startswith(_KNOWN)]
    reasons = {
        **{f"the table's setting {name}": True for name in unknown},
        "the table's file format": settings.get("write.format.default", "parquet").lower() != "parquet",
        "the table's columns": found is None or not found.equals(written),
        "the table's partitions": [_term(field, schema) for field in fields] != list(map(_wanted, terms)),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _term(field: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[str, str, str] | None:
    names = {each["id"]: each["name"] for each in schema["fields"]}
    return f"{field['transform']}s", names.get(field.get("source-id"), ""), field["name"]


def _wanted(term: str) -> tuple[str, str, str] | None:
    """The name, column and derived column of a time transform; None for other terms."""
    asked = partitioning.transform(term)
    return None if asked is None or asked.buckets is not None else (asked.name, asked.column, asked.derived)


def arrow_schema(schema: Mapping[str, Any]) -> pa.Schema | None:
    """The schema with field ids; None if a field has a type that Spark does not write, or must not be null."""
    fields = [_field(each["name"], each["id"], each["type"], each["required"]) for each in schema["fields"]]
    return None if any(each is None for each in fields) else pa.schema(fields)


def ids(schema: pa.Schema) -> list[tuple[str, str]]:
    """The id of every field, including nested ones; a column that was dropped and added again has a new id."""
    return [(each.path, each.field.metadata[FIELD_ID].decode()) for each in columns(schema)]


def _field(name: str, number: int, kind: Any, required: bool) -> pa.Field | None:
    found = None if required else _type(kind)
    return None if found is None else pa.field(name, found, metadata={FIELD_ID: str(number)})


def _type(kind: Any) -> pa.DataType | None:
    if isinstance(kind, str):
        decimal = _DECIMAL.fullmatch(kind)
        return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _PLAIN.get(kind)
    if kind["type"] == "struct":
        fields = [_field(each["name"], each["id"], each["type"], each["required"]) for each in kind["fields"]]
        return None if any(each is None for each in fields) else pa.struct(fields)
    if kind["type"] == "list":
        element = _field("element", kind["element-id"], kind["element"], kind["element-required"])
        return None if element is None else pa.list_(element)
    key = _field("key", kind["key-id"], kind["key"], False)
    value = _field("value", kind["value-id"], kind["value"], kind["value-required"])
    return None if key is None or value is None else pa.map_(key.with_nullable(False), value)


def partition_values(folder: str, terms: Sequence[str]) -> list[int | None]:
    """The transforms' values in the folder's name, in order, as counts since 1970; None for null."""
    texts = [part.partition("=")[2] for part in folder.split("/")] if folder else []
    return [_units(text) for text, _ in zip(texts, terms, strict=True)]


def _units(text: str) -> int | None:
    """The count since 1970; None for null. ``text``: as ``partition_folders.time_texts`` writes it."""
    if text == NO_VALUE:
        return None
    found = _TIME.fullmatch(text)
    assert found is not None, "our own folders"
    year = int(found["years"])
    if found["months"] is None:
        return year - _EPOCH_YEAR
    month = int(found["months"])
    if found["days"] is None:
        return (year - _EPOCH_YEAR) * 12 + month - 1
    cycles, year_of_cycle = divmod(year, 400)  # Python's dates end in the year 9999
    days = date(year_of_cycle + 400, month, int(found["days"])).toordinal() + (cycles - 1) * _DAYS_OF_400_YEARS
    days -= date(_EPOCH_YEAR, 1, 1).toordinal()
    return days if found["hours"] is None else days * 24 + int(found["hours"])
