"""Spark's data source ``kafka_zk``: batch and streaming reads of Kafka topics without a jar.

    spark.dataSource.register(KafkaZkDataSource)
    frame = spark.read.format("kafka_zk").option("kafka.bootstrap.servers", "h:9092").option("subscribe", "t").load()

Options are in ``options.py``, columns in ``schema.py``. The driver plans offset ranges, each task fetches one from the
leaders. What a task imports is kept small (import-linter: the contract ``executors``); ZooKeeper is for the driver.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kafka_zk.spark_jobs import options as source_options
from kafka_zk.spark_jobs.errors import OptionError, reason_only
from kafka_zk.spark_jobs.options import SourceOptions
from kafka_zk.spark_jobs.range_partition import RangePartition, read_range
from kafka_zk.spark_jobs.schema import spark_schema

NAME = "kafka_zk"
READ_ONLY = (
    'the data source kafka_zk reads only; to write a DataFrame to a topic use Spark\'s own: .write.format("kafka") '
    "with the package org.apache.spark:spark-sql-kafka-0-10"
)


class KafkaZkDataSource(DataSource):
    """Registered as ``kafka_zk``."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return spark_schema(str(self.options.get("includeHeaders", "false")).strip().lower() == "true")

    def reader(self, schema: Any) -> "RangeReader":
        with reason_only():
            return RangeReader(source_options.parse(dict(self.options)))

    def streamReader(self, schema: Any) -> Any:
        with reason_only():
            try:
                from kafka_zk.spark_jobs.stream_reader import KafkaZkStreamReader
            except ImportError as error:
                raise OptionError("readStream needs Spark 4.2 or later") from error
            return KafkaZkStreamReader(source_options.parse(dict(self.options), streaming=True))

    def writer(self, schema: Any, overwrite: bool) -> Any:
        with reason_only():
            raise OptionError(READ_ONLY)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        with reason_only():
            raise OptionError(READ_ONLY)


class RangeReader(DataSourceReader):
    """The batch read."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        from kafka_zk.spark_jobs.driver import Driver

        with reason_only(), Driver(self._options) as driver:
            pieces = driver.split(driver.plan())
            return [RangePartition(piece, driver.fetch_settings) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_range(partition)
