"""How batches are collected into row groups, and how much memory that takes."""

import pyarrow as pa
import pytest

from kafka_zk.spark_jobs.extraction.parquet.row_groups import RowGroup, RowGroups

KILOBYTES = 1024
OVERHEAD = 4 * KILOBYTES


def batch(size_bytes: int, rows: int = 1) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array([b"x" * (size_bytes // rows)] * rows)})


def shapes(groups: list[RowGroup]) -> list[tuple[str, int]]:
    return [(each.folder, sum(part.num_rows for part in each.batches)) for each in groups]


def test_batches_of_one_folder_fill_row_groups() -> None:
    collected = RowGroups(40 * KILOBYTES, 1 << 30)
    found = [group for _ in range(7) for group in collected.add("", batch(16 * KILOBYTES, 4))]
    assert shapes(found) == [("", 8)] * 3
    assert shapes(list(collected.finish())) == [("", 4)]
    assert not list(collected.finish())


def test_the_fullest_folders_give_way_until_half_of_the_memory_is_free() -> None:
    collected = RowGroups(1 << 30, 100 * KILOBYTES)
    for folder, size in (("a", 20), ("b", 40), ("c", 10)):
        assert not list(collected.add(folder, batch(size * KILOBYTES)))
    assert shapes(list(collected.add("b", batch(20 * KILOBYTES)))) == [("b", 2)]
    assert shapes(list(collected.finish())) == [("a", 1), ("c", 1)]


@pytest.mark.parametrize("folders", [1, 30, 3000])
def test_memory_is_bounded_whatever_the_number_of_folders(folders: int) -> None:
    collected = RowGroups(64 * KILOBYTES, 128 * KILOBYTES)
    held = rows = 0
    for number in range(3000):
        held += 100 + OVERHEAD
        for group in collected.add(f"f={number % folders}", batch(100)):
            held -= len(group.batches) * (100 + OVERHEAD)
            rows += len(group.batches)
        assert held <= 128 * KILOBYTES
    assert rows + sum(len(group.batches) for group in collected.finish()) == 3000


def test_a_batch_without_rows_makes_no_file() -> None:
    collected = RowGroups()
    assert not list(collected.add("a=1", batch(8, 1).slice(0, 0)))
    assert not list(collected.finish())
