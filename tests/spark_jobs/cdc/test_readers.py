"""What is read from one record."""

import json
from contextlib import nullcontext
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from kafka_zk.spark_jobs.cdc.changes import Op, Rank
from kafka_zk.spark_jobs.cdc.given_types import given_types
from kafka_zk.spark_jobs.cdc.readers import ChangeRecord, avro_record, debezium_change, json_record, keyed_change
from kafka_zk.spark_jobs.errors import ChangeRefused
from tests.spark_jobs.cdc import recordings


def _record(key: Any, value: Any, **headers: str) -> ChangeRecord:
    return ChangeRecord("t", 0, 7, key, value, headers)


@pytest.mark.parametrize("variant", ["plain", "avro", "flat"])
def test_keyless_tables_are_refused(variant: str) -> None:
    with pytest.raises(ChangeRefused, match="has no key with columns"):
        recordings.changes("postgres", variant, "log_lines")


@pytest.mark.parametrize("variant", ["plain", "flat", "bare", "schema", "avro"])
def test_messages_of_the_database_change_no_row(variant: str) -> None:
    found = [line for line in recordings.lines("postgres", variant) if line["topic"].endswith(".message")]
    assert len(found) == 2
    for line in found:
        if "value" in line:
            assert debezium_change(json_record("m", 0, 0, line["key"], line["value"], {})) is None


@pytest.mark.parametrize("value", [None, "null"])
def test_a_tombstone_deletes_in_the_keyed_mode_only(value: str | None) -> None:
    record = json_record("t", 0, 7, '{"id": 1}', value, {"__debezium.newkey": '{"id":2}'})
    assert debezium_change(record) is None
    change = keyed_change(record)
    assert (change.op, change.key, change.moved_to, change.rank) == (Op.DELETE, '{"id":1}', '{"id":2}', Rank((), 7))


def test_headers_with_schemas_name_the_key_alone() -> None:
    moved = [change for change in recordings.changes("postgres", "schema", "orders") if change.moved_to]
    assert [change.moved_to for change in moved] == ['{"customer_id":2,"order_no":9}']


def test_a_delete_takes_no_values_from_the_row_before() -> None:
    deletes = [each for each in recordings.changes("postgres", "flat", "customers") if each.op is Op.DELETE]
    assert deletes
    assert all(not change.columns for change in deletes)


def test_given_types_hold_instead_of_the_schema() -> None:
    schema = {"type": "struct", "fields": [{"field": "n", "type": "int64"}]}
    record = _record({"n": -1}, {"schema": schema, "payload": {"n": -1, "__deleted": "false"}})
    change = debezium_change(record, given_types("n BIGINT UNSIGNED"))
    assert change is not None
    assert change.columns == {"n": 2**64 - 1}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"id": 1}, "neither a Debezium envelope"),
        ({"op": "x", "source": {"connector": "postgresql", "lsn": 1}}, "op 'x'"),
        ({"op": "c", "source": {"connector": "postgresql", "lsn": 1}}, "no row in after"),
        ({"op": "c", "source": {"connector": "oracle"}}, "connector oracle"),
        ([1], "not a Debezium event"),
    ],
)
def test_other_values_are_refused(value: Any, told: str) -> None:
    with pytest.raises(ChangeRefused, match=told):
        debezium_change(_record({"id": 1}, value))


def test_a_row_that_is_no_object_is_refused() -> None:
    with pytest.raises(ChangeRefused, match="not a row"):
        keyed_change(_record({"id": 1}, 5))


def test_what_is_not_json_is_refused() -> None:
    for text in ("{", "[" * 100_000):
        with pytest.raises(ChangeRefused, match="offset 0 of t-0: the value is not JSON"):
            json_record("t", 0, 0, json.dumps({"id": 1}), text, {})


def test_what_is_not_avro_is_refused() -> None:
    for value, told in ((b"{}", "no schema id"), (b"\0\0\0\xff\xff", "has no schema 65535")):
        with pytest.raises(ChangeRefused, match=f"offset 0 of t-0: the value cannot be decoded with .*: .*{told}"):
            avro_record("t", 0, 0, None, value, {}, recordings.avro().decode)


@pytest.mark.parametrize(("value", "placeholder", "is_refused"), [
    (Decimal("1.50"), True, True),
    (date(2024, 2, 29), True, True),
    (Decimal("1.50"), False, False),
    ("1.50", True, False),
])  # fmt: skip
def test_a_changed_key_that_json_has_in_another_form_than_avro_is_refused(
    value: Any, placeholder: bool, is_refused: bool
) -> None:
    """Otherwise, the old row's values would silently become null."""
    row = {"id": value, "body": "__debezium_unavailable_value" if placeholder else "text"}
    envelope = {"op": "c", "after": row, "source": {"connector": "postgresql", "lsn": 5}}
    record = _record({"id": value}, envelope, **{"__debezium.oldkey": '{"id":"lg=="}'})
    with pytest.raises(ChangeRefused, match="differently from Avro") if is_refused else nullcontext():
        assert debezium_change(record) is not None
