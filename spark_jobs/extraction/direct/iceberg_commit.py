"""Adds staged files to an Iceberg table as a staged snapshot, in the driver's JVM.

Iceberg itself reads the metrics from the files' footers, according to the table's settings, but without bounds that do
not hold for all values (``iceberg_bounds.py``).
"""

import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_zk.spark_jobs.extraction.direct import iceberg_bounds, iceberg_fields, staged_files
from kafka_zk.spark_jobs.extraction.direct.staged_files import StagedFile
from kafka_zk.spark_jobs.extraction.hadoop_files import HadoopFiles
from kafka_zk.spark_jobs.extraction.parquet import arrow_types, task
from kafka_zk.spark_jobs.extraction.parquet.job import local_path
from kafka_zk.spark_jobs.extraction.parquet.task import FileSpec
from kafka_zk.spark_jobs.extraction.stores import scheme_of

_CODEC, _DEFAULT_CODEC = "write.parquet.compression-codec", "zstd"
_FILE_BYTES, _DEFAULT_FILE_BYTES = "write.target-file-size-bytes", str(512 * 1024 * 1024)
_UNKNOWN = "CommitStateUnknownException"
"""After this error from a catalog, the table may or may not have the commit."""


class IcebergCommit:
    """Commits to one table, in the state in which it was first read."""

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
        """Why Iceberg's own writer must write; None if files can be added. ``written``: a ``StructType``."""
        columns = arrow_types.arrow_schema(written)
        if columns is None:
            return "the type of a column"
        if self._codec not in task.CODECS:
            return f"the codec {self._codec}"
        if self._table.sortOrder().isSorted():
            return "the table's order"
        if (scheme := scheme_of(self._files.qualified(self._location("x")))) != "file":
            return f"the file system {scheme}"
        if setting := iceberg_fields.setting_of_writer(self._spark.conf.getAll):
            return setting
        schema, fields = self._schema(), self._partitions()
        return iceberg_fields.sparks_writer_because(dict(self._table.properties()), schema, fields, terms, columns)

    def file_spec(self, written: Any) -> FileSpec:
        return FileSpec(self._arrow_schema(), written.json(), self._codec, self._file_bytes)

    def stage(
        self, files: Sequence[StagedFile], written: Any, terms: Sequence[str], summary: Mapping[str, str]
    ) -> None:
        """Move the files to the table's folder and commit them as a snapshot that no reader sees yet.

        If the commit fails, they are deleted. Raises ExtractionFailed if the table has changed; Iceberg's errors,
        OSError.
        """
        if because := self.refusal(written, terms) or self._other_columns(files):
            raise staged_files.changed_meanwhile(self._target, because)
        places = [self._location(f"{each.folder}/{each.name}".lstrip("/")) for each in files]
        local = [local_path(self._files.qualified(place)) for place in places]
        try:
            append = self._table.newAppend()
            for each, place, moved in zip(files, places, local, strict=True):
                os.makedirs(os.path.dirname(moved), exist_ok=True)
                os.rename(each.path, moved)
                append.appendFile(self._data_file(each.folder, place, moved, terms))
            for name, value in summary.items():
                append.set(name, value)
            append.stageOnly()
            append.commit()
        except staged_files.REFUSALS as error:
            if _UNKNOWN not in str(error):
                staged_files.delete(local)
            raise

    def _other_columns(self, files: Sequence[StagedFile]) -> str | None:
        """What has changed since the files were written; None if nothing has. Examines only the first file, because all
        files of an extraction have the same columns."""
        wanted = iceberg_fields.ids(self._arrow_schema())
        is_same = all(iceberg_fields.ids(pq.read_schema(each.path)) == wanted for each in files[:1])
        return None if is_same else "the table's columns"

    def _data_file(self, folder: str, place: str, moved: str, terms: Sequence[str]) -> Any:
        """``place``: as in ``_location``; ``moved``: its local path."""
        builder = self._iceberg.DataFiles.builder(self._table.spec()).withPath(place).withFormat("parquet")
        builder = builder.withFileSizeInBytes(os.path.getsize(moved)).withMetrics(self._metrics(place, moved))
        if terms:
            values = self._iceberg.PartitionData(self._table.spec().partitionType())
            for index, value in enumerate(iceberg_fields.partition_values(folder, terms)):
                values.set(index, value)
            builder = builder.withPartition(values)
        return builder.build()

    def _metrics(self, place: str, moved: str) -> Any:
        config = self._iceberg.MetricsConfig.forTable(self._table)
        found = self._iceberg.parquet.ParquetUtil.fileMetrics(self._table.io().newInputFile(place), config)
        low, high = (self._spark._jvm.java.util.HashMap(each) for each in (found.lowerBounds(), found.upperBounds()))
        for number in iceberg_bounds.without_bounds(pq.read_metadata(moved)):
            low.remove(number)
            high.remove(number)
        return self._iceberg.Metrics(
            found.recordCount(), found.columnSizes(), found.valueCounts(), found.nullValueCounts(),
            found.nanValueCounts(), low, high,
        )  # fmt: skip

    def _location(self, name: str) -> str:
        """The path in the form of the table's location: without a scheme, it is local, or in Hadoop's default file
        system."""
        return str(self._table.locationProvider().newDataLocation(name))

    @property
    def _codec(self) -> str:
        return str(self._table.properties().getOrDefault(_CODEC, _DEFAULT_CODEC)).lower()

    @property
    def _file_bytes(self) -> int:
        return int(self._table.properties().getOrDefault(_FILE_BYTES, _DEFAULT_FILE_BYTES))

    def _arrow_schema(self) -> pa.Schema:
        found = iceberg_fields.arrow_schema(self._schema())
        assert found is not None, "refused otherwise"
        return found

    def _schema(self) -> Any:
        return json.loads(self._iceberg.SchemaParser.toJson(self._table.schema()))

    def _partitions(self) -> Any:
        return json.loads(self._iceberg.PartitionSpecParser.toJson(self._table.spec()))["fields"]
