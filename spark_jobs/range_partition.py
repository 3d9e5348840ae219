"""One task of a read: a range of offsets, and how an executor reads it."""

import functools
import gc
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition

from kafka_zk.spark_jobs.errors import reason_only
from kafka_zk.spark_jobs.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.range_settings import FetchSettings


class RangePartition(InputPartition):
    """One task: a range and how to fetch it."""

    def __init__(self, offset_range: OffsetRange, settings: FetchSettings) -> None:
        super().__init__(None)
        self.offset_range = offset_range
        self.settings = settings


def read_range(partition: InputPartition) -> Iterator[Any]:
    """The record batches of one task; runs in an executor. Spark plans one empty partition when there are none."""
    if not isinstance(partition, RangePartition):
        return iter(())
    return _batches(partition)


def _batches(partition: RangePartition) -> Iterator[Any]:
    with reason_only():
        yield from _range_fetcher()(partition.offset_range, partition.settings)


@functools.cache
def _range_fetcher() -> Any:
    """The class, imported once a worker, and out of the garbage collector's sight together with all it needs.

    Spark's workers collect garbage after each task, which without this looks at everything that numba brings along:
    a seventh of the CPU time of a task of 150 MB (measured).
    """
    from kafka_zk.spark_jobs.range_fetcher import RangeFetcher

    gc.freeze()
    return RangeFetcher
