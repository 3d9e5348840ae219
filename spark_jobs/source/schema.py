"""The data source's columns, with the names and types of Spark's own Kafka source.

Source: "Structured Streaming + Kafka Integration Guide" of Spark 4, schema of the source.
"""

from collections.abc import Collection
from typing import Any

from kafka_zk.spark_jobs.errors import OptionError

COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
HEADERS_COLUMN = "headers array<struct<key: string, value: binary>>"

NO_TIMESTAMP_TYPE = -1
CREATE_TIME = 0
LOG_APPEND_TIME = 1


def spark_schema(include_headers: bool) -> str:
    return f"{COLUMNS}, {HEADERS_COLUMN}" if include_headers else COLUMNS


def ddl_of(names: Collection[str]) -> str | None:
    """The definitions of these columns; None if one of them is not a plain column of the source."""
    found = {column.partition(" ")[0]: column for column in COLUMNS.split(", ")}
    return ", ".join(found[name] for name in found if name in names) if set(names) <= found.keys() else None


def projection(wanted: Any, include_headers: bool) -> tuple[str, ...]:
    """The names of the columns in ``wanted``, a ``StructType`` that a user gave. Raises OptionError."""
    kinds = dict(column.split(" ", 1) for column in COLUMNS.split(", "))
    if include_headers:
        kinds["headers"] = HEADERS_COLUMN.partition(" ")[2].replace(": ", ":").replace(", ", ",")
    for field in wanted:
        if field.name not in kinds:
            raise OptionError(f"schema: there is no column {field.name}, only {', '.join(kinds)}")
        if (kind := field.dataType.simpleString()) != kinds[field.name]:
            raise OptionError(f"schema: {field.name} is {kinds[field.name]}, not {kind}; use CAST after the read")
    return tuple(field.name for field in wanted)


def arrow_schema(include_headers: bool) -> Any:
    """The columns as a ``pyarrow.Schema``, equal to the one that Spark creates from the DDL."""
    import pyarrow as pa

    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
    if include_headers:
        header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
        fields.append(pa.field("headers", pa.list_(pa.field("element", header))))
    return pa.schema(fields)
