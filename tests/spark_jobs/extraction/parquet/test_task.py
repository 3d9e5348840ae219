"""The files of one task, without Spark."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_zk.spark_jobs.extraction.parquet import task
from kafka_zk.spark_jobs.extraction.parquet.record_columns import Shape
from kafka_zk.spark_jobs.extraction.parquet.row_groups import RowGroup
from kafka_zk.spark_jobs.extraction.parquet.task import FileSpec, OpenFiles, TaskSpec, write_task
from kafka_zk.spark_jobs.source.cluster_client import ClientSettings
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.source.range_settings import FetchSettings
from kafka_zk.spark_jobs.source.schema import arrow_schema

RANGES = (OffsetRange("t", 0, 0, 8),)


def batches(_: Any) -> Iterator[pa.RecordBatch]:
    """Four batches of two records; each value is the partition number."""
    for start in range(0, 8, 2):
        values, offsets = [b"%d" % start] * 2, [start, start + 1]
        columns: list[Any] = [[b"k"] * 2, values, ["t"] * 2, [0, start], offsets, [0] * 2, [0] * 2]
        schema = arrow_schema(False)
        arrays = [pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


@pytest.fixture
def spec(tmp_path: Path) -> TaskSpec:
    schema = pa.schema([("offset", pa.int64()), ("value", pa.binary())])
    shape = Shape((("offset", "offset"), ("value", "value"), ("partition", "partition")))
    settings = FetchSettings(ClientSettings("127.0.0.1:1"))
    return TaskSpec(str(tmp_path), settings, shape, FileSpec(schema, "{}", "zstd"), {}, ("partition",))


def test_each_partition_has_a_file(spec: TaskSpec, tmp_path: Path) -> None:
    result = write_task(spec, batches, 3, RANGES)
    assert sorted(name.partition("/")[0] for name in result.files) == [f"partition={n}" for n in (0, 2, 4, 6)]
    assert result.counts.written == 8
    rows = [row for name in result.files for row in pq.ParquetFile(tmp_path / result.attempt / name).read().to_pylist()]
    assert sorted(row["offset"] for row in rows) == list(range(8))
    file = pq.ParquetFile(tmp_path / result.attempt / result.files[0])
    assert file.metadata.metadata == {b"org.apache.spark.sql.parquet.row.metadata": b"{}"}
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert file.metadata.row_group(0).column(0).statistics.max is not None


def test_an_attempt_again_writes_elsewhere(spec: TaskSpec) -> None:
    first, second = (write_task(spec, batches, 3, RANGES) for _ in range(2))
    assert first.attempt != second.attempt
    assert not set(first.files) & set(second.files)


def test_open_files_are_bounded(tmp_path: Path, spec: TaskSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder whose file was closed to stay within the bound gets another file."""
    monkeypatch.setattr(task, "_OPEN_FILES", 2)
    row = pa.RecordBatch.from_pydict({"offset": [1], "value": [b"v"]})
    with OpenFiles(tmp_path, "part-0", spec.file) as files:
        files.write_all(RowGroup(folder, [row]) for folder in ("a=1", "a=2", "a=1", "a=3", "a=1", "a=2"))
    assert [name.partition("/")[0] for name in files.names] == ["a=1", "a=2", "a=3", "a=2"]
    found = {name: pq.ParquetFile(tmp_path / name).metadata.num_rows for name in files.names}
    assert list(found.values()) == [3, 1, 1, 1]


def test_a_full_file_is_closed(tmp_path: Path, spec: TaskSpec) -> None:
    """Sizes are those of the compressed files; files of other folders stay open."""
    rows = pa.RecordBatch.from_pydict({"offset": range(1000), "value": [random.Random(7).randbytes(100)] * 1000})
    groups = [RowGroup(folder, [rows]) for folder in ("a=1", "a=1", "a=1", "a=2", "a=1")]
    one = _sizes(tmp_path / "none", spec.file, groups[:1])[0]
    assert len(_sizes(tmp_path / "one", spec.file, groups)) == 2
    limited = spec.file._replace(file_bytes=one + one // 2)
    sizes = _sizes(tmp_path / "limited", limited, groups)
    assert [round(size / one) for size in sizes] == [2, 2, 1]


def _sizes(folder: Path, file: FileSpec, groups: list[RowGroup]) -> list[int]:
    folder.mkdir()
    with OpenFiles(folder, "part-0", file) as files:
        files.write_all(iter(groups))
    return [(folder / name).stat().st_size for name in files.names]


@pytest.mark.parametrize("others", [{}, {"number": pa.int64()}])
def test_numbers_with_fractions_have_no_bounds(tmp_path: Path, others: dict[str, pa.DataType]) -> None:
    """With bounds, a search for large numbers in Spark would skip a row group that contains NaN, its greatest
    number.
    """
    inner = {"x": pa.float32(), "y": pa.int32()} if others else {"x": pa.float32()}
    schema = pa.schema({"ratio": pa.float64(), "struct": pa.struct(inner), **others})
    row = {"ratio": [1.0, float("nan")], "struct": [{"x": float("nan"), "y": 1}, {"x": 1.0, "y": 1}], "number": [1, 1]}
    with OpenFiles(tmp_path, "part-0", FileSpec(schema, "{}", "none")) as files:
        files.write_all(iter([RowGroup("", [pa.RecordBatch.from_pydict(row, schema)])]))
    found = pq.read_metadata(tmp_path / files.names[0]).row_group(0)
    columns = [found.column(index) for index in range(found.num_columns)]
    assert [each.path_in_schema for each in columns if each.is_stats_set] == (["struct.y", "number"] if others else [])
    assert not any(each.has_column_index for each in columns if not each.is_stats_set)


def test_an_abandoned_attempt_does_not_make_its_folder_again(spec: TaskSpec, tmp_path: Path) -> None:
    """The driver has removed the attempts while the task was reading."""

    def abandoned(_: Any) -> Iterator[pa.RecordBatch]:
        yield from batches(_)
        for folder in tmp_path.iterdir():
            folder.rmdir()

    with pytest.raises(FileNotFoundError):
        write_task(spec, abandoned, 0, RANGES)
    assert not list(tmp_path.iterdir())


def test_without_records_there_is_no_file(spec: TaskSpec) -> None:
    result = write_task(spec, lambda _: iter(()), 0, RANGES)
    assert (result.files, result.counts.written) == ((), 0)
