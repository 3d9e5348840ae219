"""Values as the columns of a schema: what is refused before Spark starts, and Avro."""

import io
from typing import Any

import pytest

from spark_jobs.extraction import decoding
from spark_jobs.extraction.errors import ExtractionFailed

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


@pytest.mark.parametrize("schema", [["string", "int"], {"type": "odd"}])
def test_what_has_no_spark_type_is_refused(schema: Any) -> None:
    with pytest.raises(ExtractionFailed, match="Avro"):
        decoding.avro_to_ddl(schema)


@pytest.mark.parametrize("record", [{"a": 7, "b": "x"}, {"a": 0, "b": ""}, {"a": -1, "b": "größe"}])
def test_avro_with_and_without_confluents_five_bytes(record: dict[str, Any]) -> None:
    assert decoding.decode_avro(PLAIN, encoded(record)) == record
    assert decoding.decode_avro(PLAIN, b"\0\0\0\0\7" + encoded(record)) == record


@pytest.mark.parametrize("value", [None, b"", b"\xff", encoded({"a": 1, "b": "x"}) + b"more"])
def test_what_is_no_whole_record_is_null(value: bytes | None) -> None:
    assert decoding.decode_avro(PLAIN, value) is None


@pytest.mark.parametrize(
    ("decode", "schema", "format_name"), [("json", None, "parquet"), ("avro", None, "parquet"), (None, None, "csv")]
)
def test_what_cannot_be_written_is_refused(decode: str | None, schema: str | None, format_name: str) -> None:
    with pytest.raises(ExtractionFailed):
        decoding.check(decode, schema, format_name)
    decoding.check("string", None, format_name)
