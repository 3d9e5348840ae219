"""Malicious schemas and values: each causes only one undecodable value, or a failure of the registry."""

import json
import socket
import threading
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.values.avro_reader import AvroReader
from kafka_zk.spark_jobs.values.avro_types import decode_avro, parse_avro_schema
from kafka_zk.spark_jobs.values.framing import ValueUndecodable
from kafka_zk.spark_jobs.values.json_schema_reader import JsonSchemaReader
from kafka_zk.spark_jobs.values.protobuf_reader import ProtobufReader
from kafka_zk.spark_jobs.values.schema_registry import RegistryFailed, Schema, SchemaRegistry
from kafka_zk.spark_jobs.values.value_decoder import ValueDecoder
from tests.schema_registry import schema_registry

_DEEP = "[" * 100_000
_AVRO = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
_LIST = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "a", "type": "int"}, {"name": "next", "type": ["null", "R"]}],
}
_NOTHINGS: Any = {
    "type": "array",
    "items": {"type": "record", "name": "Empty", "fields": [{"name": "n", "type": "null"}]},
}
_JSON = {"properties": {"a": {"type": "number"}}}


def read_avro(writer: Any, payload: bytes, *references: tuple[str, Schema]) -> Any:
    text = writer if isinstance(writer, str) else json.dumps(writer)
    reader = AvroReader(Schema("AVRO", json.dumps(_AVRO)))
    return reader.read(reader.prepared(Schema("AVRO", text, references)), payload)


def read_json(writer: Any, payload: bytes) -> Any:
    text = writer if isinstance(writer, str) else json.dumps(writer)
    reader = JsonSchemaReader(Schema("JSON", json.dumps(_JSON)))
    return reader.read(reader.prepared(Schema("JSON", text)), payload)


def test_an_avro_record_of_a_recursive_schema_is_read_if_it_is_not_too_deep() -> None:
    assert read_avro(_LIST, b"\x02\x02" * 50 + b"\x02\x00") == {"a": 1}


def test_an_avro_record_that_is_nested_too_deeply_ends_no_worker() -> None:
    """fastavro's C code would recurse until the stack overflows."""
    with pytest.raises(ValueUndecodable, match="nested too deeply"):
        read_avro(_LIST, b"\x02\x02" * 300_000 + b"\x02\x00")


def test_an_avro_array_of_items_that_need_no_bytes_is_not_read() -> None:
    """Ten bytes can declare 2**60 items."""
    fields = [*_AVRO["fields"], {"name": "many", "type": _NOTHINGS}]
    with pytest.raises(ValueUndecodable, match="need no bytes"):
        read_avro({**_AVRO, "fields": fields}, b"\x02" + b"\x80" * 8 + b"\x10\x00")


@pytest.mark.parametrize("text", [_DEEP, '{"type":"record","name":"R","fields":5}', "5", "null"])
def test_avro_schemas_that_are_none(text: str) -> None:
    with pytest.raises(ValueUndecodable):
        read_avro(text, b"\x02")
    with pytest.raises(WronglyAsked):
        AvroReader(Schema("AVRO", text))


def test_references_that_are_shared_are_followed_once() -> None:
    shared = Schema("AVRO", '{"type":"enum","name":"E0","symbols":["A"]}')
    for number in range(1, 60):
        text = f'{{"type":"enum","name":"E{number}","symbols":["A"]}}'
        shared = Schema("AVRO", text, ((f"E{number}a", shared), (f"E{number}b", shared)))
    assert read_avro(_AVRO, b"\x02", ("E", shared)) == {"a": 1}


@pytest.mark.parametrize(
    "schema",
    [
        _DEEP,
        {"properties": {"a": {"multipleOf": 0.01}}},
        {"$schema": 5},
        {"patternProperties": {"(?<name>a)": {}}},
    ],
)
def test_json_that_its_schema_cannot_judge(schema: Any) -> None:
    with pytest.raises(ValueUndecodable):
        read_json(schema, b'{"a": 1' + b"0" * 400 + b"}")


def test_a_json_schema_that_is_nested_too_deeply() -> None:
    schema: dict[str, Any] = {}
    for _ in range(300):
        schema = {"not": schema}
    with pytest.raises(ValueUndecodable):
        read_json(schema, b"{}")
    with pytest.raises(WronglyAsked):
        JsonSchemaReader(Schema("JSON", _DEEP))


def test_text_of_proto2_that_is_no_text() -> None:
    schema = Schema("PROTOBUF", 'syntax = "proto2"; message M { repeated string a = 1; }')
    reader = ProtobufReader(schema)
    with pytest.raises(ValueUndecodable, match="UTF-8"):
        reader.read(reader.prepared(schema), b"\0\x0a\x01\xff")


@pytest.mark.parametrize("names", [("",), ("a", "a/b"), ("x" * 300,)])
def test_names_of_protobuf_references_that_are_no_files(names: tuple[str, ...]) -> None:
    own = 'syntax = "proto3"; message M { int32 a = 1; }'
    schema = Schema("PROTOBUF", own, tuple((name, Schema("PROTOBUF", own)) for name in names))
    with pytest.raises(WronglyAsked):
        ProtobufReader(schema)


@pytest.mark.parametrize(
    "answer", [_DEEP, "{", '{"schema": 5}', '{"schema": "x", "references": {"a": 1}}', "[]", "5", '"x"']
)
def test_a_registry_that_answers_nonsense(answer: str) -> None:
    with schema_registry() as server:
        server.answers["/schemas/ids/1"] = answer.encode()
        with pytest.raises(RegistryFailed, match="does not respond like a schema registry"):
            SchemaRegistry(server.url).by_id(1)


def test_references_in_a_circle() -> None:
    with schema_registry() as server:
        refers: Any = {"name": "o", "subject": "other", "version": 1}
        server.answers["/schemas/ids/1"] = json.dumps({"schema": "{}", "references": [refers]}).encode()
        server.answers["/subjects/other/versions/1"] = server.answers["/schemas/ids/1"]
        with pytest.raises(RegistryFailed, match="circular references, or too deeply"):
            SchemaRegistry(server.url).by_id(1)
        assert len(server.requests) < 100


def test_an_answer_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_zk.spark_jobs.values.schema_registry._ANSWER_BYTES_MAX", 1000)
    with schema_registry() as server:
        server.answers["/schemas/ids/1"] = json.dumps({"schema": "x" * 2000}).encode()
        with pytest.raises(RegistryFailed, match="more than 1,000 bytes"):
            SchemaRegistry(server.url).by_id(1)


def test_ids_that_are_not_there_are_not_remembered_without_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_zk.spark_jobs.values.schema_registry._ABSENT_MAX", 10)
    with schema_registry() as server:
        registry = SchemaRegistry(server.url)
        known = server.register("s", '"int"')
        for number in range(100, 150):
            assert registry.by_id(number) is None
        assert registry.by_id(known) == Schema("AVRO", '"int"')
        assert len(registry._by_id) <= 11


class _Nothing:
    """A registry without schemas."""

    def by_id(self, _: int) -> None:
        return None


def test_values_without_a_schema_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shared exception's traceback would grow with each value, and keep it in memory."""
    monkeypatch.setattr("kafka_zk.spark_jobs.values.value_decoder._WRITERS_MAX", 10)
    nothing: Any = _Nothing()
    decoder = ValueDecoder("avro", Schema("AVRO", json.dumps(_AVRO)), nothing)
    for number in [*range(100), *[1] * 100]:
        with pytest.raises(ValueUndecodable, match=f"has no schema {number}$") as caught:
            decoder.decode(b"\0" + number.to_bytes(4) + b"...")
        assert len(caught.traceback) < 10
    assert len(decoder._writers) <= 10


_MONEY: Any = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}


@pytest.mark.parametrize("kind", [_MONEY, ["null", _MONEY], {"type": "array", "items": _MONEY}])
def test_a_decimal_with_more_digits_than_its_schema_says(kind: Any) -> None:
    """If it were decoded, Spark would fail the job."""
    schema = Schema("AVRO", json.dumps({**_AVRO, "fields": [{"name": "a", "type": kind}]}))
    reader = AvroReader(schema)
    before, after = (b"\x02", b"") if isinstance(kind, list) else (b"\x02", b"\x00") if kind != _MONEY else (b"", b"")
    fits, fits_not = (before + b"\x04" + number.to_bytes(2, signed=True) + after for number in (-9_999, 10_000))
    assert reader.read(reader.prepared(schema), fits)["a"] in (Decimal("-99.99"), [Decimal("-99.99")])
    with pytest.raises(ValueUndecodable, match="more digits"):
        reader.read(reader.prepared(schema), fits_not)
    assert decode_avro(parse_avro_schema(schema.text)[0], fits_not) is None


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xff" * 9 + b"\x01"),
        ({"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f"),
    ],
)
def test_times_that_python_has_not_are_no_avro_of_the_schema(kind: Any, data: bytes) -> None:
    parsed, _ = parse_avro_schema(json.dumps({**_AVRO, "fields": [{"name": "a", "type": kind}]}))
    assert decode_avro(parsed, data) is None


def test_json_text_that_is_half_a_character() -> None:
    """If it were decoded, Arrow would fail the job."""
    counts = {"type": "object", "additionalProperties": {"type": "integer"}}
    for kind, value in [({"type": "string"}, b'{"a": "\\ud800"}'), (counts, b'{"a": {"\\ud800": 1}}')]:
        given = Schema("JSON", json.dumps({"properties": {"a": kind}}))
        reader = JsonSchemaReader(given)
        with pytest.raises(ValueUndecodable, match="not valid text"):
            reader.read(reader.prepared(given), value)


@pytest.mark.parametrize(
    ("payload", "told"), [
        (b'{"a":9007199254740993}', "$.a has more digits than a double can represent"),
        (b'{"a":3.141592653589793238462643}', "$.a has more digits than a double can represent"),
        (b'{"a":1,"a":2}', "not JSON: a name occurs twice in an object"),
    ],
)  # fmt: skip
def test_json_that_would_be_another_value_in_its_column(payload: bytes, told: str) -> None:
    with pytest.raises(ValueUndecodable) as refusal:
        read_json(_JSON, payload)
    assert str(refusal.value) == told
    assert read_json(_JSON, b'{"a":0.10000000000000001,"b":9007199254740993.5}') == {"a": 0.1}


def test_an_integer_that_is_written_as_a_float_is_exact_or_undecodable() -> None:
    schema = Schema("JSON", '{"properties":{"a":{"type":"integer"}}}')
    reader = JsonSchemaReader(schema)
    assert reader.read(reader.prepared(schema), b'{"a":7.0}') == {"a": 7}
    with pytest.raises(ValueUndecodable, match="more digits"):
        reader.read(reader.prepared(schema), b'{"a":9007199254740993.0}')


_PRICE: Any = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


def _sized(data: bytes) -> bytes:
    """Avro bytes, preceded by their length."""
    number, length = 2 * len(data), bytearray()
    while number >= 0x80:
        length.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*length, number]) + data


@pytest.mark.parametrize("scale", [2, 3, 1_000_000_000])
def test_a_decimal_of_a_megabyte_costs_nothing(scale: int) -> None:
    """Converting it to digits would take minutes; so would converting a small one with a huge scale."""
    schema = Schema("AVRO", json.dumps({**_AVRO, "fields": [{"name": "a", "type": _PRICE}]}))
    written = {**_PRICE, "scale": scale, "precision": max(9, scale)}
    writer = Schema("AVRO", json.dumps({**_AVRO, "fields": [{"name": "a", "type": written}]}))
    reader = AvroReader(schema)
    huge = _sized(b"\x7f" * 1_000_000)
    for value in (huge, *([_sized(b"\7")] if scale > 9 else [])):
        with pytest.raises(ValueUndecodable):
            reader.read(reader.prepared(writer), value)
    assert reader.read(reader.prepared(writer), _sized(b"\0"))["a"] == 0
    assert decode_avro(parse_avro_schema(schema.text)[0], huge) is None


def test_an_avro_record_of_fields_without_bytes() -> None:
    """One byte yields 2,000 values, so a megabyte would yield 2,000,000,000."""
    nulls = [{"name": f"n{number}", "type": "null"} for number in range(2_000)]
    item = {"type": "record", "name": "I", "fields": [*nulls, {"name": "b", "type": "boolean"}]}
    again = {"type": "record", "name": "N", "fields": [*nulls, {"name": "next", "type": ["null", "N"]}]}
    kinds: list[Any] = [{"type": "array", "items": item}, {"type": "map", "values": item}, again]
    for kind in kinds:
        writer = {**_AVRO, "fields": [*_AVRO["fields"], {"name": "many", "type": kind}]}
        with pytest.raises(ValueUndecodable, match="fields that take no bytes"):
            read_avro(writer, b"\x02" * 2000)
        with pytest.raises(WronglyAsked):
            parse_avro_schema(json.dumps(writer))


def test_ordinary_avro_of_many_bytes_is_read() -> None:
    fields = [{"name": "x", "type": "int"}, {"name": "y", "type": ["null", "I"]}]
    item = {"type": "record", "name": "I", "fields": fields}
    writer = {**_AVRO, "fields": [*_AVRO["fields"], {"name": "many", "type": {"type": "array", "items": item}}]}
    assert read_avro(writer, b"\x02" + b"\x80\x20" + b"\2\0" * 2048 + b"\0") == {"a": 1}


def test_an_avro_union_of_20_000_types() -> None:
    union = [{"type": "enum", "name": f"E{number}", "symbols": ["A"]} for number in range(20_000)]
    writer = {**_AVRO, "fields": [*_AVRO["fields"], {"name": "one", "type": union}]}
    with pytest.raises(ValueUndecodable, match="it has too many types"):
        read_avro(writer, b"\x02\0\0")
    with pytest.raises(WronglyAsked, match="it has too many types"):
        AvroReader(Schema("AVRO", json.dumps(writer)))


def test_records_that_share_records_are_judged_once() -> None:
    """2**60 paths lead to the last one."""
    kind: Any = {"type": "record", "name": "R0", "fields": [{"name": "n", "type": "null"}]}
    for number in range(1, 60):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"R{number - 1}"}]
        kind = {"type": "record", "name": f"R{number}", "fields": fields}
    writer = {**_AVRO, "fields": [*_AVRO["fields"], {"name": "l", "type": {"type": "array", "items": kind}}]}
    with pytest.raises(ValueUndecodable, match="need no bytes"):
        read_avro(writer, b"\x02\0")


def _tree(depth: int) -> dict[str, Any]:
    """A schema that refers twice to another schema, which in turn refers twice to a third one, and so on."""
    definitions: dict[str, Any] = {"d0": {"type": "object", "properties": {"x": {"type": "integer"}}}}
    for number in range(1, depth):
        both = {"$ref": f"#/definitions/d{number - 1}"}
        definitions[f"d{number}"] = {"allOf": [both, both], "type": "object", "properties": {"l": both, "r": both}}
    return definitions


@pytest.mark.parametrize(
    ("schema", "value"), [
        ({"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}, {"a": "a" * 40 + "b"}),
        ({"patternProperties": {"^(a|a)*$": {}}}, {"a" * 40 + "b": 1}),
        ({"definitions": _tree(40), "$ref": "#/definitions/d39"}, {}),
        ({"properties": {"l": {"uniqueItems": True}}}, {"l": [{"n": number} for number in range(40_000)]}),
    ],
)  # fmt: skip
def test_a_json_schema_that_takes_for_ever(schema: Any, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_zk.spark_jobs.values.json_schema_reader._SECONDS", 0.1)
    monkeypatch.setattr("kafka_zk.spark_jobs.values.json_schema_reader._SECONDS_PER_BYTE", 0.0)
    with pytest.raises(ValueUndecodable, match="validating it against its schema takes too long"):
        read_json(schema, json.dumps(value).encode())
    assert read_json(_JSON, b'{"a": 1}') == {"a": 1.0}, "the next value is not interrupted"


def test_a_json_schema_with_a_tree_of_columns() -> None:
    with pytest.raises(WronglyAsked, match="more than 10,000 columns"):
        JsonSchemaReader(Schema("JSON", json.dumps({"definitions": _tree(15), "$ref": "#/definitions/d14"})))


def test_many_empty_protobuf_messages() -> None:
    text = 'syntax = "proto3"; message M { repeated E e = 1; string s = 2; } message E { int32 a = 1; int32 b = 2; }'
    schema = Schema("PROTOBUF", text)
    reader = ProtobufReader(schema)
    prepared = reader.prepared(schema)
    with pytest.raises(ValueUndecodable, match="more than 4 values for each byte"):
        reader.read(prepared, b"\0" + b"\x0a\0" * 200_000)
    point = b"\x0a\4\x08\1\x10\2"
    assert len(reader.read(prepared, b"\0" + b"\x0a\0" * 5_000)["e"]) == 5_000, "a small value may have them"
    assert len(reader.read(prepared, b"\0" + point * 20_000 + b"\x12\x90\x4e" + b"x" * 10_000)["e"]) == 20_000


def test_a_registry_that_drips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte arrives in time, but the response never ends."""
    monkeypatch.setattr("kafka_zk.spark_jobs.values.schema_registry._ANSWER_S", 0.3)
    stopped = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not stopped.wait(0.05):
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as server:
        dripping = threading.Thread(target=drip, args=(server,), daemon=True)
        dripping.start()
        with pytest.raises(RegistryFailed, match=r"no response from .*: no complete response within 0\.3 s"):
            SchemaRegistry(f"http://127.0.0.1:{server.getsockname()[1]}").by_id(1)
        stopped.set()
        dripping.join()


@pytest.mark.parametrize(("host", "is_sent"), [("127.0.0.1", True), ("localhost", False)])
def test_a_password_does_not_follow_a_redirection_to_another_host(host: str, is_sent: bool) -> None:
    seen: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/schemas/ids/1":
                self.send_response(302)
                self.send_header("Location", f"http://{host}:{self.server.server_port}/there")  # type: ignore[attr-defined]
                self.end_headers()
                return
            seen.append(self.headers["Authorization"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"schema": "1"}')

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        registry = SchemaRegistry(f"http://me:secret@127.0.0.1:{server.server_port}")
        assert registry.by_id(1) == Schema("AVRO", "1")
        server.shutdown()
    assert [each is not None for each in seen] == [is_sent]


def test_a_subject_with_too_many_versions() -> None:
    with schema_registry() as server:
        server.answers["/subjects/s/versions"] = json.dumps(list(range(20_000))).encode()
        with pytest.raises(RegistryFailed, match="20,000 versions"):
            SchemaRegistry(server.url).learn("s")
        assert len(server.requests) == 1
