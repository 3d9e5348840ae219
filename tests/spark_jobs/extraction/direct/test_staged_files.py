"""The files of a staging folder that a table gets."""

from kafka_zk.spark_jobs.extraction.direct.staged_files import StagedFile, staged_files
from kafka_zk.spark_jobs.extraction.parquet.job import EMPTY_FILE


def test_each_file_has_its_folder() -> None:
    found = staged_files("/s", ["b=1/c=2/y.parquet", "a.parquet"])
    assert found == [StagedFile("/s/a.parquet", ""), StagedFile("/s/b=1/c=2/y.parquet", "b=1/c=2")]
    assert [each.name for each in found] == ["a.parquet", "y.parquet"]


def test_the_file_of_no_records_is_left_out() -> None:
    """Its name is the same in every extraction."""
    assert staged_files("/s", [EMPTY_FILE]) == []
