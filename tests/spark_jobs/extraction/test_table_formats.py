"""Errors about tables before Spark starts."""

import pytest

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.table_formats import catalog_and_name, check_table, iceberg_name, with_suffix


@pytest.mark.parametrize(
    "target",
    ["lake", "./lake", "db.t", "s3a://b/a.b.c", "lake.db.my-table", "lake.db.`t", "lake..`t`", "lake.db.``"],
)
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


@pytest.mark.parametrize(
    ("target", "name", "catalog", "rest"),
    [
        ("lake.db.flights", "lake.db.flights", "lake", "db.flights"),
        ("lake.db.`my-table`", "lake.db.`my-table`", "lake", "db.`my-table`"),
        ("`lake`.`a.b`.t", "lake.`a.b`.t", "lake", "`a.b`.t"),
        ("`my-lake`.`it's`.x.`2026`", "`my-lake`.`it's`.x.`2026`", "`my-lake`", "`it\\'s`.x.`2026`"),
        ("lake.db.`a``b`", "lake.db.`a``b`", "lake", "db.`a``b`"),
        ("lake.db.2026", "lake.db.`2026`", "lake", "db.`2026`"),
    ],
)
def test_names_in_backticks_are_those_of_spark_sql(target: str, name: str, catalog: str, rest: str) -> None:
    check_table("iceberg", target, False)
    assert iceberg_name(target) == name and iceberg_name(name) == name
    assert catalog_and_name(target) == (catalog, rest)


def test_a_table_beside_another() -> None:
    assert with_suffix("lake.db.t", "_x") == "lake.db.t_x"
    assert with_suffix("lake.`a.b`.`my-t`", "_x") == "lake.`a.b`.`my-t_x`"
