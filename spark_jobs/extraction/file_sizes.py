"""``--target-file-size``: redistributes records among the writing tasks.

Spark does the work (REBALANCE with adaptive execution): it merges small tasks and splits large ones, by their output
bytes before compression. This costs one shuffle of all records.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction import session_settings
from kafka_zk.spark_jobs.extraction.table_formats import DELTA, ICEBERG, is_table

_PLACE = ("topic", "partition", "offset")
_PROPERTIES = {DELTA: "delta.targetFileSize", ICEBERG: "write.target-file-size-bytes"}
"""The table properties that correspond to the option."""


def check(target_file_bytes: int | None, format: str) -> None:
    if target_file_bytes is not None and is_table(format):
        raise WronglyAsked(f"--target-file-size is for folders: a table has its own property, {_PROPERTIES[format]}")


def rebalanced(frame: Any, partitioned_by: Sequence[str]) -> Any:
    """Redistribute the records, so that records of one folder are together, sorted by their place in the topic."""
    together = [f"`{name.replace('`', '``')}`" for name in partitioned_by]
    order = [*together, *(name for name in _PLACE if name in frame.columns)]
    spread = frame.hint("rebalance", *together)
    return spread.sortWithinPartitions(*order) if order else spread


@contextmanager
def aiming_at(spark: Any, target_file_bytes: int | None) -> Iterator[None]:
    """In the block, ``rebalanced`` creates tasks of this size."""
    if target_file_bytes is None:
        yield
        return
    wanted = {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(target_file_bytes),
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    }
    with session_settings.set_to(spark, wanted):
        yield
