"""Adds staged files to an Iceberg table as a staged snapshot, in the driver's Java.

Iceberg itself reads the metrics from the files' footers, by the table's settings.
"""

import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction.direct import iceberg_fields
from kafka_zk.spark_jobs.extraction.direct.staged_files import StagedFile
from kafka_zk.spark_jobs.extraction.hadoop_files import HadoopFiles
from kafka_zk.spark_jobs.extraction.parquet import arrow_types, task
from kafka_zk.spark_jobs.extraction.parquet.job import local_path
from kafka_zk.spark_jobs.extraction.parquet.task import FileSpec
from kafka_zk.spark_jobs.extraction.stores import scheme_of

_CODEC, _DEFAULT_CODEC = "write.parquet.compression-codec", "zstd"


class IcebergCommit:
    """Of one table, as it is when it is first looked at."""

    def __init__(self, spark: Any, target: str) -> None:
        self._spark = spark
        self._iceberg = spark._jvm.org.apache.iceberg
        self._files = HadoopFiles(spark)
        self._target = target

    @cached_property
    def _table(self) -> Any:
        found = self._iceberg.spark.Spark3Util.loadIcebergTable(self._spark._jsparkSession, self._target)
        found.refresh()
        return found

    def refusal(self, written: Any, terms: Sequence[str]) -> str | None:
        """Why Iceberg's own writer must write. ``written``: a ``StructType``."""
        columns = arrow_types.arrow_schema(written)
        if columns is None:
            return "the type of a column"
        if self._codec not in task.CODECS:
            return f"the codec {self._codec}"
        if self._table.sortOrder().isSorted():
            return "the table's order"
        if (scheme := scheme_of(self._files.qualified(self._location("x")))) != "file":
            return f"the file system {scheme}"
        schema, fields = self._schema(), self._partitions()
        return iceberg_fields.sparks_writer_because(dict(self._table.properties()), schema, fields, terms, columns)

    def file_spec(self, written: Any) -> FileSpec:
        columns = iceberg_fields.arrow_schema(self._schema())
        assert isinstance(columns, pa.Schema), "refused otherwise"
        return FileSpec(columns, written.json(), self._codec)

    def stage(
        self, files: Sequence[StagedFile], written: Any, terms: Sequence[str], summary: Mapping[str, str]
    ) -> None:
        """Move the files to the table's folder and commit them as a snapshot that no reader sees yet.

        Raises ExtractionFailed if the table has changed; Iceberg's errors, OSError.
        """
        if because := self.refusal(written, terms):
            raise ExtractionFailed(
                f"{self._target} was changed while its files were written, and now needs Spark's writer because of "
                f"{because}; run it again"
            )
        append = self._table.newAppend()
        for each in files:
            append.appendFile(self._data_file(each, terms))
        for name, value in summary.items():
            append.set(name, value)
        append.stageOnly()
        append.commit()

    def _data_file(self, staged: StagedFile, terms: Sequence[str]) -> Any:
        where = self._location(f"{staged.folder}/{staged.name}".lstrip("/"))
        moved = local_path(self._files.qualified(where))
        os.makedirs(os.path.dirname(moved), exist_ok=True)
        os.rename(staged.path, moved)
        read = self._table.io().newInputFile(where)
        metrics = self._iceberg.parquet.ParquetUtil.fileMetrics(read, self._iceberg.MetricsConfig.forTable(self._table))
        builder = self._iceberg.DataFiles.builder(self._table.spec()).withPath(where).withFormat("parquet")
        builder = builder.withFileSizeInBytes(read.getLength()).withMetrics(metrics)
        if terms:
            values = self._iceberg.PartitionData(self._table.spec().partitionType())
            for index, value in enumerate(iceberg_fields.partition_values(staged.folder, terms)):
                values.set(index, value)
            builder = builder.withPartition(values)
        return builder.build()

    def _location(self, name: str) -> str:
        """As the table's location has it: a path without a scheme is local, or in Hadoop's default file system."""
        return str(self._table.locationProvider().newDataLocation(name))

    @property
    def _codec(self) -> str:
        return str(self._table.properties().getOrDefault(_CODEC, _DEFAULT_CODEC)).lower()

    def _schema(self) -> Any:
        return json.loads(self._iceberg.SchemaParser.toJson(self._table.schema()))

    def _partitions(self) -> Any:
        return json.loads(self._iceberg.PartitionSpecParser.toJson(self._table.spec()))["fields"]
