"""Values as the columns of a schema: what is refused before Spark starts, and Avro."""

import io
import json
from datetime import datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from spark_jobs.extraction import decoding
from spark_jobs.extraction.errors import WronglyAsked

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
    assert decoding.avro_to_ddl(SCHEMA) == (
        "struct<`carrier`:string,`delay`:double,`stops`:array<string>,`at`:timestamp,`codes`:map<string,int>>"
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
    parsed, ddl = decoding.parse_avro_schema(json.dumps(written))
    assert ddl == "struct<`price`:decimal(9,2),`id`:string,`daily`:int,`local`:timestamp_ntz>"
    record = {"price": Decimal("12.50"), "id": UUID(int=7), "daily": time(0, 0, 1), "local": datetime(2026, 1, 1)}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, written, record)
    assert decoding.decode_avro(parsed, out.getvalue()) == {**record, "id": str(UUID(int=7)), "daily": 1000}


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"type":"string"}', '{"type":"record"}', '{"type":"record","name":"f","fields":[{"name":"a"}]}'],
)
def test_what_is_no_avro_record_is_refused_before_spark_starts(text: str) -> None:
    with pytest.raises(WronglyAsked, match="--schema"):
        decoding.check("avro", text, "parquet")


@pytest.mark.parametrize("schema", [["string", "int"], {"type": "odd"}])
def test_what_has_no_spark_type_is_refused(schema: Any) -> None:
    with pytest.raises(WronglyAsked, match="Avro"):
        decoding.avro_to_ddl(schema)


@pytest.mark.parametrize("record", [{"a": 7, "b": "x"}, {"a": 0, "b": ""}, {"a": -1, "b": "größe"}])
def test_avro_with_and_without_confluents_five_bytes(record: dict[str, Any]) -> None:
    assert decoding.decode_avro(PLAIN, encoded(record)) == record
    assert decoding.decode_avro(PLAIN, b"\0\0\0\0\7" + encoded(record)) == record


@pytest.mark.parametrize("value", [None, b"", b"\xff", encoded({"a": 1, "b": "x"}) + b"more"])
def test_what_is_no_whole_record_is_null(value: bytes | None) -> None:
    assert decoding.decode_avro(PLAIN, value) is None


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
