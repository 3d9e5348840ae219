"""Columns and rows of Protobuf schemas: built-in imports, messages without fields, maps."""

from decimal import Decimal
from typing import Any

import pytest

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.values.protobuf_reader import ProtobufReader
from kafka_zk.spark_jobs.values.schema_registry import Schema

_MONEY = "struct<currency_code:string,units:bigint,nanos:int>"


def reader(text: str) -> ProtobufReader:
    return ProtobufReader(Schema("PROTOBUF", f'syntax = "proto3";\n{text}'))


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ('import "google/protobuf/field_mask.proto"; message M { google.protobuf.FieldMask f = 1; string s = 2; }',
         "struct<f:struct<paths:array<string>>,s:string>"),
        ('import "google/type/money.proto"; message M { google.type.Money m = 1; }', f"struct<m:{_MONEY}>"),
        ('import "google/protobuf/any.proto"; message M { google.protobuf.Any a = 1; }',
         "struct<a:struct<type_url:string,value:binary>>"),
        ('import "confluent/meta.proto"; message M { string s = 1 [(confluent.field_meta).doc = "x"]; }',
         "struct<s:string>"),
        ('import "confluent/type/decimal.proto"; message M { confluent.type.Decimal d = 1; }',
         "struct<d:struct<value:binary,precision:bigint,scale:int>>"),
    ],
)  # fmt: skip
def test_imports_that_the_registry_resolves_itself(text: str, columns: str) -> None:
    assert reader(text).columns.simpleString() == columns


def test_an_import_that_nobody_has() -> None:
    with pytest.raises(WronglyAsked, match="invalid Protobuf schema"):
        reader('import "shop/none.proto"; message M { int32 a = 1; }')


def test_messages_without_fields_have_no_column() -> None:
    """If they had one, Spark would refuse to write it after the run has begun."""
    text = """import "google/protobuf/empty.proto";
    message M { oneof k { google.protobuf.Empty none = 1; string s = 2; } repeated N many = 3; map<string, N> m = 4; }
    message N { google.protobuf.Empty e = 1; }"""
    found = reader(text)
    assert found.columns.simpleString() == "struct<s:string>"
    prepared = found.prepared(found_schema(text))
    assert found.read(prepared, b"\0\x0a\0\x1a\0") == {"s": None}
    with pytest.raises(WronglyAsked, match="the Protobuf message M has no fields, so it has no columns"):
        reader("message M { E e = 1; } message E { }")


def found_schema(text: str) -> Schema:
    return Schema("PROTOBUF", f'syntax = "proto3";\n{text}')


@pytest.mark.parametrize("kind", ["uint64", "fixed64"])
def test_keys_of_maps_have_the_types_of_their_columns(kind: str) -> None:
    """With an int key in a column of decimals, the Python worker would end."""
    text = f"message M {{ map<{kind}, string> m = 1; }}"
    found = reader(text)
    assert found.columns.simpleString() == "struct<m:map<decimal(20,0),string>>"
    key = b"\x08" + b"\xff" * 9 + b"\1" if kind == "uint64" else b"\x09" + b"\xff" * 8
    row: Any = found.read(found.prepared(found_schema(text)), b"\0\x0a" + bytes([len(key) + 3]) + key + b"\x12\1a")
    assert row == {"m": {Decimal(2**64 - 1): "a"}} and isinstance(next(iter(row["m"])), Decimal)


def test_a_schema_with_too_many_fields() -> None:
    messages = "".join(f"message M{n} {{ M{n + 1} a = 1; M{n + 1} b = 2; }}" for n in range(30))
    with pytest.raises(WronglyAsked, match="more than 10,000 fields"):
        reader(f"{messages} message M30 {{ int32 a = 1; }}")
    with pytest.raises(WronglyAsked, match="has no fields"):
        reader(f"{messages} message M30 {{ }}")
