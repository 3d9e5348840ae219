"""Which attempts' files are staged, with a scheduler that repeats tasks, starts copies of them, and loses them."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from kafka_zk.spark_jobs.extraction.parquet import job
from kafka_zk.spark_jobs.extraction.parquet.record_columns import Counts, Shape
from kafka_zk.spark_jobs.extraction.parquet.task import TaskSpec
from kafka_zk.spark_jobs.source.cluster_client import ClientSettings
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.source.range_settings import FetchSettings
from kafka_zk.spark_jobs.source.schema import arrow_schema

TASKS = [(OffsetRange("t", 0, 0, 3),), (OffsetRange("t", 1, 0, 2), OffsetRange("t", 2, 0, 1))]
COLUMNS = StructType([StructField("partition", IntegerType()), StructField("offset", LongType())])
Attempt = Callable[[], list[Any]]
Schedule = Callable[[Attempt], list[Any]]


def records(task: Any) -> Iterator[pa.RecordBatch]:
    """Every offset of the ranges is a record."""
    schema = arrow_schema(False)
    for each in task.ranges:
        offsets = list(range(each.from_offset, each.until_offset))
        count = len(offsets)
        columns: list[Any] = [
            [b"k"] * count, [b"v"] * count, ["t"] * count, [each.partition] * count, offsets, [0] * count, [0] * count
        ]  # fmt: skip
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def once(attempt: Attempt) -> list[Any]:
    return attempt()


def repeated(attempt: Attempt) -> list[Any]:
    """The result of the first attempt was lost with its executor."""
    attempt()
    return attempt()


def speculated(attempt: Attempt) -> list[Any]:
    """Spark accepts the result of the attempt that ends first."""
    accepted = attempt()
    attempt()
    return accepted


class Spark:
    """Runs the tasks of one job as ``schedule`` says."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.sparkContext = self

    def parallelize(self, elements: Sequence[Any], count: int) -> Any:
        assert count == max(1, len(elements)), "a task for each element"

        def collect(run: Callable[[Iterator[Any]], list[Any]]) -> list[Any]:
            return [result for each in elements for result in self._schedule(partial(_attempt, run, each))]

        return SimpleNamespace(mapPartitions=lambda run: SimpleNamespace(collect=lambda: collect(run)))


def _attempt(run: Callable[[Iterator[Any]], list[Any]], element: Any) -> list[Any]:
    return run(iter([element]))


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaskSpec:
    monkeypatch.setattr(job, "read_range", records)
    shape = Shape((("partition", "partition"), ("offset", "offset")))
    settings = FetchSettings(ClientSettings("127.0.0.1:1"))
    return TaskSpec(str(tmp_path / "s.attempts"), settings, shape, job.file_spec(COLUMNS, "snappy"), {}, ())


def staged(folder: Path) -> list[tuple[int, int]]:
    files = folder.glob("*.parquet")
    return sorted((row["partition"], row["offset"]) for file in files for row in pq.read_table(file).to_pylist())


@pytest.mark.parametrize("schedule", [once, repeated, speculated])
def test_only_files_of_accepted_attempts_are_staged(spec: TaskSpec, tmp_path: Path, schedule: Schedule) -> None:
    total = job.write(Spark(schedule), spec, TASKS, str(tmp_path / "s"))
    assert total == Counts(6)
    assert staged(tmp_path / "s") == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]
    assert [each.name for each in tmp_path.iterdir()] == ["s"], "the attempts are gone"


def test_a_failed_job_stages_nothing(spec: TaskSpec, tmp_path: Path) -> None:
    def failing(attempt: Attempt) -> list[Any]:
        attempt()
        raise OSError("Job aborted due to stage failure")

    with pytest.raises(OSError, match="aborted"):
        job.write(Spark(failing), spec, TASKS, str(tmp_path / "s"))
    assert [each.name for each in tmp_path.iterdir()] == ["s.attempts"], "discarded with the staging folder"


def test_an_attempt_after_the_end_of_the_job_fails(spec: TaskSpec, tmp_path: Path) -> None:
    late: list[Attempt] = []

    def forgotten(attempt: Attempt) -> list[Any]:
        late.append(attempt)
        return attempt()

    job.write(Spark(forgotten), spec, TASKS, str(tmp_path / "s"))
    with pytest.raises(FileNotFoundError):
        late[0]()
    assert [each.name for each in tmp_path.iterdir()] == ["s"]


def test_a_folder_without_records_has_a_schema(spec: TaskSpec, tmp_path: Path) -> None:
    job.write(Spark(once), spec, [], str(tmp_path / "s"))
    (file,) = (tmp_path / "s").glob("*.parquet")
    assert (pq.read_schema(file).names, pq.read_metadata(file).num_rows) == (["partition", "offset"], 0)
    assert (tmp_path / "s" / "_SUCCESS").exists()


@pytest.mark.parametrize("uri", ["file:/data/a b#%20", "file:///data/a b#%20"])
def test_uris_of_hadoop_have_no_escapes(uri: str) -> None:
    assert job.local_path(uri) == "/data/a b#%20"
