"""Spark's part of a compaction: the records of many files into few."""

from typing import Any

_PLACE = ("topic", "partition", "offset")
_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"


class SparkRewriter:
    """Columns by which folders were partitioned stay that, with their values as they are written."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def rewrite(self, target: str, folders: list[str], staging: str, file_count: int) -> int:
        """Records are ordered by their place in the topic. Folders with other columns add theirs, null elsewhere."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        inferred = self._spark.conf.get(_INFERENCE)
        self._spark.conf.set(_INFERENCE, "false")
        try:
            reader = self._spark.read.option("basePath", target).option("mergeSchema", "true")
            frame = reader.parquet(*(f"{target}/{name}" for name in folders)).drop("range")
        finally:
            self._spark.conf.set(_INFERENCE, inferred)
        names = self._partition_columns(target, folders)
        counted = Observation()
        order = [name for name in (*names, *_PLACE) if name in frame.columns]
        frame = frame.repartition(file_count)
        if order:
            frame = frame.sortWithinPartitions(*order)
        writer = frame.observe(counted, f.count(f.lit(1)).alias("records")).write
        (writer.partitionBy(*names) if names else writer).parquet(staging)
        return int(counted.get["records"])

    def _partition_columns(self, target: str, folders: list[str]) -> list[str]:
        """As the paths of the files name them, below the range's folder."""
        frame = self._spark.read.parquet(*(f"{target}/{name}" for name in folders[:1]))
        paths = frame.inputFiles()
        parts = paths[0].partition(f"/{folders[0]}/")[2].split("/")[:-1] if paths else []
        return [part.partition("=")[0] for part in parts]
