"""Values as the columns of a schema: what is refused before Spark starts, and Avro."""

import io
import json
from datetime import datetime, time
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction import decoding, keys
from kafka_zk.spark_jobs.values import avro_types

fastavro = pytest.importorskip("fastavro")

SCHEMA: Any = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "delay", "type": ["null", "double"]},
        {"name": "stops", "type": {"type": "array", "items": "string"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "codes", "type": {"type": "map", "values": "int"}},
    ],
}
PLAIN: Any = {"type": "record", "name": "P", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]}


def encoded(record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, PLAIN, record)
    return out.getvalue()


def test_an_avro_schema_as_sparks_type() -> None:
    assert avro_types.avro_type(SCHEMA).simpleString() == (
        "struct<carrier:string,delay:double,stops:array<string>,at:timestamp,codes:map<string,int>>"
    )


def test_logical_types_are_sparks_where_it_has_them() -> None:
    kinds = {
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "id": {"type": "string", "logicalType": "uuid"},
        "daily": {"type": "int", "logicalType": "time-millis"},
        "local": {"type": "long", "logicalType": "local-timestamp-millis"},
    }
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    written: Any = {"type": "record", "name": "L", "fields": fields}
    parsed, fields = avro_types.parse_avro_schema(json.dumps(written))
    assert fields.simpleString() == "struct<price:decimal(9,2),id:string,daily:int,local:timestamp_ntz>"
    record = {"price": Decimal("12.50"), "id": UUID(int=7), "daily": time(0, 0, 1), "local": datetime(2026, 1, 1)}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, written, record)
    assert avro_types.decode_avro(parsed, out.getvalue()) == {**record, "id": str(UUID(int=7)), "daily": 1000}


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"type":"string"}', '{"type":"record"}', '{"type":"record","name":"f","fields":[{"name":"a"}]}'],
)
def test_what_is_no_avro_record_is_refused_before_spark_starts(text: str) -> None:
    with pytest.raises(WronglyAsked, match="--schema"):
        decoding.known_columns("avro", text)


@pytest.mark.parametrize("schema", [["string", "int"], {"type": "odd"}])
def test_what_has_no_spark_type_is_refused(schema: Any) -> None:
    with pytest.raises(WronglyAsked, match="Avro"):
        avro_types.avro_type(schema)


def test_decimals_of_more_digits_than_spark_has() -> None:
    """Connect declares 64 digits for all decimals."""

    def schema(scale: int) -> str:
        kind = {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": scale}
        return json.dumps({"type": "record", "name": "R", "fields": [{"name": "price", "type": ["null", kind]}]})

    parsed, fields = avro_types.parse_avro_schema(schema(2))
    assert fields.simpleString() == "struct<price:decimal(38,2)>"
    for unscaled, found in ((10**38 - 1, {"price": Decimal(10**38 - 1).scaleb(-2, Context(prec=38))}), (10**38, None)):
        value = unscaled.to_bytes(17)
        assert avro_types.decode_avro(parsed, b"\2" + bytes([2 * len(value)]) + value) == found
    with pytest.raises(WronglyAsked, match="the decimal price has 39 decimal places, Spark's have 38 at most"):
        avro_types.parse_avro_schema(schema(39))


@pytest.mark.parametrize("record", [{"a": 7, "b": "x"}, {"a": 0, "b": ""}, {"a": -1, "b": "größe"}])
def test_avro_with_and_without_confluents_five_bytes(record: dict[str, Any]) -> None:
    assert avro_types.decode_avro(PLAIN, encoded(record)) == record
    assert avro_types.decode_avro(PLAIN, b"\0\0\0\0\7" + encoded(record)) == record


@pytest.mark.parametrize("value", [None, b"", b"\xff", encoded({"a": 1, "b": "x"}) + b"more"])
def test_what_is_no_whole_record_is_null(value: bytes | None) -> None:
    assert avro_types.decode_avro(PLAIN, value) is None


@pytest.mark.parametrize(
    ("decode", "schema", "format_name"), [
        ("json", None, "parquet"), ("avro", None, "parquet"), (None, None, "csv"), ("string", "a INT", "parquet"),
        (None, "a INT", "parquet"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_refused(decode: str | None, schema: str | None, format_name: str) -> None:
    with pytest.raises(WronglyAsked):
        decoding.check(decode, schema, format_name)
    decoding.check("string", None, format_name)


_TEXT, _NUMBER = StructField("a", StringType()), StructField("n", DecimalType(9, 2))
_LIST = StructField("l", ArrayType(StringType()))
_MAP = StructField("m", MapType(StringType(), IntegerType()))
_RECORD = StructField("r", StructType([_NUMBER]))
_VARIANT = StructField("v", VariantType())


@pytest.mark.parametrize(
    ("columns", "format_name", "partition_by", "told"), [
        ([_TEXT, _LIST], "csv", (), "--format csv: l is array<string>, which CSV cannot store"),
        ([_TEXT, _MAP], "csv", (), "m is map<string,int>"),
        ([_TEXT, _RECORD], "csv", ("a",), "r is struct<n:decimal"),
        ([_TEXT, _VARIANT], "csv", (), "v is variant"),
        ([_TEXT, _NUMBER], "parquet", ("nope",), "--partition-by: there is no column nope, only a, n"),
        ([_TEXT, _NUMBER], "parquet", ("a", "a"), "--partition-by: a column is listed twice"),
        ([_TEXT, _NUMBER], "parquet", ("n", "a"), "--partition-by: all columns are listed"),
        ([_TEXT, _LIST], "parquet", ("l",), "l is array<string>, which cannot be part of a folder's name"),
        ([_TEXT, _VARIANT], "parquet", ("v",), "--partition-by: v is variant, which cannot be part of a folder's name"),
        ([_TEXT, StructField("A", StringType())], "parquet", (), "--schema: several column names differ only in case"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_written_are_told_by_name(
    columns: list[StructField], format_name: str, partition_by: tuple[str, ...], told: str
) -> None:
    """The error comes before the run joins the group; Spark's own error would come after the manifest is written."""
    with pytest.raises(WronglyAsked, match=told):
        decoding.check_columns(StructType(columns), format_name, partition_by)


@pytest.mark.parametrize(
    ("columns", "format_name", "partition_by"), [
        ([_TEXT, _NUMBER], "csv", ("a",)), ([_TEXT, _LIST, _MAP, _RECORD], "json", ("a",)),
        ([_TEXT, _LIST], "parquet", ()),
    ],
)  # fmt: skip
def test_columns_that_can(columns: list[StructField], format_name: str, partition_by: tuple[str, ...]) -> None:
    decoding.check_columns(StructType(columns), format_name, partition_by)


@pytest.mark.parametrize(
    ("decode", "schema", "on_undecodable", "names"), [
        (None, None, "fail", ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]),
        ("string", None, "keep", ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType",
                                  "raw_value", "raw_key"]),
        ("avro", json.dumps(PLAIN), "fail", ["key", "topic", "partition", "offset", "timestamp", "a", "b"]),
        ("json", StructType([_TEXT]).json(), "keep",
         ["key", "topic", "partition", "offset", "timestamp", "a", "raw_value", "raw_key"]),
    ],
)  # fmt: skip
def test_columns_are_known_without_spark(
    decode: str | None, schema: str | None, on_undecodable: str, names: list[str]
) -> None:
    assert decoding.known_columns(decode, schema, on_undecodable).fieldNames() == names
    assert decoding.known_columns("json", "a INT", on_undecodable) is None, "DDL is for Spark's own parser"


def test_a_field_may_be_called_as_the_raw_values_only_if_they_are_not_kept() -> None:
    schema = StructType([StructField("Raw_Value", StringType())]).json()
    assert decoding.known_columns("json", schema, "null") is not None
    with pytest.raises(WronglyAsked, match="Raw_Value has the same name as the column of --on-undecodable keep"):
        decoding.known_columns("json", schema, "keep")


NUMBERED = {"type": "record", "name": "K", "fields": [{"name": "id", "type": "long"}]}


@pytest.mark.parametrize(
    ("key_format", "key_schema", "wanted"), [
        ("bytes", None, "binary"), ("string", None, "string"), ("short", None, "smallint"), ("int", None, "int"),
        ("long", None, "bigint"), ("float", None, "float"), ("double", None, "double"),
        ("avro", '"long"', "bigint"), ("avro", json.dumps(NUMBERED), "struct<id:bigint>"),
    ],
)  # fmt: skip
def test_the_type_of_a_key_is_known_without_spark(key_format: str, key_schema: str | None, wanted: str) -> None:
    kind = keys.known_type(key_format, key_schema, None)
    assert kind.simpleString() == wanted
    columns = decoding.known_columns("json", StructType([_TEXT]).json(), "keep", kind, "_kafka_")
    assert columns["_kafka_key"].dataType == kind
    assert ("raw_key" in columns.fieldNames()) is (key_format != "bytes"), "bytes are what they are"


def test_names_of_the_source_are_free_for_fields_with_a_prefix() -> None:
    schema = StructType([StructField(name, StringType()) for name in ("key", "topic", "Partition", "offset")]).json()
    with pytest.raises(WronglyAsked, match=r"the field key has the same .*: --metadata-prefix _kafka_ renames those"):
        decoding.known_columns("json", schema)
    assert decoding.known_columns("json", schema, prefix="_kafka_").fieldNames() == [
        "_kafka_key", "_kafka_topic", "_kafka_partition", "_kafka_offset", "_kafka_timestamp",
        "key", "topic", "Partition", "offset",
    ]  # fmt: skip
    with pytest.raises(WronglyAsked, match="the field ktopic has the same name"):
        decoding.known_columns("json", StructType([StructField("ktopic", StringType())]).json(), prefix="k")


POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}


def test_a_named_type_may_be_used_twice() -> None:
    """The schema may come with or without a registry."""
    price = {"type": "fixed", "name": "Price", "size": 2, "logicalType": "decimal", "precision": 3, "scale": 1}
    fields = [("from", POINT), ("to", "Point"), ("via", ["null", "Point"]), ("was", price), ("now", "Price")]
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}
    parsed, columns = avro_types.parse_avro_schema(json.dumps(schema))
    assert columns["via"].dataType == columns["to"].dataType == columns["from"].dataType
    value = b"\2\4\2\6" + b"\0\7" + b"\3\xe7"
    found = avro_types.decode_avro(parsed, value)
    assert found == {"from": {"x": 1}, "to": {"x": 2}, "via": {"x": 3}, "was": Decimal("0.7"), "now": Decimal("99.9")}
    assert avro_types.decode_avro(parsed, value[:-2] + b"\3\xe8") is None, "four digits, in a type that is named"


def test_avro_types_that_have_no_end_are_refused() -> None:
    loop = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
    with pytest.raises(WronglyAsked, match="the Avro type L contains itself"):
        avro_types.parse_avro_schema(json.dumps(loop))
    pair: Any = "int"
    for number in range(30):
        fields = [{"name": "a", "type": pair}, {"name": "b", "type": f"P{number - 1}" if number else "int"}]
        pair = {"type": "record", "name": f"P{number}", "fields": fields}
    with pytest.raises(WronglyAsked, match="more than 10,000 fields"):
        avro_types.parse_avro_schema(json.dumps(pair))
