"""The types of a table's columns and of a DataFrame that is appended to it."""

from typing import Any

from pyspark.sql.types import StructType

from kafka_zk.spark_jobs.extraction.schemas import type_changes
from kafka_zk.spark_jobs.extraction.schemas.type_changes import TypeChange


def changes_of(table: Any, written: Any) -> list[TypeChange]:
    """Both are a ``StructType``."""
    return type_changes.type_changes(table.jsonValue()["fields"], written.jsonValue()["fields"])


def with_wider_types(frame: Any, table: Any) -> Any:
    """The frame with the types of ``table``, a ``StructType``, where they are wider: Delta would refuse narrower ones,
    and Iceberg, too, if it adds new columns.

    A struct keeps the order of its own fields, because a cast to the table's struct would go by place, not by name.
    """
    wider = StructType.fromJson(type_changes.with_wider_types(frame.schema.jsonValue(), table.jsonValue()))
    for name in sorted({each.path[0] for each in changes_of(table, frame.schema) if each.narrows}):
        frame = frame.withColumn(name, frame[f"`{name}`"].cast(wider[name].dataType))
    return frame
