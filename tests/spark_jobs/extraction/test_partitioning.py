"""Terms of --partition-by."""

import pytest
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction import partitioning

COLUMNS = StructType([StructField("carrier", StringType()), StructField("timestamp", TimestampType())])


def test_columns_and_transforms_are_told_apart() -> None:
    terms = ("carrier", "days(timestamp)", "bucket(16, carrier)")
    assert partitioning.plain(terms) == ("carrier",)
    assert partitioning.columns(terms[:2]) == ["carrier", "timestamp_day"]
    assert partitioning.transform(terms[2]) == ("bucket", "carrier", 16)


@pytest.mark.parametrize(
    "term", ["weeks(timestamp)", "days()", "days(3, timestamp)", "bucket(carrier)", "days(a", "(a)"]
)
def test_what_is_no_term_is_refused(term: str) -> None:
    with pytest.raises(WronglyAsked, match="is neither a column nor years, months, days, hours"):
        partitioning.check((term,), "iceberg")


def test_buckets_are_iceberg_s() -> None:
    partitioning.check(("bucket(4, carrier)",), "iceberg")
    with pytest.raises(WronglyAsked, match="only --format iceberg supports buckets"):
        partitioning.check(("bucket(4, carrier)",), "delta")


@pytest.mark.parametrize(
    ("term", "sentence"),
    [("days(nothing)", "there is no column nothing"), ("hours(carrier)", "hours needs a time, and carrier is string")],
)
def test_columns_must_fit(term: str, sentence: str) -> None:
    with pytest.raises(WronglyAsked, match=sentence):
        partitioning.check_columns((term,), COLUMNS)
    partitioning.check_columns(("carrier", "hours(timestamp)"), COLUMNS)


def test_a_term_is_named_once() -> None:
    with pytest.raises(WronglyAsked, match=r"days\(timestamp\) is listed twice"):
        partitioning.check(("days(timestamp)", "carrier", "days( timestamp )"), "parquet")
