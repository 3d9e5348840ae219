"""Spark's data source ``kafka_zk``: batch and streaming reads and writes of Kafka topics without a jar.

    spark.dataSource.register(KafkaZkDataSource)
    frame = spark.read.format("kafka_zk").option("kafka.bootstrap.servers", "h:9092").option("subscribe", "t").load()

Options are in ``options.py``, columns in ``schema.py``. The driver plans offset ranges, and each task fetches its
ranges from the leaders. Tasks import few modules (import-linter: the contract ``executors``); only the driver uses
ZooKeeper.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from kafka_zk.spark_jobs.errors import OptionError, reason_only
from kafka_zk.spark_jobs.source import options as source_options
from kafka_zk.spark_jobs.source.options import SourceOptions
from kafka_zk.spark_jobs.source.range_partition import RangePartition, read_range
from kafka_zk.spark_jobs.source.schema import projection, spark_schema

NAME = "kafka_zk"


class KafkaZkDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return spark_schema(str(self.options.get("includeHeaders", "false")).strip().lower() == "true")

    def reader(self, schema: Any) -> "RangeReader":
        with reason_only():
            return RangeReader(self._read_options(schema))

    def streamReader(self, schema: Any) -> Any:
        try:
            options = self._read_options(schema, streaming=True)
            try:
                from kafka_zk.spark_jobs.source.stream_reader import KafkaZkStreamReader
            except ImportError as error:
                raise OptionError("readStream needs Spark 4.2 or later") from error
        except OptionError as error:
            return _RefusedStream(error)
        return KafkaZkStreamReader(options)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        from kafka_zk.spark_jobs.sink.topic_writer import TopicWriter

        with reason_only():
            if overwrite:
                raise OptionError("a topic cannot be overwritten: write with mode append")
            return TopicWriter(self._write_options(schema))

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        from kafka_zk.spark_jobs.sink.topic_writer import TopicStreamWriter

        with reason_only():
            return TopicStreamWriter(self._write_options(schema))

    def _read_options(self, schema: Any, *, streaming: bool = False) -> SourceOptions:
        """``schema``: all columns, or those of ``.schema(...)``."""
        options = source_options.parse(dict(self.options), streaming=streaming)
        return replace(options, columns=projection(schema, options.include_headers))

    def _write_options(self, schema: Any) -> Any:
        from kafka_zk.spark_jobs.sink import write_options

        options = write_options.parse(dict(self.options))
        write_options.check_columns(schema, options.topic)
        if options.zookeeper is None or "bootstrap.servers" in options.producer:
            return options
        from kafka_zk.spark_jobs.source.driver import find_brokers

        found = {"bootstrap.servers": find_brokers(options.zookeeper, options.protocol)}
        return options._replace(producer={**options.producer, **found})


class _RefusedStream(DataSourceStreamReader):
    """Raises an OptionError at Spark's first request.

    An error in the constructor would be lost: PySpark 4.3 then stops the reader, and reports only that it is missing.
    """

    def __init__(self, error: OptionError) -> None:
        self._error = error

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        with reason_only():
            raise self._error

    initialOffset = latestOffset = partitions = read = _refuse


class RangeReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        from kafka_zk.spark_jobs.source.driver import Driver

        with reason_only(), Driver(self._options) as driver:
            return [RangePartition(ranges, driver.fetch_settings) for ranges in driver.tasks(driver.plan())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_range(partition)
