"""Values of events, compared with those of rows."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from kafka_zk.spark_jobs.audit.keyed.values import compare


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (1, 1), (5, 5.0), (True, 1), ("a", "a"), (None, None), (float("nan"), float("nan")),
        (1.1, 1.100000023841858), (Decimal("1.5"), Decimal("1.50")), (b"\0", b"\0"),
        (datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)),
    ],
)  # fmt: skip
def test_equal_values(value: Any, cell: Any) -> None:
    assert compare({"c": value}, {"c": cell, "other": 1}) == ([], [])


@pytest.mark.parametrize(
    ("value", "cell"),
    [(1, 2), ("a", "b"), (None, 1), (1, None), (1.5, 1.25), (1e300, 2.0), (date(2024, 1, 1), date(2024, 1, 2))],
)
def test_other_values(value: Any, cell: Any) -> None:
    assert compare({"c": value}, {"c": cell}) == (["c"], [])


@pytest.mark.parametrize(
    ("value", "cell", "told"),
    [
        (19_000, date(2022, 1, 8), "c is a number in the events and a date in the table"),
        ("AfA=", Decimal("1.50"), "c is text in the events and a decimal in the table"),
        (date(2024, 1, 1), datetime(2024, 1, 1), "c is a date in the events and a timestamp in the table"),
    ],
)
def test_values_of_other_kinds_are_not_known_to_differ(value: Any, cell: Any, told: str) -> None:
    assert compare({"c": value}, {"c": cell}) == ([], [told])
