"""What is said of tables before Spark starts."""

import pytest

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.table_formats import check_table


@pytest.mark.parametrize("target", ["lake", "./lake", "db.t", "s3a://b/a.b.c"])
def test_an_iceberg_table_is_named_by_its_catalog(target: str) -> None:
    with pytest.raises(WronglyAsked, match=r"give CATALOG\.NAMESPACE\.TABLE"):
        check_table("iceberg", target, False)


def test_the_others_are_right() -> None:
    check_table("iceberg", "lake.db.flights", True)
    check_table("delta", "s3a://b/lake", True)
    check_table("parquet", "lake", False)


def test_only_tables_have_a_schema_to_merge_into() -> None:
    with pytest.raises(WronglyAsked, match="files have no common schema"):
        check_table("parquet", "lake", True)
