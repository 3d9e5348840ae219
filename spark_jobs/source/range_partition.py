"""One task of a read: ranges of offsets, and how an executor reads them."""

import functools
import gc
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition

from kafka_zk.spark_jobs.errors import reason_only
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.source.range_settings import FetchSettings


class RangePartition(InputPartition):
    """One task: ranges, read one after the other, and how to fetch them."""

    def __init__(self, ranges: tuple[OffsetRange, ...], settings: FetchSettings) -> None:
        super().__init__(None)
        self.ranges = ranges
        self.settings = settings


def read_range(partition: InputPartition) -> Iterator[Any]:
    """The record batches of one task; runs in an executor. Spark plans one empty partition when there are none."""
    if not isinstance(partition, RangePartition):
        return iter(())
    return _batches(partition)


def _batches(partition: RangePartition) -> Iterator[Any]:
    with reason_only():
        yield from _fetch()(partition.ranges, partition.settings)


@functools.cache
def _fetch() -> Any:
    """``range_fetcher.fetch``, imported once a worker, and kept out of the garbage collector with all it needs.

    Spark's workers collect garbage after each task, which without this looks at everything that numba brings along:
    a seventh of the CPU time of a task of 150 MB (measured).
    """
    from kafka_zk.spark_jobs.source.range_fetcher import fetch

    gc.freeze()
    return fetch
