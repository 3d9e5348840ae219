"""Which files of a staging folder a table gets."""

from pathlib import Path

from kafka_zk.spark_jobs.extraction.direct.staged_files import StagedFile, changed_meanwhile, delete, staged_files
from kafka_zk.spark_jobs.extraction.parquet.job import EMPTY_FILE


def test_each_file_has_its_folder() -> None:
    found = staged_files("/s", ["b=1/c=2/y.parquet", "a.parquet"])
    assert found == [StagedFile("/s/a.parquet", ""), StagedFile("/s/b=1/c=2/y.parquet", "b=1/c=2")]
    assert [each.name for each in found] == ["a.parquet", "y.parquet"]


def test_the_file_of_no_records_is_left_out() -> None:
    """A file without records has the same name in every extraction."""
    assert staged_files("/s", [EMPTY_FILE]) == []


def test_files_of_a_failed_commit_are_deleted(tmp_path: Path) -> None:
    moved, not_moved = tmp_path / "a", tmp_path / "b"
    moved.touch()
    delete([str(moved), str(not_moved)])
    assert list(tmp_path.iterdir()) == []


def test_a_table_that_changed_is_named() -> None:
    assert str(changed_meanwhile("lake.db.t", "the table's columns")) == (
        "lake.db.t was changed while its files were written, and now needs Spark's writer because of the table's "
        "columns; run it again"
    )
