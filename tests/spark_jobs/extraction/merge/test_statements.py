"""The statements of a merge, and which tables may be merged into."""

from typing import Any

import pytest

from kafka_zk.spark_jobs.cdc.given_types import given_types
from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction.merge import statements
from tests.spark_jobs.extraction.schemas.test_type_changes import field, struct

_TYPES = given_types("id INT, `a b` DECIMAL(10,2)")
_WANTED = struct(id="integer", _kafka_zk=struct(key="string"))["fields"]
_OWN = _WANTED[1]


def test_the_columns_are_quoted() -> None:
    assert statements.columns_ddl(_TYPES) == "`id` INT, `a b` DECIMAL(10,2)"
    assert "UPDATE SET t.`id` = s.`id`, t.`a b` = s.`a b`, t._kafka_zk = " in statements.into_rows("t", _TYPES, None)


def test_only_a_truncate_deletes_rows_that_no_change_names() -> None:
    assert "NOT MATCHED BY SOURCE" not in statements.into_rows("t", _TYPES, None)
    told = statements.into_rows("t", _TYPES, (3, 120, 0))
    assert "position <= array(CAST(3 AS BIGINT), CAST(120 AS BIGINT), CAST(0 AS BIGINT)) THEN DELETE" in told


def test_a_table_with_the_columns_of_the_schema_is_merged_into() -> None:
    assert statements.widenings("t", _WANTED[::-1], _WANTED, widen=False) == []


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([field("id", "integer")], "t has no column _kafka_zk"),
        ([*_WANTED, field("v", "string")], "the column v is STRING in the table, and absent in --schema"),
        ([_OWN], "the column id is absent in the table, and INT in --schema"),
        ([field("id", "long"), _OWN], r"\(id: BIGINT → INT\): id cannot be widened to this type"),
        ([field("id", "string"), _OWN], r"\(id: STRING → INT\): id cannot be widened to this type"),
    ],
)
@pytest.mark.parametrize("widen", [False, True])
def test_other_tables_are_refused(found: list[dict[str, Any]], told: str, widen: bool) -> None:
    with pytest.raises(ExtractionFailed, match=told):
        statements.widenings("t", found, _WANTED, widen=widen)


def test_a_table_of_a_narrower_type_is_widened_only_with_widen() -> None:
    found = [field("id", "short"), _OWN]
    with pytest.raises(ExtractionFailed, match=r"^t has columns of other types \(id: SMALLINT → INT\): give --widen"):
        statements.widenings("t", found, _WANTED, widen=False)
    (change,) = statements.widenings("t", found, _WANTED, widen=True)
    assert str(change) == "id: SMALLINT → INT"


@pytest.mark.parametrize("known", [None, "shop.public.orders"])
def test_a_table_of_the_topic_or_of_none_yet_is_merged_into(known: str | None) -> None:
    statements.check_topic("t", known, "shop.public.orders")


def test_a_table_of_another_topic_is_refused() -> None:
    told = (
        "lake.shop.orders is the table of topic shop.public.orders; rows of topic shop.archive.orders would replace "
        "its rows with equal keys: give topic shop.archive.orders another table with --to. If topic shop.public.orders "
        "was renamed to shop.archive.orders and its positions continue, or if no run has merged rows yet, remove the "
        "table's property kafka-zk.topic"
    )
    with pytest.raises(ExtractionFailed) as refused:
        statements.check_topic("lake.shop.orders", "shop.public.orders", "shop.archive.orders")
    assert str(refused.value) == told
