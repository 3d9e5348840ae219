"""The driver's part of a Spark job whose tasks write Parquet files themselves.

Spark schedules and repeats the tasks, but no record enters its Java process. Each task returns the names of the files
that its attempt wrote; only the files of the attempts that Spark accepts are moved to the staging folder.
"""

import os
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kafka_zk.spark_jobs.extraction.parquet import arrow_types, task
from kafka_zk.spark_jobs.extraction.parquet.record_columns import Counts
from kafka_zk.spark_jobs.extraction.parquet.task import FileSpec, TaskResult, TaskSpec
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.source.range_partition import read_range

_SUCCESS = "_SUCCESS"
"""Spark's mark of a complete folder."""
EMPTY_FILE = "part-00000-empty.parquet"
"""The only file of a folder without records. Like Spark's, it contains the schema."""


def file_spec(columns: Any, codec: str) -> FileSpec:
    """``columns``: the files' columns, a ``StructType`` whose types all have Arrow types."""
    schema = arrow_types.arrow_schema(columns)
    assert schema is not None, "the writer was chosen by its types"
    return FileSpec(schema, columns.json(), codec)


def local_path(uri: str) -> str:
    """The path of a ``file:`` URI of Hadoop, which has no escapes."""
    return f"/{uri.removeprefix('file:').lstrip('/')}"


def write(spark: Any, spec: TaskSpec, tasks: Sequence[tuple[OffsetRange, ...]], staging: str) -> Counts:
    """Write the records of the tasks to the local folder ``staging``. Raises Spark's errors and OSError."""
    os.makedirs(spec.attempts)
    run = partial(_run, spec, read_range)
    numbered = spark.sparkContext.parallelize(list(enumerate(tasks)), max(1, len(tasks)))
    results = numbered.mapPartitions(run).collect()
    _commit(results, spec, Path(staging))
    shutil.rmtree(spec.attempts, ignore_errors=True)  # an abandoned task may be writing there
    total = Counts()
    for each in results:
        total = total.plus(each.counts)
    return total


def _run(spec: TaskSpec, read: task.Read, numbered: Any) -> list[TaskResult]:
    return [task.write_task(spec, read, number, ranges) for number, ranges in numbered]


def _commit(results: Sequence[TaskResult], spec: TaskSpec, staging: Path) -> None:
    staging.mkdir(parents=True)
    for each in results:
        for name in each.files:
            moved = staging / name
            moved.parent.mkdir(parents=True, exist_ok=True)
            (Path(spec.attempts) / each.attempt / name).rename(moved)
    if not spec.partitioned_by and not any(each.files for each in results):
        task.parquet_writer(staging / EMPTY_FILE, spec.file).close()
    (staging / _SUCCESS).touch()
