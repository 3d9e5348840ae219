"""The names of partition folders, and their contents; tests/integration/spark compares them with Spark's."""

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from kafka_zk.spark_jobs.extraction.parquet import partition_folders
from kafka_zk.spark_jobs.extraction.parquet.partition_folders import divided, time_texts, with_times

UTC_MICROS = pa.timestamp("us", tz="UTC")


def test_rows_are_divided_in_their_order() -> None:
    batch = pa.RecordBatch.from_pydict({"a": ["x", "y", None, "x", ""], "b": [1, 1, 2, 1, 2], "n": [0, 1, 2, 3, 4]})
    found: dict[str, list[Any]] = {}
    for folder, part in divided(batch, ["a", "b"]):
        found.setdefault(folder, []).extend(part.to_pylist())
    assert found == {
        "a=x/b=1": [{"n": 0}, {"n": 3}],
        "a=y/b=1": [{"n": 1}],
        "a=__HIVE_DEFAULT_PARTITION__/b=2": [{"n": 2}, {"n": 4}],
    }


def test_a_part_does_not_keep_the_whole_batch_in_memory() -> None:
    batch = pa.RecordBatch.from_pydict({"a": ["x"] * 999 + ["y"], "v": [b"v" * 100] * 1000})
    small = [part for folder, part in divided(batch, ["a"]) if folder == "a=y"]
    buffers = [buffer for part in small for column in part.columns for buffer in column.buffers() if buffer]
    assert sum(buffer.size for buffer in buffers) < 10_000


def test_without_columns_there_is_one_folder() -> None:
    batch = pa.RecordBatch.from_pydict({"n": [1, 2]})
    assert [(folder, part.num_rows) for folder, part in divided(batch, [])] == [("", 2)]


@pytest.mark.parametrize(
    ("value", "folder"),
    [("a b~.-_", "a b~.-_"), ("a/b=c%", "a%2Fb%3Dc%25"), ("{}[]^", "%7B}%5B%5D%5E"), ("\x01\x7fü", "%01%7Fü")],
)
def test_what_a_folder_cannot_be_called_is_escaped(value: str, folder: str) -> None:
    assert partition_folders.escaped(value) == folder


@pytest.mark.parametrize(
    ("transform", "texts"),
    [
        ("years", ["2026", "1969", "+10000", None]),
        ("months", ["2026-11", "1969-12", "+10000-01", None]),
        ("days", ["2026-11-23", "1969-12-31", "+10000-01-01", None]),
        ("hours", ["2026-11-23-17", "1969-12-31-23", "+10000-01-01-00", None]),
    ],
)
def test_times_have_the_text_of_their_unit(transform: str, texts: list[str | None]) -> None:
    late_us = int((datetime(9999, 12, 31, 23, tzinfo=UTC)).timestamp()) * 1_000_000 + 3_600_000_000
    first_us = int(datetime(2026, 11, 23, 17, 59, tzinfo=UTC).timestamp()) * 1_000_000
    times = pa.array([first_us, -1, late_us, None], pa.int64()).cast(UTC_MICROS)
    assert time_texts(times, transform).to_pylist() == texts


def test_dates_have_hours_too() -> None:
    assert time_texts(pa.array([date(2026, 1, 2)]), "hours").to_pylist() == ["2026-01-02-00"]


def test_columns_of_transforms_come_last() -> None:
    batch = pa.RecordBatch.from_pydict({"timestamp": pa.array([0], UTC_MICROS), "n": [1]})
    found = with_times(batch, {"timestamp_day": ("timestamp", "days")})
    assert found.schema.names == ["timestamp", "n", "timestamp_day"]
    assert found["timestamp_day"].to_pylist() == ["1970-01-01"]
