"""The recorded values of ``types`` equal what the databases print."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from kafka_zk.spark_jobs.cdc import connect_types
from kafka_zk.spark_jobs.cdc.connect_types import type_of
from kafka_zk.spark_jobs.cdc.readers import ChangeRecord
from kafka_zk.spark_jobs.errors import ChangeRefused
from tests.spark_jobs.cdc import recordings


def _row(database: str, variant: str, key: int) -> dict[str, Any]:
    """The newest row of a key, converted by the schemas of its records."""
    values = [record.value for record in recordings.records(database, variant, "types") if _is_of(record, key)]
    schema = next(each for each in values[-1]["schema"]["fields"] if each["field"] == "after")
    columns = connect_types.columns_of(schema)
    return {name: columns[name].read(name, value) for name, value in values[-1]["payload"]["after"].items()}


def _is_of(record: ChangeRecord, key: int) -> bool:
    return record.value is not None and record.key["payload"] == {"id": key}


@pytest.mark.parametrize("variant", ["schema", "modes"])
def test_values_of_postgresql_are_exact(variant: str) -> None:
    row = _row("postgres", variant, 1)
    expected = next(each for each in recordings.expected("postgres", "types") if each["id"] == "1")
    for name in ("n_fix", "n_wide", "uid", "m", "small", "big", "r8", "pos", "js", "x", "ip", "rng", "o"):
        assert str(row[name]) == expected[name]
    assert Decimal(row["n_free"]) == Decimal("0.10"), "the default mode drops the zero"
    assert row["d"] == date(2024, 2, 29)
    assert row["t3"] == expected["t3"]
    assert row["tstz"] == datetime(2024, 2, 29, 11, 34, 56, 123456, UTC)
    assert row["ts3"] == datetime(2024, 2, 29, 12, 34, 56, 789000)
    assert row["b9"] == 0b101010101.to_bytes(2, "big")
    assert row["ints"] == [1, None, 3]
    assert row["pt"]["x"] == 1.5


def test_the_default_modes_keep_microseconds_and_decimals_of_arrays() -> None:
    row = _row("postgres", "schema", 1)
    assert row["t"] == "23:59:59.123456"
    assert row["ts"] == datetime(2024, 2, 29, 12, 34, 56, 123456)
    assert row["nums"] == [Decimal("1.50"), Decimal("2.25")]
    assert row["cash"] == Decimal("0.01")
    assert row["bytes"] == b"\0\xff\x10"


def test_extreme_values_of_postgresql_are_exact() -> None:
    row = _row("postgres", "schema", 3)
    assert row["n_free"] == "-0.00000000000000000001"
    assert row["cash"] == Decimal("-92233720368547758.08")
    assert (row["t"], row["d"]) == ("24:00:00", date(1, 1, 1))
    assert row["ts3"] == datetime(9999, 12, 31, 23, 59, 59, 999000)
    assert row["b9"] == b"\0\0"
    assert str(row["r4"]) == "nan"


def test_values_of_mariadb_are_exact() -> None:
    row = _row("mariadb", "schema", 1)
    expected = next(each for each in recordings.expected("mariadb", "types") if each["id"] == "1")
    for name in ("u4", "s8", "n_int", "n_fix", "n_wide", "n_u", "y", "e", "st", "t", "t6", "l1", "js", "vgen"):
        assert str(row[name]) == expected[name]
    assert row["t3"] == "-838:59:59"
    assert row["b64"].hex() == expected["b64"]
    assert row["bin4"].hex() == expected["bin4"]
    assert str(row["dt6"]) == expected["dt6"]


def test_the_mode_precise_has_unsigned_values() -> None:
    assert _row("mariadb", "modes", 3)["u8"] == 9223372036854775809
    assert _row("mariadb", "schema", 3)["u8"] == 9223372036854775809 - 2**64, "no schema tells; a given type must"


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (0, 0),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), 2**63),
        (-1, 2**64 - 1),
        (2**64 - 1, 2**64 - 1),
        (Decimal(2**64 - 1), 2**64 - 1),
    ],
)
def test_unsigned_values_are_exact(value: Any, read: int) -> None:
    """They are Debezium's int64, numbers in other writers' JSON, or decimals in Avro."""
    assert connect_types.UNSIGNED_BIGINT.read("u8", value) == read


@pytest.mark.parametrize(
    "value", [2**64, -(2**63) - 1, 1.5, 2.0**63, True, "%d", Decimal("1.5"), Decimal("NaN"), Decimal(2**64)]
)
def test_values_that_are_not_unsigned_are_refused(value: Any) -> None:
    with pytest.raises(ChangeRefused, match=r"column u8 is DECIMAL\(20,0\), which cannot hold "):
        connect_types.UNSIGNED_BIGINT.read("u8", value)


@pytest.mark.parametrize("key", [5, 6])
def test_dates_that_spark_lacks_are_refused_by_name(key: int) -> None:
    with pytest.raises(ChangeRefused, match="column d is DATE, which cannot hold '-"):
        _row("postgres", "schema", key)


@pytest.mark.parametrize(
    ("digits", "scale", "spark", "value"),
    [
        (10, 2, "DECIMAL(10,2)", Decimal("30.00")),
        (None, 2, "DECIMAL(38,2)", Decimal("30.00")),
        (65, 30, "STRING", "0.000000000000000000000000003000"),
        (5, 2046, "DECIMAL(7,0)", Decimal("300000")),
    ],
)
def test_decimals_have_the_type_that_holds_them(digits: int | None, scale: int, spark: str, value: Any) -> None:
    kind = connect_types.decimal_type(digits, scale)
    assert kind.spark == spark
    assert kind.read("n", "C7g=") == value


def test_nested_types_are_sparks() -> None:
    item = {"type": "int32", "name": "io.debezium.time.Date"}
    assert type_of({"type": "array", "items": item}).spark == "ARRAY<DATE>"
    pairs = type_of({"type": "map", "keys": {"type": "int32"}, "values": item})
    assert (pairs.spark, pairs.read("m", [[1, 0], [2, None]])) == ("MAP<INT, DATE>", {1: date(1970, 1, 1), 2: None})
    fields = [{"field": "x y", "type": "double"}]
    assert type_of({"type": "struct", "fields": fields}).spark == "STRUCT<`x y`: DOUBLE>"


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int32", 2**31), ("int8", True), ("boolean", 1), ("string", 1), ("bytes", "*"), ("float", [])],
)
def test_values_of_another_type_are_refused(kind: str, value: Any) -> None:
    with pytest.raises(ChangeRefused, match="column c is"):
        type_of({"type": kind}).read("c", value)


def test_types_that_connect_lacks_are_refused() -> None:
    with pytest.raises(ChangeRefused, match="no type oid"):
        type_of({"type": "oid"})
