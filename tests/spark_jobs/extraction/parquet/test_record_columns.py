"""The written columns of records; tests/integration/spark compares them with Spark's."""

import io
from functools import partial
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kafka_zk.spark_jobs.extraction.parquet.record_columns import Counts, Misfit, Shape, avro_record, written
from kafka_zk.spark_jobs.source.schema import arrow_schema
from kafka_zk.spark_jobs.values.framing import ValueUndecodable

SCHEMA: Any = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
RECORD = pa.struct([("n", pa.int32())])


def source(values: list[bytes | None], keys: list[bytes | None] | None = None, headers: Any = None) -> pa.RecordBatch:
    count = len(values)
    schema = arrow_schema(headers is not None)
    columns: list[Any] = [
        keys or [b"k"] * count, values, ["t"] * count, [1] * count, list(range(7, 7 + count)), [0] * count,
        [0, 1, -1][:count] + [0] * (count - 3),
    ]  # fmt: skip
    if headers is not None:
        columns.append(headers)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def named(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, name) for name in names)


def encoded(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, {**SCHEMA, "fields": [{"name": "n", "type": "long"}]}, {"n": number})
    return out.getvalue()


def test_columns_are_chosen_and_renamed() -> None:
    batch, counts = written(source([b"v", None]), Shape((("OFFSET", "offset"), ("value", "value"))))
    assert batch.to_pydict() == {"OFFSET": [7, 8], "value": [b"v", None]}
    assert counts == Counts(2)


NO_TEXT = "the key is not UTF-8 text"


def test_keys_and_values_that_are_not_utf8() -> None:
    """If both are undecodable, the key's reason is reported. Without a value, only the key can be undecodable."""
    shape = Shape(named("key", "value", "raw_value", "raw_key"), text=True)
    values: list[bytes | None] = ["grün".encode(), b"\xff", None, None]
    keys: list[bytes | None] = [b"\xed\xa0\x80", b"\xfe", b"\xff", b"k"]
    batch, counts = written(source(values, keys), shape)
    assert batch.to_pydict() == {
        "key": [None, None, None, "k"],
        "value": ["grün", None, None, None],
        "raw_value": [None, b"\xff", None, None],
        "raw_key": [b"\xed\xa0\x80", b"\xfe", b"\xff", None],
    }
    assert counts == Counts(4, 3, 3, Misfit("t", 1, 7, NO_TEXT), 3)
    assert written(source([b"\xff"], [b"\xfe"]), shape)[1].first == Misfit("t", 1, 7, NO_TEXT)


def test_raw_keys_stay_bytes() -> None:
    assert written(source([None], [b"\xff"]), Shape(named("key")))[0].to_pydict() == {"key": [b"\xff"]}


def avro(columns: tuple[tuple[str, str], ...], **more: Any) -> Shape:
    return Shape(columns, decode=partial(avro_record, fastavro.parse_schema(SCHEMA), False), record=RECORD, **more)


def test_records_become_columns_and_misfits_are_counted() -> None:
    batch, counts = written(source([encoded(5), b"\xff", None]), avro(named("offset", "n", "raw_value")))
    assert batch.to_pydict() == {"offset": [7, 8, 9], "n": [5, None, None], "raw_value": [None, b"\xff", None]}
    assert counts == Counts(3, 2, 1, Misfit("t", 1, 8, ""))


def test_a_record_that_its_columns_cannot_hold_is_undecodable() -> None:
    """Other records of the batch are not affected."""
    batch, counts = written(source([encoded(2**40), encoded(6)]), avro(named("n", "raw_value")))
    assert batch.to_pydict() == {"n": [None, 6], "raw_value": [encoded(2**40), None]}
    assert counts.undecodable == 1 and counts.first is not None
    assert counts.first.offset == 7 and "too large" in counts.first.reason


def test_the_record_of_an_undecodable_key_is_written() -> None:
    batch, counts = written(source([encoded(5), b"\xff"], [b"\xff", None]), avro(named("key", "n")))
    assert batch.to_pydict() == {"key": [None, None], "n": [5, None]}
    assert counts == Counts(2, 2, 2, Misfit("t", 1, 7, NO_TEXT), 1)


def test_undecodable_records_are_left_out_for_dead_letters() -> None:
    values, keys = [b"\xff", encoded(6), None, encoded(6)], [b"k", b"k", None, b"\xff"]
    batch, counts = written(source(values, keys), avro(named("offset"), leaves_out=True))
    assert batch["offset"].to_pylist() == [8, 9]
    assert counts == Counts(2, 3, 2, Misfit("t", 1, 7, ""), 1)


def test_the_reason_of_a_decoder_is_told() -> None:
    def decode(value: bytes) -> Any:
        raise ValueUndecodable("no such schema")

    shape = Shape(named("n"), decode=decode, record=RECORD)
    assert written(source([b"v"]), shape)[1].first == Misfit("t", 1, 7, "no such schema")


def test_the_last_of_several_headers_counts_at_the_place_of_the_first() -> None:
    headers = [[{"key": "a", "value": b"1"}, {"key": "b", "value": None}, {"key": "a", "value": b"2"}], None]
    batch, _ = written(source([b"", b""], headers=headers), Shape(named("headers")))
    assert batch["headers"].to_pylist() == [[("a", b"2"), ("b", None)], None]


def test_kinds_of_timestamps_have_names() -> None:
    batch, _ = written(source([b"", b"", b""]), Shape(named("timestamp_type")))
    assert batch["timestamp_type"].to_pylist() == ["CreateTime", "LogAppendTime", None]


@pytest.mark.parametrize("name", ["raw_value", "raw_key", "headers", "timestamp_type", "timestampType", "value"])
def test_a_field_may_have_the_name_of_a_column_that_is_not_written(name: str) -> None:
    shape = Shape(named(name), decode=lambda value: {name: value.decode()}, record=pa.struct([(name, pa.string())]))
    assert written(source([b"v", None]), shape)[0].to_pydict() == {name: ["v", None]}


@pytest.mark.parametrize("swapped", [False, True])
def test_the_first_misfit_of_all_tasks_is_told(swapped: bool) -> None:
    one, other = Counts(1, 2, 1, Misfit("t", 0, 9, ""), 1), Counts(10, 20, 3, Misfit("t", 0, 10, "why"), 2)
    total = other.plus(one) if swapped else one.plus(other)
    assert total == Counts(11, 22, 4, one.first, 3)
    assert Counts().plus(Counts(1)) == Counts(1)
