"""One task of an extraction, which writes its Parquet files itself, in an executor's Python.

A task writes into a folder of its own attempt, and returns the names of its files. The driver moves the files of the
attempts that Spark has accepted. The driver creates the attempts' parent folder and removes it at the end. No task
creates it again, so an abandoned attempt fails there, or writes files that are not read.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_zk.base.randomness import SYSTEM_RANDOM, random_uuid
from kafka_zk.spark_jobs.errors import reason_only
from kafka_zk.spark_jobs.extraction.parquet import partition_folders, record_columns
from kafka_zk.spark_jobs.extraction.parquet.leaf_columns import leaf_columns
from kafka_zk.spark_jobs.extraction.parquet.record_columns import Counts, Shape
from kafka_zk.spark_jobs.extraction.parquet.row_groups import RowGroup, RowGroups
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.source.range_partition import RangePartition
from kafka_zk.spark_jobs.source.range_settings import FetchSettings

_OPEN_FILES = 200
CODECS = {"snappy": ".snappy", "zstd": ".zstd", "gzip": ".gz", "none": "", "uncompressed": ""}
"""Spark's names of the codecs, and its endings of file names."""
_LEVELS = {"zstd": 3, "gzip": 6}
"""The compression levels of Spark's writer."""
SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"

Read = Callable[[Any], Iterator[pa.RecordBatch]]


class FileSpec(NamedTuple):
    """``schema``: the files' columns. ``spark_schema``: the same columns as Spark's JSON. ``codec``: the codec's name
    in Spark.

    ``file_bytes``: no row group is added to a file of this size or more; None means no limit.
    """

    schema: pa.Schema
    spark_schema: str
    codec: str
    file_bytes: int | None = None


class TaskSpec(NamedTuple):
    """The settings that all tasks of a job share. ``attempts``: the local folder in which each attempt of a task makes
    its own. ``derived``: see ``partition_folders.with_times``. ``partitioned_by``: the columns that name folders."""

    attempts: str
    settings: FetchSettings
    shape: Shape
    file: FileSpec
    derived: Mapping[str, tuple[str, str]]
    partitioned_by: tuple[str, ...]


class TaskResult(NamedTuple):
    """``files``: relative to the folder ``attempt``."""

    attempt: str
    files: tuple[str, ...]
    counts: Counts


def write_task(spec: TaskSpec, read: Read, number: int, ranges: tuple[OffsetRange, ...]) -> TaskResult:
    """Write the records of ``ranges``. Raises DataLoss, FetchFailed, RegistryFailed, OSError."""
    attempt = Path(spec.attempts) / f"{number:05d}-{random_uuid(SYSTEM_RANDOM).hex}"
    attempt.mkdir()
    groups, counts = RowGroups(), Counts()
    with reason_only(), OpenFiles(attempt, f"part-{number:05d}-{attempt.name[-12:]}", spec.file) as files:
        for source in read(RangePartition(ranges, spec.settings)):
            batch, counted = record_columns.written(source, spec.shape)
            counts = counts.plus(counted)
            batch = partition_folders.with_times(batch, spec.derived)
            for folder, part in partition_folders.divided(batch, spec.partitioned_by):
                files.write_all(groups.add(folder, part))
        files.write_all(groups.finish())
    return TaskResult(attempt.name, tuple(files.names), counts)


class OpenFiles:
    """The files of one attempt, one for each folder.

    If there are too many, the file that was written least recently is closed; the folder's next rows go to a new file,
    as after a full file.
    """

    def __init__(self, root: Path, name: str, spec: FileSpec) -> None:
        self._root = root
        self._name = name
        self._spec = spec
        self._open: OrderedDict[str, pq.ParquetWriter] = OrderedDict()
        self.names: list[str] = []

    def __enter__(self) -> "OpenFiles":
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._open.values():
            writer.close()

    def write_all(self, groups: Iterator[RowGroup]) -> None:
        for group in groups:
            rows = sum(batch.num_rows for batch in group.batches)
            table = pa.Table.from_batches(group.batches).cast(self._spec.schema)
            writer = self._writer(group.folder)
            writer.write_table(table, row_group_size=rows)
            if self._spec.file_bytes is not None and writer.file_handle.tell() >= self._spec.file_bytes:
                self._open.pop(group.folder).close()

    def _writer(self, folder: str) -> pq.ParquetWriter:
        if folder not in self._open:
            if len(self._open) == _OPEN_FILES:
                self._open.popitem(last=False)[1].close()
            self._open[folder] = self._create(folder)
        self._open.move_to_end(folder)
        return self._open[folder]

    def _create(self, folder: str) -> pq.ParquetWriter:
        name = f"{self._name}-c{len(self.names):03d}{CODECS[self._spec.codec]}.parquet"
        where = self._root
        for part in folder.split("/") if folder else ():
            where /= part
            where.mkdir(exist_ok=True)  # without parents: see the module docstring
        self.names.append(f"{folder}/{name}".lstrip("/"))
        return parquet_writer(where / name, self._spec)


def parquet_writer(path: Path, spec: FileSpec) -> pq.ParquetWriter:
    """Writes what Spark's own writer writes: its types, dictionaries, statistics, page indexes and checksums.

    Floating-point columns have no statistics, because pyarrow's statistics leave out NaN, which is Spark's greatest
    number. A reader that trusts them would skip a row group with a NaN. Spark's own writer omits the statistics only if
    there is a NaN.
    """
    codec = "none" if spec.codec == "uncompressed" else spec.codec
    writer = pq.ParquetWriter(
        path,
        spec.schema,
        compression=codec,
        compression_level=_LEVELS.get(codec),
        store_schema=False,
        store_decimal_as_integer=True,
        write_statistics=[each.path for each in leaf_columns(spec.schema) if not pa.types.is_floating(each.field.type)],
        write_page_index=True,
        write_page_checksum=True,
    )
    writer.add_key_value_metadata({SPARK_SCHEMA: spec.spark_schema})
    return writer
