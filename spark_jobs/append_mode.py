"""``DataFrame.write.format("kafka_zk").save()`` appends, as with Spark's own Kafka sink.

Spark's default mode is to fail if the target exists, which a data source in Python does not know; it would be refused.
"""

import functools
from typing import Any

from kafka_zk.spark_jobs.datasource import NAME


def append_by_default() -> None:
    """For all sessions of this process; again it changes nothing. ``mode`` after ``format`` counts as always."""
    from pyspark.sql.readwriter import DataFrameWriter

    if not hasattr(DataFrameWriter.format, "__wrapped__"):
        DataFrameWriter.format = _appending(DataFrameWriter.format)  # type: ignore[method-assign]


def _appending(original: Any) -> Any:
    @functools.wraps(original)
    def format(writer: Any, source: str) -> Any:
        formatted = original(writer, source)
        return formatted.mode("append") if source.lower() == NAME else formatted

    return format
