"""Spark's data source ``kafka_zk``: batch and streaming reads of Kafka topics without a jar.

    spark.dataSource.register(KafkaZkDataSource)
    frame = spark.read.format("kafka_zk").option("kafka.bootstrap.servers", "h:9092").option("subscribe", "t").load()

Options are in ``options.py``, columns in ``schema.py``. The driver plans offset ranges, each task fetches one from the
leaders. What a task imports is kept small (import-linter: the contract ``executors``); ZooKeeper is for the driver.
"""

import functools
import gc
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from spark_jobs import options as source_options
from spark_jobs.offset_ranges import OffsetRange
from spark_jobs.options import SourceOptions
from spark_jobs.range_settings import FetchSettings
from spark_jobs.schema import spark_schema

NAME = "kafka_zk"


class RangePartition(InputPartition):
    """One task: a range and how to fetch it."""

    def __init__(self, offset_range: OffsetRange, settings: FetchSettings) -> None:
        super().__init__(None)
        self.offset_range = offset_range
        self.settings = settings


class KafkaZkDataSource(DataSource):
    """Registered as ``kafka_zk``."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return spark_schema(str(self.options.get("includeHeaders", "false")).strip().lower() == "true")

    def reader(self, schema: Any) -> "RangeReader":
        return RangeReader(source_options.parse(dict(self.options)))

    def streamReader(self, schema: Any) -> Any:
        from spark_jobs.stream_reader import KafkaZkStreamReader

        return KafkaZkStreamReader(source_options.parse(dict(self.options), streaming=True))


def read_range(partition: InputPartition) -> Iterator[Any]:
    """The record batches of one task; runs in an executor. Spark plans one empty partition when there are none."""
    if not isinstance(partition, RangePartition):
        return iter(())
    return iter(_range_fetcher()(partition.offset_range, partition.settings))


@functools.cache
def _range_fetcher() -> Any:
    """The class, imported once a worker, and out of the garbage collector's sight together with all it needs.

    Spark's workers collect garbage after each task, which without this looks at everything that numba brings along:
    a seventh of the CPU time of a task of 150 MB (measured).
    """
    from spark_jobs.range_fetcher import RangeFetcher

    gc.freeze()
    return RangeFetcher


class RangeReader(DataSourceReader):
    """The batch read. ``ranges`` given by the extraction replace the plan."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        from spark_jobs.driver import Driver

        with Driver(self._options) as driver:
            pieces = driver.split(driver.plan())
            return [RangePartition(piece, driver.fetch_settings) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_range(partition)
