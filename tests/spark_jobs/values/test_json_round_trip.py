"""Which fields ``from_json`` changes, from the JSON that it reads and the JSON that ``to_json`` writes, as in Spark
4.3."""

import pickle

import pytest
from pyspark.sql import types as t

from kafka_zk.spark_jobs.values.json_round_trip import ChangedFields

DECIMAL = t.DecimalType(9, 2)
SAME = [
    (t.ByteType(), "-128", "-128"), (t.IntegerType(), "-0", "0"), (t.LongType(), str(2**63 - 1), str(2**63 - 1)),
    (DECIMAL, "1.5", "1.50"), (DECIMAL, '"1.5"', "1.50"), (DECIMAL, "15e-1", "1.50"), (DECIMAL, "1.500", "1.50"),
    (t.FloatType(), "0.1", "0.1"), (t.FloatType(), "16777216", "1.6777216E7"),
    (t.DoubleType(), "1E23", "9.999999999999999E22"),
    (t.DoubleType(), "0.10000000000000001", "0.1"), (t.DoubleType(), '"NaN"', '"NaN"'),
    (t.DoubleType(), "NaN", '"NaN"'),
    (t.DoubleType(), '"+INF"', '"Infinity"'), (t.DoubleType(), "0.0", "0.0"), (t.DoubleType(), "0", "0.0"),
    (t.BooleanType(), "true", "true"), (t.BinaryType(), '"AAE="', '"AAE="'),
    (t.StringType(), '"gr\\u00fc\\ud83d\\ude00"', '"gr\u00fc\U0001f600"'), (t.StringType(), "12", '"12"'),
    (t.StringType(), "true", '"true"'),
    (t.StringType(), '{"a": 1.10, "b":[1, 2e3, null]}', '"{\\"a\\":1.1,\\"b\\":[1,2000.0,null]}"'),
    (t.DateType(), '"2026-1-5"', '"2026-01-05"'), (t.DateType(), '"2026"', '"2026-01-01"'),
    (t.TimestampType(), "1700000000", '"2023-11-14T23:13:20.000000+01:00"'),
    (t.TimestampType(), '"2026-01-01"', '"2026-01-01T00:00:00.000000+01:00"'),
    (t.TimestampType(), '"2026-01-01 00:00:00.1234560Z"', '"2026-01-01T01:00:00.123456+01:00"'),
    (t.TimestampType(), '"2026-01-01T05:30+05:30"', '"2026-01-01T01:00:00.000000+01:00"'),
    (t.TimestampType(), '"2026-01-01T09:00:00 Asia/Tokyo"', '"2026-01-01T01:00:00.000000+01:00"'),
    (t.TimestampNTZType(), '"2026-03-29T02:30:00"', '"2026-03-29T02:30:00.000000"'),
    (t.TimeType(6), '"10:00"', '"10:00:00"'), (t.DayTimeIntervalType(), '"1 02:03:04"', "\"INTERVAL '1 02:03:04'\""),
    (t.VariantType(), '{"a":1.10}', '{"a":1.1}'), (t.MapType(t.StringType(), t.ByteType()), '{"a":1}', '{"a":1}'),
    (t.ArrayType(t.ByteType()), "[1, null]", "[1,null]"), (t.ByteType(), "null", "null"),
    (t.StructType([t.StructField("b", t.ByteType())]), '{"b":1,"x":2}', '{"b":1}'),
]  # fmt: skip
CHANGED = [
    (t.ByteType(), "200", "-56"), (t.ByteType(), "1", "null"),
    (DECIMAL, '"1,5"', "15.00"), (DECIMAL, "1.555", "1.56"), (DECIMAL, "1e999999999999999999999", "0.00"),
    (t.FloatType(), "16777217", "1.6777216E7"), (t.FloatType(), "0.123456789012", "0.12345679"),
    (t.DoubleType(), "9007199254740993", "9.007199254740992E15"), (t.DoubleType(), "1e400", '"Infinity"'),
    (t.DoubleType(), "1e-400", "0.0"), (t.DoubleType(), '"1,5"', "15.0"),
    (t.StringType(), '"x\\ud83dy"', '"x?y"'), (t.StringType(), "1.10", '"1.1"'),
    (t.StringType(), "1e400", '"\\"Infinity\\""'),
    (t.StringType(), '{"a":"\\ud83d"}', '"{\\"a\\":\\"?\\"}"'),
    (t.StringType(), '{"a":1e400}', '"{\\"a\\":\\"Infinity\\"}"'),
    (t.DateType(), '"2026-01-01T10:00:00"', '"2026-01-01"'), (t.DateType(), '"19000"', '"+19000-01-01"'),
    (t.TimestampType(), "1700000000123", '"+55840-11-08T23:15:23.000000+01:00"'),
    (t.TimestampType(), "92233720368547759", '"1970-01-01T00:59:59.224192+01:00"'),
    (t.TimestampType(), '"2026-01-01T00:00:00.123456789Z"', '"2026-01-01T01:00:00.123456+01:00"'),
    (t.TimestampType(), '"2026-03-29T02:30:00"', '"2026-03-29T03:30:00.000000+02:00"'),
    (t.TimestampType(), '"2026-03-29T02:30:00 Europe/Berlin"', '"2026-03-29T03:30:00.000000+02:00"'),
    (t.TimestampType(), '"T10:00"', '"2026-11-27T10:00:00.000000+01:00"'),
    (t.TimestampNTZType(), '"2026-01-01T00:00:00.1234567"', '"2026-01-01T00:00:00.123456"'),
    (t.TimeType(3), '"10:00:00.123456"', '"10:00:00.123"'),
    (t.VariantType(), '{"a":1e400}', '{"a":"Infinity"}'),
    (t.VariantType(), "123456789012345678901234567890123456789012", "1.2345678901234568E41"),
    (t.MapType(t.StringType(), t.IntegerType()), '{"a":1,"a":2}', '{"a":1,"a":2}'),
    (t.MapType(t.StringType(), t.IntegerType()), '{"\\ud83d":1}', '{"?":1}'),
    (t.ArrayType(t.ByteType()), "[1,200]", "[1,-56]"),
    (t.StructType([t.StructField("b", t.ByteType())]), '{"b":200}', '{"b":-56}'),
    (t.StructType([t.StructField("b", t.ByteType())]), '{"b":1,"b":2}', '{"b":2}'),
]  # fmt: skip


def changed(kind: t.DataType, written: str, found: str) -> list[str]:
    fields = t.StructType([t.StructField("v", kind), t.StructField("w", t.StringType())])
    compare = pickle.loads(pickle.dumps(ChangedFields(fields)))
    names: list[str] = compare(b' \n{"v":%s,"w":"x"} ' % written.encode(), f'{{"v":{found},"w":"x"}}')
    return names


@pytest.mark.parametrize(("kind", "written", "found"), SAME)
def test_what_comes_back_as_it_was_written(kind: t.DataType, written: str, found: str) -> None:
    assert changed(kind, written, found) == []


@pytest.mark.parametrize(("kind", "written", "found"), CHANGED)
def test_what_from_json_changes(kind: t.DataType, written: str, found: str) -> None:
    assert changed(kind, written, found) == ["v"]


def test_every_type_of_spark_is_judged() -> None:
    kinds = {type(kind) for kind, *_ in (*SAME, *CHANGED)}
    atomic = {t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.DecimalType, t.FloatType, t.DoubleType}
    assert kinds >= atomic - {t.ShortType}
    assert changed(t.ShortType(), "40000", "-25536") == ["v"]


@pytest.mark.parametrize(
    ("value", "found", "names"), [
        (None, None, []), (b"null", None, []), (b"[]", '{"a":null}', []), (b"{'a':1}", '{"a":1}', ["a"]),
        (b'{"a":1,"a":1}', '{"a":1}', ["a"]), (b'{"x":1,"x":1}', '{"a":null}', []), (b"\xff", '{"a":null}', ["a"]),
        (b'{"a":' + b"[" * 100_000, '{"a":null}', ["a"]), (b'{"a":1} {"a":2}', '{"a":1}', []),
    ],
)  # fmt: skip
def test_values_that_are_no_single_object(value: bytes | None, found: str | None, names: list[str]) -> None:
    compare = ChangedFields(t.StructType([t.StructField("a", t.IntegerType())]))
    assert compare(value, found) == names
