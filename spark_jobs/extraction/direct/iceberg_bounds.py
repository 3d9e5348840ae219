"""Finds the columns of a Parquet file whose bounds in the footer do not hold for all values. Pure.

Iceberg's readers skip files by their bounds, and its deletes remove whole files by their bounds. Iceberg builds a
file's bounds from the row groups that have bounds. pyarrow writes no bounds for a row group with a value of more than
4,096 bytes. The bounds of floating-point columns leave out NaN, and a footer does not count NaN.

Source: Iceberg's table specification (Data file fields), its ParquetMetrics.java and StrictMetricsEvaluator.java.
"""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_zk.spark_jobs.extraction.parquet.leaf_columns import FIELD_ID, leaf_columns


def without_bounds(file: pq.FileMetaData) -> list[int]:
    """The ids of the fields whose bounds Iceberg must not use. Every column has a field id."""
    groups = [file.row_group(number) for number in range(file.num_row_groups)]
    return [
        int(leaf.field.metadata[FIELD_ID])
        for index, leaf in enumerate(leaf_columns(file.schema.to_arrow_schema()))
        if pa.types.is_floating(leaf.field.type) or any(_lacks_bounds(group.column(index)) for group in groups)
    ]


def _lacks_bounds(column: Any) -> bool:
    found = column.statistics
    return found is None or bool(found.num_values and not found.has_min_max)
