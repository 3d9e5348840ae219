"""Compacts a table with its format's operation: Delta's OPTIMIZE or Iceberg's rewrite_data_files.

Both are commits that do not change records. If two commits conflict, the format retries or refuses one of them.
"""

from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction import session_settings
from kafka_zk.spark_jobs.extraction.hadoop_files import HadoopFiles
from kafka_zk.spark_jobs.extraction.spark_failure import first_line
from kafka_zk.spark_jobs.extraction.table_formats import DELTA, catalog_and_name
from kafka_zk.spark_jobs.extraction.table_lake import check_catalog

_DELTA_SIZE = "spark.databricks.delta.optimize.maxFileSize"


@dataclass(frozen=True)
class CompactedTable:
    """Merged files stay until the table is vacuumed or its snapshots expire."""

    files_before: int
    files_after: int


def compact_table(spark: Any, format: str, target: str, target_file_bytes: int) -> CompactedTable:
    """Raises ExtractionFailed."""
    try:
        return (_delta if format == DELTA else _iceberg)(spark, target, target_file_bytes)
    except (PySparkException, Py4JJavaError) as error:
        raise ExtractionFailed(f"{target} was not compacted: {first_line(error)}") from error


def _delta(spark: Any, target: str, target_file_bytes: int) -> CompactedTable:
    path = HadoopFiles(spark).qualified(target).replace("`", "``")  # Delta accepts only absolute paths
    size = {_DELTA_SIZE: str(target_file_bytes)}
    with session_settings.set_to(spark, size), session_settings.parquet_times_in_micros(spark):
        metrics = spark.sql(f"OPTIMIZE delta.`{path}`").first().metrics
    return CompactedTable(int(metrics.numFilesRemoved), int(metrics.numFilesAdded))


def _iceberg(spark: Any, target: str, target_file_bytes: int) -> CompactedTable:
    check_catalog(spark, target)
    catalog, name = catalog_and_name(target)
    options = f"map('target-file-size-bytes', '{target_file_bytes}', 'min-input-files', '2')"
    done = spark.sql(f"CALL {catalog}.system.rewrite_data_files(table => '{name}', options => {options})").first()
    return CompactedTable(int(done.rewritten_data_files_count), int(done.added_data_files_count))
