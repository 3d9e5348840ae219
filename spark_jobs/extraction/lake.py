"""Where an extraction to files goes: Spark writes the staging folder, ``range_folders.py`` publishes it.

The folders are in Hadoop's file systems as Spark sees them; how each class of store publishes is ``stores.py``.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kafka_zk.spark_jobs.extraction import decoding, partitioning
from kafka_zk.spark_jobs.extraction.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.hadoop_files import HadoopFiles
from kafka_zk.spark_jobs.extraction.manifest import Manifest
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.progress import JobProgress, Progress
from kafka_zk.spark_jobs.extraction.range_folders import RangeFolders
from kafka_zk.spark_jobs.extraction.spark_failure import first_line
from kafka_zk.spark_jobs.extraction.stores import Publication, missing_module, publication
from kafka_zk.spark_jobs.extraction.table_formats import is_table
from kafka_zk.spark_jobs.extraction.undecodable import Staged
from kafka_zk.spark_jobs.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.offset_specs import format_offsets
from kafka_zk.spark_jobs.schema import COLUMNS
from kafka_zk.storage.types import TopicPartition

_COMMITTER = "mapreduce.fileoutputcommitter.algorithm.version"


def _read_options(extraction: Extraction) -> dict[str, str]:
    """How to read, as the data source's options."""
    options = {f"kafka.{name}": value for name, value in extraction.kafka.items()}
    options["failOnDataLoss"] = str(extraction.fail_on_data_loss).lower()
    if extraction.max_records_per_task is not None:
        options["maxRecordsPerPartition"] = str(extraction.max_records_per_task)
    return options


class SparkLake:
    """One run's writer. Every manifest says its own target, so that of an earlier run is found too."""

    def __init__(self, spark: Any, extraction: Extraction, progress: Progress) -> None:
        self._spark = spark
        self._extraction = extraction
        self._progress = progress
        self._files = HadoopFiles(spark)
        self._folders = RangeFolders(self._files, lambda paths: int(spark.read.parquet(*paths).count()))

    def qualified(self, folder: str) -> str:
        """The folder as an absolute URI."""
        return self._files.qualified(folder)

    def check(self) -> None:
        """Before anything is begun. Raises: WronglyAsked."""
        self._check_target()
        self.check_columns()

    def _check_target(self) -> None:
        target = self._extraction.target
        try:
            if self._files.is_file(target):
                raise WronglyAsked(f"{target} is a file, not a folder")
        except Py4JJavaError as error:
            hadoop = str(self._spark._jvm.org.apache.hadoop.util.VersionInfo.getVersion())
            told = missing_module(target, str(error), hadoop)
            raise WronglyAsked(told or f"{target}: {first_line(error)}") from error

    def check_columns(self) -> None:
        """Raises: WronglyAsked."""
        extraction = self._extraction
        try:
            columns = self.empty().schema
        except PySparkException as error:
            raise WronglyAsked(f"--schema: {first_line(error)}") from error
        decoding.check_columns(columns, extraction.format, partitioning.plain(extraction.partition_by))
        partitioning.check_columns(extraction.partition_by, columns)

    def empty(self) -> Any:
        """What would be written of no records at all."""
        return self._decoded(self._spark.createDataFrame([], COLUMNS)).drop(decoding.FITS)

    def staged(self, manifest: Manifest) -> Any:
        """What lies in the staging folder."""
        return self._spark.read.schema(self.empty().schema).parquet(self._folders.staging(manifest))

    def _decoded(self, frame: Any) -> Any:
        asked = self._extraction
        if asked.decode is None:
            return frame
        return decoding.decoded(frame, asked.decode, asked.schema, asked.on_undecodable, asked.format)

    def stage(self, manifest: Manifest, pieces: Sequence[OffsetRange], bootstrap_servers: str) -> Staged:
        """Write the records of the manifest's ranges to its staging folder; returns what was written.

        ``pieces`` are the ranges of the tasks, for the progress.
        """
        from pyspark.sql import Observation

        self._progress(0, sum(piece.size for piece in pieces))  # Spark takes seconds before its first task begins
        reader = self._spark.read.format("kafka_zk").option("kafka.bootstrap.servers", bootstrap_servers)
        for name, value in {**_read_options(self._extraction), **_bounds(manifest.ranges)}.items():
            reader = reader.option(name, value)
        counted = Observation()
        frame = self._decoded(reader.load())
        frame = frame.observe(counted, *_counts(frame.columns)).drop(decoding.FITS)
        terms = () if is_table(self._extraction.format) else self._extraction.partition_by
        writer = partitioning.with_columns(frame, terms).write.format(manifest.format)
        if terms:
            writer = writer.partitionBy(*partitioning.columns(terms))
        if publication(manifest.target) is Publication.COPY:  # where a rename is a copy, one less
            writer = writer.option(_COMMITTER, "2")
        staging = self._folders.staging(manifest)
        with JobProgress(self._spark, staging, pieces, self._progress):
            writer.save(staging)
        staged = _staged(counted.get)
        self._folders.complete(manifest, self._extraction.group, staged.records)
        return staged

    def published(self, manifest: Manifest) -> str:
        return self._folders.published(manifest)

    def is_published(self, manifest: Manifest) -> bool:
        return self._folders.is_published(manifest)

    def publish(self, manifest: Manifest) -> None:
        """Make the range's folder visible; done before, it does nothing. Raises: ExtractionFailed."""
        self._folders.publish(manifest)

    def discard(self, manifest: Manifest) -> None:
        """Remove the staging folder, if it is there."""
        self._folders.discard(manifest)


def _counts(columns: Sequence[str]) -> list[Any]:
    """The aggregates that ``_staged`` reads."""
    from pyspark.sql import functions as f

    counts = [f.count(f.lit(1)).alias("records")]
    if decoding.FITS in columns:
        misfit = ~f.col(decoding.FITS)
        counts += [
            f.count(decoding.FITS).alias("values"),
            f.count_if(misfit).alias("undecodable"),
            f.min(f.when(misfit, f.struct("topic", "partition", "offset"))).alias("first"),
        ]
    return counts


def _staged(counts: Mapping[str, Any]) -> Staged:
    if "values" not in counts:
        return Staged(int(counts["records"]))
    first = counts["first"]
    where = f"offset {first['offset']} of {TopicPartition(first['topic'], first['partition'])}" if first else ""
    return Staged(int(counts["records"]), int(counts["values"]), int(counts["undecodable"]), where)


def _bounds(ranges: Sequence[OffsetRange]) -> dict[str, str]:
    """Exactly these ranges, as the source's options say it."""
    assigned: dict[str, list[int]] = {}
    for each in ranges:
        assigned.setdefault(each.topic, []).append(each.partition)
    starts = {each.tp: each.from_offset for each in ranges}
    ends = {each.tp: each.until_offset for each in ranges}
    return {
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(format_offsets(starts)),
        "endingOffsets": json.dumps(format_offsets(ends)),
    }
