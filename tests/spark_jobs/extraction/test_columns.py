"""--select with plain columns only."""

import pytest

from kafka_zk.spark_jobs.extraction.columns import plain_columns

AVAILABLE = ["key", "my col", "offset"]


@pytest.mark.parametrize("select", [None, "*", " * "])
def test_all_columns(select: str | None) -> None:
    assert plain_columns(select, AVAILABLE) == AVAILABLE


def test_upper_and_lower_case_do_not_matter() -> None:
    assert plain_columns(" OFFSET,`my col`", AVAILABLE) == ["offset", "my col"]


@pytest.mark.parametrize(
    "select", ["key AS k", "offset + 1", "key.x", "current_date", "1", "key,", "", "`a,b`", "key -- x"]
)
def test_everything_else_is_spark_s(select: str) -> None:
    assert plain_columns(select, AVAILABLE) is None
