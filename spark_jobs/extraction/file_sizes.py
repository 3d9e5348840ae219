"""``--target-file-size``: records are redistributed among the tasks that write, so that files get about this size.

Spark does it (REBALANCE with adaptive execution): small tasks are merged and large ones split, by the bytes that they
hand over, which are measured before a file compresses them. It costs one shuffle of all records.
Tests: tests/integration/spark/test_lake.py.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.table_formats import DELTA, ICEBERG, is_table

_PLACE = ("topic", "partition", "offset")
_PROPERTIES = {DELTA: "delta.targetFileSize", ICEBERG: "write.target-file-size-bytes"}
"""Of the tables themselves."""


def check(target_file_bytes: int | None, format: str) -> None:
    """Raises: WronglyAsked."""
    if target_file_bytes is not None and is_table(format):
        raise WronglyAsked(f"--target-file-size is for folders: a table has its own property, {_PROPERTIES[format]}")


def rebalanced(frame: Any, partitioned_by: Sequence[str]) -> Any:
    """The frame with its records in other tasks: those of a folder together, each ordered by its place in the topic."""
    together = [f"`{name.replace('`', '``')}`" for name in partitioned_by]
    order = [*together, *(name for name in _PLACE if name in frame.columns)]
    spread = frame.hint("rebalance", *together)
    return spread.sortWithinPartitions(*order) if order else spread


@contextmanager
def aiming_at(spark: Any, target_file_bytes: int | None) -> Iterator[None]:
    """The session's configuration under which ``rebalanced`` makes tasks of that size; as it was after the block."""
    if target_file_bytes is None:
        yield
        return
    wanted = {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(target_file_bytes),
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    }
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)
