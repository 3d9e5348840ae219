"""One task of a read."""

import functools
import gc
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition

from kafka_zk.spark_jobs.errors import reason_only
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.source.range_settings import FetchSettings


class RangePartition(InputPartition):
    """The ranges are read in sequence."""

    def __init__(self, ranges: tuple[OffsetRange, ...], settings: FetchSettings) -> None:
        super().__init__(None)
        self.ranges = ranges
        self.settings = settings


def read_range(partition: InputPartition) -> Iterator[Any]:
    """Yield the record batches of one task, in an executor. For a read without tasks, Spark plans one empty
    partition.
    """
    if not isinstance(partition, RangePartition):
        return iter(())
    return _batches(partition)


def _batches(partition: RangePartition) -> Iterator[Any]:
    columns = partition.settings.columns
    with reason_only():
        for batch in _fetch()(partition.ranges, partition.settings):
            yield batch if columns is None else batch.select(columns)


@functools.cache
def _fetch() -> Any:
    """``range_fetcher.fetch``, imported once per worker and then exempted from garbage collection, with all its
    objects.

    Spark's workers collect garbage after each task, and numba's objects would take a seventh of the CPU time of a 150
    MB task (measured).
    """
    from kafka_zk.spark_jobs.source.range_fetcher import fetch

    gc.freeze()
    return fetch
