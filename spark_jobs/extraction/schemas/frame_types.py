"""The types of a table's columns and of a DataFrame that is appended to it."""

from typing import Any

from kafka_zk.spark_jobs.extraction.schemas.type_changes import TypeChange, type_changes


def changes_of(table: Any, written: Any) -> list[TypeChange]:
    """Both are a ``StructType``."""
    return type_changes(table.jsonValue()["fields"], written.jsonValue()["fields"])


def with_wider_types(frame: Any, table: Any) -> Any:
    """The frame with the types of ``table``, a ``StructType``, where they are wider: Delta would refuse narrower ones,
    and Iceberg, too, if it adds new columns."""
    kinds = {each.name: each.dataType for each in table}
    for name in sorted({each.path[0] for each in changes_of(table, frame.schema) if each.narrows}):
        frame = frame.withColumn(name, frame[f"`{name}`"].cast(kinds[name]))
    return frame
