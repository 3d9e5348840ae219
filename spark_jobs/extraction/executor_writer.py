"""Writes a staging folder in the executors, for the extractions that ``writers.py`` allows."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from pyspark.sql.types import StructType

from kafka_zk.spark_jobs.extraction import columns, partitioning, writers
from kafka_zk.spark_jobs.extraction.parquet import arrow_types, job
from kafka_zk.spark_jobs.extraction.parquet.record_columns import Counts, Decode, Shape, avro_record
from kafka_zk.spark_jobs.extraction.parquet.task import FileSpec, TaskSpec
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.range_folders import attempts_folder
from kafka_zk.spark_jobs.extraction.read_tasks import ReadTasks
from kafka_zk.spark_jobs.extraction.record_frames import RecordFrames, source_options
from kafka_zk.spark_jobs.extraction.undecodable import Staged, place
from kafka_zk.spark_jobs.source import options
from kafka_zk.spark_jobs.source.driver import Driver
from kafka_zk.spark_jobs.source.range_settings import FetchSettings
from kafka_zk.spark_jobs.values.avro_types import parse_avro_schema


class ExecutorWriter:
    """``frames``: the same extraction with Spark, which defines the columns."""

    def __init__(self, spark: Any, extraction: Extraction, frames: RecordFrames) -> None:
        self._spark = spark
        self._extraction = extraction
        self._frames = frames

    def sparks_writer_because(self, target: str) -> str | None:
        """Why Spark's own writer must write below ``target``; None if ``write`` can."""
        hadoop = self._spark._jsc.hadoopConfiguration().getPropsWithPrefix("parquet.")
        return writers.sparks_writer_because(
            self._extraction, target, self._frames.available, self._frames.empty().schema, self._spark.conf.getAll,
            [f"parquet.{name}" for name in hadoop],
        )  # fmt: skip

    def write(self, staging: str, tasks: ReadTasks, bootstrap_servers: str, file: FileSpec | None = None) -> Staged:
        """``file``: the format of a table's files; None for a folder's files. Raises Spark's errors and OSError."""
        folder = job.local_path(staging)
        written = self._frames.empty().schema
        terms = self._extraction.partition_by
        names = partitioning.columns(terms)
        in_files = StructType([field for field in written if field.name not in names])
        spec = TaskSpec(
            attempts_folder(folder),
            self._fetch_settings(tasks, bootstrap_servers),
            self._shape(written.fieldNames()),
            file or job.file_spec(in_files, writers.codec(self._spark.conf.getAll)),
            {each.derived: (each.column, each.name) for each in filter(None, map(partitioning.transform, terms))},
            tuple(names),
        )
        return _staged(job.write(self._spark, spec, tasks.ranges, folder))

    def _fetch_settings(self, tasks: ReadTasks, bootstrap_servers: str) -> FetchSettings:
        headers = self._frames.with_headers
        given = source_options(self._extraction, tasks, bootstrap_servers, headers=headers)
        with Driver(options.parse(given)) as driver:
            return driver.fetch_settings

    def _shape(self, names: Sequence[str]) -> Shape:
        asked = self._extraction
        sources = columns.plain_columns(asked.select, self._frames.available)
        assert sources is not None, "else Spark writes"
        decode: Decode | None = None
        fields = None
        if asked.value_format is not None:
            decode, fields = self._frames.decoder.decode, self._frames.decoder.columns
        elif asked.decode == "avro":
            assert asked.schema is not None, "checked with the options"
            parsed, fields = parse_avro_schema(asked.schema)
            decode = partial(avro_record, parsed, "decimal" in asked.schema)
        return Shape(
            tuple(zip(names, sources, strict=True)), asked.decode == "string", decode,
            fields and arrow_types.arrow_type(fields), leaves_out=asked.dead_letter_topic is not None,
        )  # fmt: skip


def _staged(counts: Counts) -> Staged:
    first = "" if counts.first is None else place(*counts.first)
    return Staged(counts.written, counts.values, counts.undecodable, first, counts.keys)
