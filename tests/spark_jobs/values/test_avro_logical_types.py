"""All pairs of Avro types, one as the type with which a field was written, and one in the reader's schema."""

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from kafka_zk.spark_jobs.values.avro_reader import AvroReader
from kafka_zk.spark_jobs.values.framing import ValueUndecodable
from kafka_zk.spark_jobs.values.schema_registry import Schema

NAMED: dict[str, dict[str, Any]] = {
    "fixed": {"type": "fixed", "name": "F", "size": 2},
    "enum": {"type": "enum", "name": "E", "symbols": ["A"]},
}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


TYPES: dict[str, Any] = {
    **{name: name for name in ("boolean", "int", "long", "float", "double", "bytes", "string")},
    **NAMED,
    **{name: logical("long", name) for name in (
        "timestamp-millis", "timestamp-micros", "timestamp-nanos",
        "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos", "time-micros",
    )},
    "time-millis": logical("int", "time-millis"), "date": logical("int", "date"), "uuid": logical("string", "uuid"),
    "decimal-2": logical("bytes", "decimal", precision=6, scale=2),
    "decimal-4": logical("bytes", "decimal", precision=6, scale=4),
    "decimal-fixed": {**NAMED["fixed"], "logicalType": "decimal", "precision": 4, "scale": 1},
}  # fmt: skip
RAW: dict[str, Any] = {
    **dict.fromkeys(TYPES, 120_000_000), "boolean": True, "float": 1.5, "double": 1.5, "bytes": b"\x27\x10",
    "string": "ab", "fixed": b"\0d", "enum": "A", "uuid": "ab", "int": 12_000, "date": 12_000,
    "time-millis": 12_000, "decimal-2": b"\x27\x10", "decimal-4": b"\x27\x10", "decimal-fixed": b"\0d",
}  # fmt: skip
"""Physical values; b"\\x27\\x10" is 10,000."""


def at(micros: int, *, local: bool = False) -> datetime:
    return datetime.fromtimestamp(micros / 1_000_000, UTC).replace(tzinfo=None if local else UTC)


DAY = date(1970, 1, 1).toordinal() + 12_000
LONGS = ("long", "timestamp-nanos", "local-timestamp-nanos", "time-micros")
N = 120_000_000
OF_LONG = {**dict.fromkeys(LONGS, N), "double": float(N), "timestamp-millis": at(N * 1000), "timestamp-micros": at(N),
           "local-timestamp-millis": at(N * 1000, local=True), "local-timestamp-micros": at(N, local=True)}  # fmt: skip
OF_INT = {**dict.fromkeys(LONGS, 12_000), "int": 12_000, "time-millis": 12_000, "date": date.fromordinal(DAY),
          "float": 12_000.0, "double": 12_000.0, "timestamp-millis": at(12_000_000), "timestamp-micros": at(12_000),
          "local-timestamp-millis": at(12_000_000, local=True),
          "local-timestamp-micros": at(12_000, local=True)}  # fmt: skip
DECIMALS = {"decimal-2": Decimal("100.00"), "decimal-4": Decimal("1.0000")}


def of_count(written: str) -> dict[str, Any]:
    """The results for a long with a logical type: the number, and the same time in other units."""
    family, unit = written.rsplit("-", 1)
    nanos = N * {"millis": 1_000_000, "micros": 1000, "nanos": 1}[unit]
    found: dict[str, Any] = {"long": N, "double": float(N), f"{family}-nanos": nanos, written: N}
    if family != "time":
        found |= {f"{family}-{each}": at(nanos // 1000, local=family != "timestamp") for each in ("millis", "micros")}
    return found


RESULTS: dict[str, dict[str, Any]] = {
    "boolean": {"boolean": True}, "float": {"float": 1.5, "double": 1.5}, "double": {"double": 1.5},
    "fixed": {"fixed": b"\0d", "decimal-fixed": Decimal("10.0")}, "enum": {"enum": "A"},
    "int": OF_INT, "long": OF_LONG,
    "date": {"int": 12_000, "long": 12_000, "float": 12_000.0, "double": 12_000.0, "date": date.fromordinal(DAY)},
    "time-millis": {"int": 12_000, "long": 12_000, "float": 12_000.0, "double": 12_000.0, "time-millis": 12_000,
                    "time-micros": 12_000_000},
    **{name: of_count(name) for name in TYPES if name.startswith(("timestamp", "local", "time-micros"))},
    "bytes": {"bytes": b"\x27\x10", "string": "'\x10", "uuid": "'\x10", **DECIMALS},
    "string": {"bytes": b"ab", "string": "ab", "uuid": "ab", "decimal-2": Decimal("249.30"),
               "decimal-4": Decimal("2.4930")},
    "uuid": {"bytes": b"ab", "string": "ab", "uuid": "ab"},
    "decimal-2": {"bytes": b"\x27\x10", "string": "'\x10", "decimal-2": Decimal("100.00")},
    "decimal-4": {"bytes": b"\x27\x10", "string": "'\x10", "decimal-4": Decimal("1.0000"),
                  "decimal-2": Decimal("1.00")},
    "decimal-fixed": {"fixed": b"\0d", "decimal-fixed": Decimal("10.0")},
}  # fmt: skip
"""Written type -> reader's type -> result for the value in RAW; a missing entry means undecodable."""


def schema(kind: Any) -> Schema:
    return Schema("AVRO", json.dumps({"type": "record", "name": "R", "fields": [{"name": "t", "type": kind}]}))


def bytes_of(written: Any, raw: Any) -> bytes:
    def stripped(kind: Any) -> Any:
        if isinstance(kind, list):
            return [stripped(each) for each in kind]
        if not isinstance(kind, dict):
            return kind
        return {name: stripped(each) for name, each in kind.items() if name != "logicalType"}

    out = io.BytesIO()
    fastavro.schemaless_writer(out, stripped(json.loads(schema(written).text)), {"t": raw})
    return out.getvalue()


def read(written: Any, wanted: Any, raw: Any) -> Any:
    reader = AvroReader(schema(wanted))
    return reader.read(reader.prepared(schema(written)), bytes_of(written, raw))["t"]


@pytest.mark.parametrize("wanted", TYPES)
@pytest.mark.parametrize("written", TYPES)
def test_every_pair_of_types(written: str, wanted: str) -> None:
    for write, get, raw, result in (
        (TYPES[written], TYPES[wanted], RAW[written], lambda each: each),
        (["null", TYPES[written]], ["null", TYPES[wanted]], RAW[written], lambda each: each),
        (_array(TYPES[written]), _array(TYPES[wanted]), [RAW[written]], lambda each: [each]),
        (_map(TYPES[written]), _map(TYPES[wanted]), {"k": RAW[written]}, lambda each: {"k": each}),
    ):
        if wanted not in RESULTS[written]:
            with pytest.raises(ValueUndecodable):
                read(write, get, raw)
            continue
        found, expected = read(write, get, raw), result(RESULTS[written][wanted])
        assert found == expected and repr(found) == repr(expected)


def _array(kind: Any) -> Any:
    return {"type": "array", "items": kind}


def _map(kind: Any) -> Any:
    return {"type": "map", "values": kind}


@pytest.mark.parametrize(
    ("written", "wanted", "raw", "told"), [
        ("timestamp-nanos", "timestamp-micros", 1001, "a timestamp is finer than the reader's timestamp-micros"),
        ("timestamp-micros", "timestamp-nanos", 2**62, "a timestamp is out of the range of timestamp-nanos"),
        ("long", "timestamp-millis", 2**62, "OverflowError"),
        ("decimal-4", "decimal-2", b"\x01", "a decimal has more than 2 decimal places"),
        ("decimal-2", "decimal-4", b"\x27\x10", "a decimal has more digits than the reader's schema allows"),
        ("bytes", "decimal-2", b"\x0f\x42\x40", "a decimal has more digits than the reader's schema allows"),
        ("long", "double", 2**53, "more than 53 bits is not exact as a double"),
        ("int", "float", -(2**24), "more than 24 bits is not exact as a float"),
        ("bytes", "string", b"\xff", "UnicodeDecodeError"),
        ("date", "timestamp-millis", 1, "it was written as date, and is timestamp-millis in the reader's schema"),
        ("timestamp-millis", "local-timestamp-millis", 1, "it was written as timestamp-millis, and is local-"),
    ],
)  # fmt: skip
def test_what_is_undecodable_says_why(written: str, wanted: str, raw: Any, told: str) -> None:
    with pytest.raises(ValueUndecodable, match=told):
        read(TYPES[written], TYPES[wanted], raw)


def test_a_logical_type_that_the_type_cannot_have_is_ignored() -> None:
    assert read(logical("string", "timestamp-millis"), logical("string", "timestamp-millis"), "x") == "x"
    assert read("long", logical("long", "date"), 7) == 7


def test_a_null_is_null_whatever_the_types_mean() -> None:
    assert read(["null", TYPES["date"]], ["null", TYPES["timestamp-millis"]], None) is None


def test_a_union_of_several_meanings_is_undecodable() -> None:
    union = ["null", TYPES["time-millis"], TYPES["time-micros"]]
    with pytest.raises(ValueUndecodable, match="several logical types"):
        read(union, "long", 5)
    assert read(["null", "string", TYPES["timestamp-millis"]], TYPES["timestamp-micros"], 5) == at(5000)


def test_aliases_defaults_and_names_are_followed() -> None:
    stamp, other = TYPES["timestamp-millis"], TYPES["timestamp-micros"]
    inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": stamp}]}
    written = {"type": "record", "name": "R", "fields": [{"name": "a", "type": inner}, {"name": "b", "type": "I"}]}
    changed = {**inner, "fields": [{"name": "y", "type": other, "aliases": ["x"]},
                                   {"name": "price", "type": TYPES["decimal-2"], "default": "\u0001"}]}  # fmt: skip
    wanted = {**written, "fields": [{"name": "a", "type": changed}, {"name": "b", "type": "I"},
                                    {"name": "new", "type": stamp, "default": 5}]}  # fmt: skip
    out = io.BytesIO()
    fastavro.schemaless_writer(out, json.loads(json.dumps(written).replace("logicalType", "ignored")),
                               {"a": {"x": 7}, "b": {"x": 8}})  # fmt: skip
    reader = AvroReader(Schema("AVRO", json.dumps(wanted)))
    found = reader.read(reader.prepared(Schema("AVRO", json.dumps(written))), out.getvalue())
    price = Decimal("0.01")
    assert found == {"a": {"y": at(7000), "price": price}, "b": {"y": at(8000), "price": price}, "new": at(5000)}


def test_connects_decimals_of_64_digits_have_sparks_38() -> None:
    kind = logical("bytes", "decimal", precision=64, scale=2)
    assert AvroReader(schema(kind)).columns["t"].dataType.simpleString() == "decimal(38,2)"
    assert read(kind, kind, b"\x27\x10") == Decimal("100.00")
    with pytest.raises(ValueUndecodable, match="more digits"):
        read(kind, kind, (10**38).to_bytes(17))
