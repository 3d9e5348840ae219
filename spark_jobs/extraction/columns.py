"""Optional columns, and SQL on all columns before they are written."""

import re
from collections.abc import Sequence
from typing import Any

from kafka_zk.base.randomness import SYSTEM_RANDOM, random_uuid
from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.source.schema import CREATE_TIME, LOG_APPEND_TIME

HEADERS, TIMESTAMP_TYPE = "headers", "timestamp_type"
INCLUDED = (HEADERS, TIMESTAMP_TYPE)
_COLUMN = re.compile(r"(?P<name>[A-Za-z_]\w*)|`(?P<quoted>[^`,]+)`", re.ASCII)
_SUMMARY = re.compile(r"^[\s:+-]*(?:Aggregate|Distinct|Deduplicate)\b", re.MULTILINE)
"""Nodes of Spark's plans that turn several records into one row."""


def check_included(included: Sequence[str]) -> None:
    for name in included:
        if name not in INCLUDED:
            raise WronglyAsked(f"--include: {name!r} is not {' or '.join(INCLUDED)}")


def with_included(frame: Any, included: Sequence[str]) -> Any:
    """``frame``: the source's frame, with headers if they are needed. ``headers`` is a map of bytes. If several headers
    have the same key, the last one counts, as in Kafka's ``lastHeader``. ``timestamp_type`` is CreateTime,
    LogAppendTime, or null for records without a timestamp.
    """
    from pyspark.sql import functions as f

    if TIMESTAMP_TYPE in included:
        kind = f.col("timestampType")
        named = f.when(kind == CREATE_TIME, "CreateTime").when(kind == LOG_APPEND_TIME, "LogAppendTime")
        frame = frame.withColumn(TIMESTAMP_TYPE, named)
    if HEADERS in included:
        frame = frame.withColumn(HEADERS, f.expr(_LAST_HEADERS))
    return frame


_KEYS = "array_distinct(transform(headers, header -> header.key))"
_LAST_HEADERS = (
    f"map_from_arrays({_KEYS}, transform({_KEYS}, "
    "name -> element_at(filter(headers, header -> header.key = name), -1).value))"
)


def filtered(frame: Any, where: str | None) -> Any:
    """Keep the rows for which the condition is true, neither false nor null."""
    return frame if where is None else frame.where(where)


def plain_columns(select: str | None, available: Sequence[str]) -> list[str] | None:
    """The columns that --select names; None if --select contains anything else. Spark ignores case."""
    if select is None or select.strip() == "*":
        return list(available)
    own_names = {name.lower(): name for name in available}
    found = []
    for term in select.split(","):
        given = _COLUMN.fullmatch(term.strip())
        name = given and (given["quoted"] or given["name"])
        if not name or name.lower() not in own_names:
            return None
        found.append(own_names[name.lower()])
    return found


def summarizes(frame: Any) -> bool:
    """True if several records become one row."""
    return _SUMMARY.search(frame._jdf.queryExecution().analyzed().toString()) is not None


def selected(spark: Any, frame: Any, select: str | None) -> Any:
    """``select``: the expressions between SELECT and FROM."""
    if select is None:
        return frame
    view = f"kafka_zk_{random_uuid(SYSTEM_RANDOM).hex}"
    frame.createTempView(view)
    try:
        return spark.sql(f"SELECT {select} FROM {view}")
    finally:
        spark.catalog.dropTempView(view)
