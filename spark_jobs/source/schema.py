"""The data source's columns, with the names and types of Spark's own Kafka source.

Source: "Structured Streaming + Kafka Integration Guide" of Spark 4, schema of the source.
"""

from typing import Any

COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
HEADERS_COLUMN = "headers array<struct<key: string, value: binary>>"

NO_TIMESTAMP_TYPE = -1
CREATE_TIME = 0
LOG_APPEND_TIME = 1


def spark_schema(include_headers: bool) -> str:
    return f"{COLUMNS}, {HEADERS_COLUMN}" if include_headers else COLUMNS


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
