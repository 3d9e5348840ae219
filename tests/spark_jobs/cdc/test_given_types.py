"""Columns as the user gives them."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from kafka_zk.spark_jobs.cdc.given_types import given_types
from kafka_zk.spark_jobs.errors import ChangeRefused, WronglyAsked


@pytest.mark.parametrize(
    ("kind", "spark", "value", "read"),
    [
        ("DECIMAL(10, 2)", "DECIMAL(10,2)", "C7g=", Decimal("30.00")),
        ("decimal(65,0)", "STRING", "C7g=", "3000"),
        ("date", "DATE", -1, date(1969, 12, 31)),
        ("TIMESTAMP_MILLIS", "TIMESTAMP_NTZ", 1, datetime(1970, 1, 1, 0, 0, 0, 1000)),
        ("TIMESTAMP_MICROS", "TIMESTAMP_NTZ", -1, datetime(1969, 12, 31, 23, 59, 59, 999999)),
        ("TIME_MICROS", "STRING", -1_000_000, "-00:00:01"),
        ("BIGINT  unsigned", "DECIMAL(20,0)", -1, Decimal(2**64 - 1)),
        ("BITS(9)", "BINARY", "VQE=", b"\x01\x55"),
        ("int", "INT", 5, 5),
    ],
)
def test_each_type_reads_its_values(kind: str, spark: str, value: Any, read: Any) -> None:
    column = given_types(f"`a b` {kind}, c INT")["a b"]
    assert (column.spark, column.read("a b", value)) == (spark, read)


@pytest.mark.parametrize("value", ["AA9CQA==", Decimal("1000000"), Decimal("1.005")])
def test_a_number_that_the_type_does_not_have_is_refused(value: Any) -> None:
    column = given_types("n DECIMAL(5,2)")["n"]
    assert column.read("n", Decimal("1.500")) == Decimal("1.50")
    with pytest.raises(ChangeRefused, match=r"column n is DECIMAL\(5,2\), which cannot hold"):
        column.read("n", value)


@pytest.mark.parametrize(
    "text", ["", "id", "id FLOATS", "id INT, id INT", "n DECIMAL(1)", "n DECIMAL", "id INT; b INT", "x"]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(WronglyAsked, match="--schema"):
        given_types(text)
