"""Spark's part of a compaction."""

from typing import Any

from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction.schemas.folder_schemas import Schema
from kafka_zk.spark_jobs.extraction.session_settings import parquet_times_in_micros

_PLACE = ("topic", "partition", "offset")
_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
_RANGE = "range"
"""Spark's partition column of the folders ``range=...``."""


class SparkRewriter:
    """Values of partition columns are unchanged."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def rewrite(
        self, target: str, files: list[str], staging: str, file_count: int, partitioned_by: tuple[str, ...],
        schema: Schema | None,
    ) -> int:  # fmt: skip
        """Each file's records are sorted by their place in the topic. Columns that only some files have are null
        elsewhere. ``schema``: see ``compaction.Rewriter``.

        Raises: ExtractionFailed and Spark's errors.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        frame = self._read(target, [f"{target}/{path}" for path in files], partitioned_by, schema)
        counted = Observation()
        order = [name for name in (*partitioned_by, *_PLACE) if name in frame.columns]
        frame = frame.repartition(file_count)
        if order:
            frame = frame.sortWithinPartitions(*order)
        writer = frame.observe(counted, f.count(f.lit(1)).alias("records")).write
        with parquet_times_in_micros(self._spark):
            (writer.partitionBy(*partitioned_by) if partitioned_by else writer).parquet(staging)
        return int(counted.get["records"])

    def _read(self, target: str, paths: list[str], partitioned_by: tuple[str, ...], schema: Schema | None) -> Any:
        reader = self._reader(partitioned_by, schema)
        columns = reader.parquet(*paths)  # the files' own columns, without partition columns
        if not partitioned_by:
            return columns
        if _RANGE in (name.lower() for name in columns.columns):
            raise ExtractionFailed(
                f"{target} has a column {_RANGE} of its own and is partitioned by {', '.join(partitioned_by)}: "
                "Spark cannot read both, so it is not compacted"
            )
        inferred = self._spark.conf.get(_INFERENCE)
        self._spark.conf.set(_INFERENCE, "false")
        try:
            return reader.option("basePath", target).parquet(*paths).drop(_RANGE)
        finally:
            self._spark.conf.set(_INFERENCE, inferred)

    def _reader(self, partitioned_by: tuple[str, ...], schema: Schema | None) -> Any:
        """``schema`` would give partition columns types, which would change values such as 007."""
        from pyspark.sql.types import StructType

        if schema is None:
            return self._spark.read.option("mergeSchema", "true")
        fields = [each for each in schema["fields"] if each["name"] not in partitioned_by]
        return self._spark.read.schema(StructType.fromJson({**schema, "fields": fields}))
