"""Columns from the schemas of recorded change events."""

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from kafka_zk.spark_jobs.cdc import row_schemas
from kafka_zk.spark_jobs.cdc.changes import Op
from kafka_zk.spark_jobs.cdc.given_types import given_types
from kafka_zk.spark_jobs.cdc.readers import debezium_change, json_record
from kafka_zk.spark_jobs.cdc.row_schemas import connect_schema, of_avro_versions, of_json_value
from kafka_zk.spark_jobs.cdc.stored_states import change_of, change_text
from kafka_zk.spark_jobs.errors import ChangeRefused
from kafka_zk.spark_jobs.values.schema_registry import Schema
from tests.spark_jobs.cdc import recordings

ORDERS = {"customer_id": "INT", "order_no": "INT", "amount": "DECIMAL(10,2)", "placed": "DATE", "gift": "STRING"}


def newest_text(database: str, table: str) -> str:
    values = [recordings.part(line, "value") for line in recordings.lines(database, "schema")
              if line["topic"].endswith(f".shop.{table}") and line["value"] is not None]  # fmt: skip
    assert values[-1] is not None
    text = of_json_value(values[-1])
    assert text is not None
    return text


def versions(database: str, table: str) -> list[Schema]:
    return recordings.versions(f"{'pg' if database == 'postgres' else 'my'}_avro.shop.{table}-value")


@pytest.mark.parametrize("database", ["postgres", "mariadb"])
def test_json_and_avro_say_the_same_columns(database: str) -> None:
    in_json = given_types(newest_text(database, "orders"))
    in_avro = given_types(of_avro_versions(versions(database, "orders"), "orders-value"))
    assert {name: kind.spark for name, kind in in_json.items()} == ORDERS
    assert {name: kind.spark for name, kind in in_avro.items()} == ORDERS


@pytest.mark.parametrize("database", ["postgres", "mariadb"])
def test_all_types_are_derived_from_both_alike(database: str) -> None:
    in_json = given_types(newest_text(database, "types"))
    in_avro = given_types(of_avro_versions(versions(database, "types"), "types-value"))
    assert {name: kind.spark for name, kind in in_json.items()} == {name: kind.spark for name, kind in in_avro.items()}


@pytest.mark.parametrize("variant", ["schema", "avro"])
@pytest.mark.parametrize("database", ["postgres", "mariadb"])
def test_derived_types_read_each_value_and_executors_can_exchange_it(database: str, variant: str) -> None:
    for table in ("orders", "types"):
        of_avro = variant == "avro"
        text = of_avro_versions(versions(database, table), table) if of_avro else newest_text(database, table)
        types = given_types(text)
        for record in recordings.records(database, variant, table):
            try:
                change = debezium_change(record, types)
            except ChangeRefused as error:
                assert (database, table) == ("postgres", "types") and "which cannot hold" in str(error), "infinity"
                continue
            if change is not None:
                found = change_of(change_text(change)).columns
                assert sorted(map(str, found.items())) == sorted(map(str, change.columns.items())), "NaN, too"
            if change is not None and table == "orders" and change.op is Op.UPSERT:
                assert isinstance(found["amount"], Decimal) and isinstance(found["placed"], date)


def test_a_record_is_read_by_its_own_schema_before_the_newest() -> None:
    """Decimals have another scale in the record's own schema."""
    wide = json.dumps({"type": "struct", "fields": [{**decimal(4, 12), "field": "amount"}]})
    record = json_record("t", 0, 0, '{"id": 1}', event(decimal(2, 10), "C7g="), {})
    change = debezium_change(record, given_types(wide))
    assert change is not None and change.columns == {"amount": Decimal("30.00")}
    given = debezium_change(record, given_types("amount DECIMAL(12,4)"))
    assert given is not None and given.columns == {"amount": Decimal("0.3000")}, "what a user gives decides"


def test_a_record_whose_type_the_newest_one_cannot_hold_is_refused() -> None:
    narrow = json.dumps({"type": "struct", "fields": [{**decimal(2, 6), "field": "amount"}]})
    record = json_record("t", 0, 0, '{"id": 1}', event(decimal(2, 10), "C7g="), {})
    with pytest.raises(ChangeRefused, match=r"amount is DECIMAL\(10,2\) in one record, and DECIMAL\(6,2\) in the new"):
        debezium_change(record, given_types(narrow))


def decimal(scale: int, digits: int) -> dict[str, Any]:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(digits)}
    return {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": parameters}


def event(kind: dict[str, Any], value: str) -> str:
    fields = [{"type": "struct", "fields": [{**kind, "field": "amount"}], "field": "after"}]
    fields += [{"type": "struct", "fields": [], "field": "source"}, {"type": "string", "field": "op"}]
    source = {"connector": "postgresql", "lsn": 5}
    payload = {"before": None, "after": {"amount": value}, "source": source, "op": "c"}
    return json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": payload})


def test_a_column_whose_number_meant_something_else_before_is_refused() -> None:
    def version(name: str) -> Schema:
        kind = {"type": "long", "connect.name": name}
        return Schema("AVRO", json.dumps({"type": "record", "name": "R", "fields": [{"name": "at", "type": kind}]}))

    older, newer = version("io.debezium.time.Timestamp"), version("io.debezium.time.MicroTimestamp")
    told = r"at is io.debezium.time.Timestamp in version 1 of the 2 versions of t-value, and io.debezium.time.MicroT"
    with pytest.raises(ChangeRefused, match=told):
        of_avro_versions([older, newer], "t-value")
    assert given_types(of_avro_versions([newer, newer], "t-value"))["at"].spark == "TIMESTAMP_NTZ"


def test_the_version_of_the_newest_record_decides_not_the_one_that_was_registered_last() -> None:
    """A registry has each schema once, so a column that is renamed and renamed back has its first version again."""

    def version(column: str) -> Schema:
        return Schema("AVRO", json.dumps({"type": "record", "name": "R", "fields": [{"name": column, "type": "long"}]}))

    first, renamed = version("a"), version("b")
    assert list(given_types(of_avro_versions([first, renamed], "t-value"))) == ["b"]
    assert list(given_types(of_avro_versions([first, renamed], "t-value", first))) == ["a"]


def test_columns_of_an_envelope_may_begin_like_debeziums_own_fields() -> None:
    def fields(*names: str) -> list[dict[str, Any]]:
        return [{"type": "int32", "field": name} for name in names]

    def derived(schema: dict[str, Any]) -> list[str]:
        return list(given_types(of_json_value(json.dumps({"schema": schema, "payload": None}).encode()) or ""))

    after = {"type": "struct", "field": "after", "fields": fields("id", "__version")}
    assert derived({"type": "struct", "fields": [*fields("op", "source"), after]}) == ["id", "__version"]
    assert derived({"type": "struct", "fields": fields("id", "__op", "__deleted")}) == ["id"]
    assert derived({"type": "struct", "fields": fields("id", "__version")}) == ["id", "__version"], "--cdc keyed"


def test_topics_of_debezium_without_rows_never_say_columns() -> None:
    kinds = {
        "io.debezium.connector.mariadb.SchemaChangeValue": "schema changes",
        "io.debezium.connector.common.TransactionMetadataValue": "transactions",
    }
    for name, told in kinds.items():
        schema = {"type": "struct", "name": name, "fields": [{"type": "string", "field": "ddl"}]}
        with pytest.raises(ChangeRefused, match=f"the values are {told} of Debezium, not rows"):
            of_json_value(json.dumps({"schema": schema, "payload": None}).encode())


def test_a_schema_of_no_row_is_refused() -> None:
    assert of_json_value(b'{"id": 1}') is None
    for value in (b"\0\0\0\0\1x", b'{"schema": {"type": "string"}, "payload": "x"}', b'{"schema": [], "payload": 1}'):
        with pytest.raises(ChangeRefused):
            of_json_value(value)


@pytest.mark.parametrize("text", [
    '["int", "string"]', '"Nowhere"', '{"type": "record", "name": "R"}', "[", '{"type": "record", "name": "R", '
    '"fields": [{"name": "r", "type": "R"}]}',
])  # fmt: skip
def test_avro_that_no_converter_made_is_refused(text: str) -> None:
    with pytest.raises(ChangeRefused):
        connect_schema(Schema("AVRO", text))


def test_types_that_multiply_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_schemas, "_TYPES_MAX", 100)
    kind: Any = "int"
    for number in range(6):
        first = {"name": "a", "type": kind}
        of_name = kind["name"] if isinstance(kind, dict) else kind
        kind = {"type": "record", "name": f"R{number}", "fields": [first, {"name": "b", "type": of_name}]}
    with pytest.raises(ChangeRefused, match="more than 100 types"):
        connect_schema(Schema("AVRO", json.dumps(kind)))


def test_logical_types_of_other_writers_are_known() -> None:
    kinds = {
        "d": {"type": "int", "logicalType": "date"},
        "n": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "t": {"type": "long", "logicalType": "timestamp-micros"},
        "m": {"type": "map", "values": "long"},
        "e": {"type": "enum", "name": "E", "symbols": ["A"]},
    }
    fields = [{"name": name, "type": ["null", kind]} for name, kind in kinds.items()]
    fields += [{"name": name, "type": "string"} for name in ("__op", "__deleted")]
    row = of_avro_versions([Schema("AVRO", json.dumps({"type": "record", "name": "R", "fields": fields}))], "t-value")
    assert {name: kind.spark for name, kind in given_types(row).items()} == {
        "d": "DATE", "n": "DECIMAL(9,2)", "t": "TIMESTAMP_NTZ", "m": "MAP<STRING, BIGINT>", "e": "STRING",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["a`b", "` INT, `x"])
def test_a_column_that_sql_cannot_quote_is_refused(name: str) -> None:
    schema = {"type": "struct", "fields": [{"type": "int32", "field": name}]}
    with pytest.raises(ChangeRefused, match=f"the column {name} has a backtick in its name"):
        of_json_value(json.dumps({"schema": schema, "payload": None}).encode())
