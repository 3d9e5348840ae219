"""Values of Confluent's own serializers in the columns of a reader's schema, in all three formats and several
versions."""

import json
import pickle
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import message_factory

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.values import protobuf_reader
from kafka_zk.spark_jobs.values.framing import ValueUndecodable
from kafka_zk.spark_jobs.values.schema_registry import RegistryFailed, Schema, SchemaRegistry
from kafka_zk.spark_jobs.values.value_decoder import ValueDecoder, value_decoder
from tests.schema_registry import SchemaRegistryServer, schema_registry

FIRST_AVRO = '{"type":"record","name":"Order","fields":[{"name":"id","type":"int"},{"name":"was","type":"string"}]}'
SECOND_AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
        ],
    }
)
FIRST_PROTO = 'syntax = "proto3"; package shop; message Order { int32 id = 1; string was = 2; }'
SECOND_PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  int32 id = 1;
  optional string note = 3;
  google.protobuf.Timestamp at = 4;
  repeated Line lines = 5;
  map<string, uint64> counts = 6;
  enum State { NEW = 0; PAID = 1; }
  State state = 7;
  message Line { bytes sku = 1; }
}
message Other { int32 id = 1; }
"""
FIRST_JSON = '{"type":"object","title":"Order","properties":{"id":{"type":"integer"},"was":{"type":"string"}}}'
SECOND_JSON = json.dumps(
    {
        "type": "object",
        "title": "Order",
        "properties": {
            "id": {"type": "integer"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
            "counts": {"type": "object", "additionalProperties": {"type": "number"}},
        },
        "required": ["id"],
        "$defs": {"Line": {"type": "object", "properties": {"sku": {"type": ["string", "null"]}}}},
    }
)
CONTEXT = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture
def server() -> Iterator[SchemaRegistryServer]:
    with schema_registry() as running:
        yield running


Avro = Callable[[str, Any], bytes]


@pytest.fixture
def avro(server: SchemaRegistryServer) -> Avro:
    def serialized(schema: str, record: Any) -> bytes:
        client = SchemaRegistryClient({"url": server.url})
        return bytes(AvroSerializer(client, schema)(record, CONTEXT))

    return serialized


def decoder(server: SchemaRegistryServer, value_format: str, given: str | None = None) -> ValueDecoder:
    """The decoder as an executor receives it."""
    made = value_decoder(value_format, SchemaRegistry(server.url), ["orders"], given)
    arrived: ValueDecoder = pickle.loads(pickle.dumps(made))
    return arrived


def refused(decode: ValueDecoder, value: bytes) -> str:
    with pytest.raises(ValueUndecodable) as refusal:
        decode.decode(value)
    return str(refusal.value)


def test_avro_of_each_version_is_read_as_the_newest(server: SchemaRegistryServer, avro: Avro) -> None:
    old = avro(FIRST_AVRO, {"id": 1, "was": "gone"})
    at = datetime(2026, 11, 21, 6, tzinfo=UTC)
    new = avro(SECOND_AVRO, {"id": 2, "note": "x", "at": at})
    decode = decoder(server, "avro")
    assert decode.columns.simpleString() == "struct<id:bigint,note:string,at:timestamp>"
    server.requests.clear()
    assert decode.decode(old) == {"id": 1, "note": None, "at": datetime(1970, 1, 1, tzinfo=UTC)}
    assert decode.decode(new) == {"id": 2, "note": "x", "at": at}
    assert server.requests == [], "the driver knew them"


def test_defaults_are_values(server: SchemaRegistryServer, avro: Avro) -> None:
    value = avro(FIRST_AVRO, {"id": 1, "was": "gone"})
    price = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
    inner = {"type": "record", "name": "I", "fields": [{"name": "b", "type": "bytes", "default": "\u00fe"}]}
    fields = [
        {"name": "price", "type": price, "default": "\u0001\u0000"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}, "default": 1},
        {"name": "inner", "type": inner, "default": {}},
        {"name": "inners", "type": {"type": "array", "items": "I"}, "default": [{"b": "x"}]},
        {"name": "codes", "type": {"type": "map", "values": ["int", "null"]}, "default": {"a": 1}},
    ]
    given = json.dumps({"type": "record", "name": "Order", "fields": fields})
    assert decoder(server, "avro", given).decode(value) == {
        "price": Decimal("2.56"),
        "day": date(1970, 1, 2),
        "inner": {"b": b"\xfe"},
        "inners": [{"b": b"x"}],
        "codes": {"a": 1},
    }


def test_a_readers_schema_may_be_given(server: SchemaRegistryServer, avro: Avro) -> None:
    value = avro(FIRST_AVRO, {"id": 1, "was": "here"})
    given = '{"type":"record","name":"Order","fields":[{"name":"was","type":"string"}]}'
    assert decoder(server, "avro", given).decode(value) == {"was": "here"}


def test_avro_that_is_none_says_why(server: SchemaRegistryServer, avro: Avro) -> None:
    value = avro(FIRST_AVRO, {"id": 1, "was": "gone"})
    text = server.register("texts", "{}", "JSON").to_bytes(4)
    number = server.register("numbers", '"int"').to_bytes(4)
    decode = decoder(server, "avro")
    assert refused(decode, b"{}") == "no schema id: the value has only 2 bytes"
    assert refused(decode, b"\0\0\0\0\x63") == "the schema registry has no schema 99"
    assert refused(decode, b"\0" + text) == f"schema {int.from_bytes(text)} is of type JSON, not AVRO"
    assert refused(decode, b"\0" + number + b"\2").startswith("its schema is incompatible with the reader's")
    assert refused(decode, value + b"!") == "not a valid Avro record of its schema: 1 bytes follow it"
    assert refused(decode, value[:-1]).startswith("not a valid Avro record of its schema")
    asked = [path for path in server.requests if path == "/schemas/ids/99"]
    assert refused(decode, b"\0\0\0\0\x63") and len(asked) == 1, "once"


def test_an_id_that_is_new_is_asked_for(server: SchemaRegistryServer, avro: Avro) -> None:
    avro(FIRST_AVRO, {"id": 1, "was": ""})
    decode = decoder(server, "avro")
    later = avro(SECOND_AVRO.replace('"long"', '"int"', 1), {"id": 3, "note": None, "at": datetime.now(UTC)})
    with pytest.raises(ValueUndecodable, match="is incompatible with the reader's"):
        decode.decode(later)  # it has no field "was"
    server.close()
    with pytest.raises(RegistryFailed, match="no response"):
        decode.decode(b"\0\0\0\0\x63")


def test_avro_whose_types_are_other_schemas(server: SchemaRegistryServer) -> None:
    server.register("line", '{"type":"record","name":"Line","fields":[{"name":"sku","type":"string"}]}')
    outer = '{"type":"record","name":"Order","fields":[{"name":"a","type":"Line"},{"name":"b","type":"Line"}]}'
    schema_id = server.register("orders-value", outer, references=({"name": "Line", "subject": "line", "version": 1},))
    decode = decoder(server, "avro")
    assert decode.columns.simpleString() == "struct<a:struct<sku:string>,b:struct<sku:string>>"
    value = b"\0" + schema_id.to_bytes(4) + b"\2A\2B"
    assert decode.decode(value) == {"a": {"sku": "A"}, "b": {"sku": "B"}}


# --- Protobuf ---


def message(text: str, name: str, **fields: Any) -> Any:
    file = protobuf_reader._file(Schema("PROTOBUF", text))
    return message_factory.GetMessageClass(file.message_types_by_name[name])(**fields)


def protobuf(server: SchemaRegistryServer, made: Any) -> bytes:
    client = SchemaRegistryClient({"url": server.url})
    options = {"use.deprecated.format": False, "skip.known.types": True}
    return bytes(ProtobufSerializer(type(made), client, options)(made, CONTEXT))


def test_protobuf_of_each_version_is_read_as_the_newest(server: SchemaRegistryServer) -> None:
    old = protobuf(server, message(FIRST_PROTO, "Order", id=1, was="gone"))
    made = message(SECOND_PROTO, "Order", id=2, state=1, counts={"a": 2**64 - 1})
    made.at.FromDatetime(datetime(2026, 11, 21))
    made.lines.add(sku=b"s")
    new = protobuf(server, made)
    other = protobuf(server, message(SECOND_PROTO, "Other", id=5))
    decode = decoder(server, "protobuf")
    assert decode.columns.simpleString() == (
        "struct<id:int,note:string,at:timestamp,lines:array<struct<sku:binary>>,"
        "counts:map<string,decimal(20,0)>,state:string>"
    )
    nothing: dict[str, object] = {"note": None, "at": None, "lines": [], "counts": {}, "state": "NEW"}
    assert decode.decode(old) == {"id": 1, **nothing}
    at = datetime(2026, 11, 21, tzinfo=UTC)
    assert decode.decode(new) == {"id": 2, "note": None, "at": at, "lines": [{"sku": b"s"}],
                                  "counts": {"a": Decimal(2**64 - 1)}, "state": "PAID"}  # fmt: skip
    assert refused(decode, other) == "it is a message shop.Other, not shop.Order"
    assert refused(decode, new + b"\xff").startswith("not a Protobuf message shop.Order")


def test_a_proto_text_in_the_registry_with_what_it_imports(server: SchemaRegistryServer) -> None:
    server.register("line", 'syntax = "proto3"; message Line { string sku = 1; }', "PROTOBUF")
    text = 'syntax = "proto3"; import "shop/line.proto"; message Order { Line line = 1; }'
    references = ({"name": "shop/line.proto", "subject": "line", "version": 1},)
    schema_id = server.register("orders-value", text, "PROTOBUF", references)
    value = b"\0" + schema_id.to_bytes(4) + b"\0" + b"\x0a\x03\x0a\x01A"
    assert decoder(server, "protobuf").decode(value) == {"line": {"sku": "A"}}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("message", "invalid Protobuf schema"),
        ('syntax = "proto3";', "has no message"),
        ('syntax = "proto3"; message Tree { Tree left = 1; }', "contains itself"),
    ],
)
def test_a_protobuf_schema_without_columns(server: SchemaRegistryServer, text: str, told: str) -> None:
    with pytest.raises(WronglyAsked, match=told):
        decoder(server, "protobuf", text)


# --- JSON Schema ---


def json_value(server: SchemaRegistryServer, schema: str, record: Any) -> bytes:
    return bytes(JSONSerializer(schema, SchemaRegistryClient({"url": server.url}))(record, CONTEXT))


def test_json_of_each_version_is_read_as_the_newest(server: SchemaRegistryServer) -> None:
    old = json_value(server, FIRST_JSON, {"id": 1, "was": "gone"})
    record = {"id": 2, "note": None, "lines": [{"sku": "s"}], "counts": {"a": 1}}
    new = json_value(server, SECOND_JSON, record)
    decode = decoder(server, "json-schema")
    assert decode.columns.simpleString() == (
        "struct<id:bigint,note:string,lines:array<struct<sku:string>>,counts:map<string,double>>"
    )
    assert decode.decode(old) == {"id": 1, "note": None, "lines": None, "counts": None}
    assert decode.decode(new) == {**record, "counts": {"a": 1.0}}


def test_json_that_does_not_fit_says_where(server: SchemaRegistryServer) -> None:
    head = json_value(server, SECOND_JSON, {"id": 1})[:5]
    loose = server.register("loose", '{"type":"object"}', "JSON").to_bytes(4)
    decode = decoder(server, "json-schema")
    assert refused(decode, head + b"{") .startswith("not JSON: ")
    assert refused(decode, head + b'{"id": "x"}') == "does not fit its schema: $.id: 'x' is not of type 'integer'"
    assert refused(decode, head + b"{}") == "does not fit its schema: $: 'id' is a required property"
    for wrong in (b'"x"', b"1.5", b"true", b"1e400", b"9223372036854775808"):
        told = refused(decode, b"\0" + loose + b'{"id": %s}' % wrong)
        assert told == "$.id does not fit the reader's schema, where it is bigint"
    assert decode.decode(b"\0" + loose + b'{"id": 7.0}')["id"] == 7


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ('{"type":"array","items":{"type":"string"}}', "must be a JSON Schema with properties"),
        ('{"properties":{"a":{}}}', "the schema.a may have any type"),
        ('{"properties":{"a":{"type":["string","integer"]}}}', "the schema.a is of more than one type"),
        ('{"properties":{"a":{"$ref":"#"}}}', "contains itself"),
        ('{"properties":{"a":{"$ref":"#/nowhere"}}}', "not a JSON Schema"),
        ("{", "not a JSON Schema"),
    ],
)
def test_a_json_schema_without_columns(server: SchemaRegistryServer, schema: str, told: str) -> None:
    with pytest.raises(WronglyAsked, match=told):
        decoder(server, "json-schema", schema)


def test_without_a_schema_of_the_topic_one_must_be_given(server: SchemaRegistryServer) -> None:
    with pytest.raises(WronglyAsked, match="has no subject orders-value: give the reader's schema with --schema"):
        decoder(server, "avro")
    server.register("orders-value", FIRST_JSON, "JSON")
    with pytest.raises(WronglyAsked, match="schema of orders is JSON"):
        decoder(server, "avro")
