"""``DataFrame.write.format("kafka_zk")`` is refused at once, with a sentence that says what to do instead.

A data source is asked for its writer only in the modes append and overwrite. In the default mode Spark refuses the
write by itself and recommends append, which would be refused as well.
"""

import functools
from typing import Any

from kafka_zk.spark_jobs.datasource import NAME, READ_ONLY
from kafka_zk.spark_jobs.errors import OptionError


def refuse_writes() -> None:
    """For all sessions of this process; again it changes nothing."""
    from pyspark.sql.readwriter import DataFrameWriter

    if not hasattr(DataFrameWriter.format, "__wrapped__"):
        DataFrameWriter.format = _checked(DataFrameWriter.format)  # type: ignore[method-assign]


def _checked(original: Any) -> Any:
    @functools.wraps(original)
    def format(writer: Any, source: str) -> Any:
        if source.lower() == NAME:
            raise OptionError(READ_ONLY)
        return original(writer, source)

    return format
