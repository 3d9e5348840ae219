"""What executors do, on Arrow tables."""

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest

from kafka_zk.spark_jobs.cdc.changes import Op
from kafka_zk.spark_jobs.cdc.given_types import with_ends
from kafka_zk.spark_jobs.cdc.stored_states import change_of
from kafka_zk.spark_jobs.errors import ChangeRefused
from kafka_zk.spark_jobs.extraction.merge.fold_tasks import ORDERED, FoldChanges, ReadChanges
from kafka_zk.spark_jobs.values.schema_registry import SchemaRegistry
from kafka_zk.spark_jobs.values.value_decoder import avro_as_written
from tests.schema_registry import schema_registry

_SCHEMA = "id INT, v STRING"
_RESULT = pa.schema(
    [
        ("key", pa.string()),
        ("lives", pa.bool_()),
        ("position", pa.list_(pa.int64())),
        ("state", pa.string()),
        ("before", pa.string()),
        ("id", pa.int32()),
        ("v", pa.string()),
    ]
)


def _staged(*values: str | None) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = [
        {
            "topic": "t",
            "partition": 0,
            "offset": offset,
            "key": b'{"id":1}',
            "value": value and value.encode(),
            "headers": [],
        }
        for offset, value in enumerate(values)
    ]
    headers = pa.map_(pa.string(), pa.binary())
    kinds = {
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "key": pa.binary(),
        "value": pa.binary(),
    }
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema({**kinds, "headers": headers}))


def _read(*values: str | None) -> list[dict[str, Any]]:
    (batch,) = ReadChanges("keyed", _SCHEMA).changes([_staged(*values)])
    return list(batch.to_pylist())


def test_records_of_avro_are_read_by_their_schemas_in_another_process() -> None:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]})
    longer = json.dumps(
        {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}, {"name": "v", "type": "string"}]}
    )
    with schema_registry() as server:
        key, value = (server.register(f"t-{part}", each) for part, each in (("key", text), ("value", longer)))
        read = ReadChanges("keyed", _SCHEMA, avro_as_written(SchemaRegistry(server.url), "t"))
        staged = _staged(None, None).to_pylist()
        staged[0] |= {"key": _framed(key, b"\x02"), "value": _framed(value, b"\x02\x06abc")}
        staged[1] |= {"key": _framed(key, b"\x04")}
        batch = pa.RecordBatch.from_pylist(staged, schema=_staged(None).schema)
        before = len(server.requests)
        (found,) = pickle.loads(pickle.dumps(read)).changes([batch])
        assert len(server.requests) == before, "the driver has learned the schemas"
    upsert, delete = (change_of(row["change"]) for row in found.to_pylist())
    assert (upsert.op, upsert.key, upsert.columns) == (Op.UPSERT, '{"id":1}', {"id": 1, "v": "abc"})
    assert (delete.op, delete.key) == (Op.DELETE, '{"id":2}')


def _framed(schema_id: int, data: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + data


def _ordered(rows: list[dict[str, Any]], name: str = "n") -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{each: {**row, "name": name}.get(each) for each in ORDERED} for row in rows])


def _folded(rows: list[dict[str, Any]]) -> dict[str, Any]:
    (batch,) = FoldChanges(_SCHEMA, _RESULT, None).folded([_ordered(rows)])
    (result,) = batch.to_pylist()
    return dict(result)


def _state(found: dict[str, Any]) -> dict[str, Any]:
    """The row that the table has afterwards."""
    return {"key": found["key"], "state": found["state"], "row": {"id": found["id"], "v": found["v"]}}


def test_rows_and_tombstones_become_a_row_for_each_key() -> None:
    found = _folded(_read('{"id":1,"v":"old"}', '{"id":1,"v":"new","unknown":1}'))
    assert (found["lives"], found["id"], found["v"], found["before"]) == (True, 1, "new", None)
    again = _folded([_state(found), *_read('{"id":1,"v":"old"}', None)])
    assert (again["lives"], again["v"], again["before"]) == (False, None, found["state"])


def test_a_name_may_have_several_batches_and_a_batch_several_names() -> None:
    one, two, three = _read('{"id":1,"v":"a"}', '{"id":1,"v":"b"}', '{"id":1,"v":"c"}')
    batches = [_ordered([one]), _ordered([two]), _ordered([{**three, "key": "other"}], "o")]
    (batch,) = FoldChanges(_SCHEMA, _RESULT, None).folded(batches)
    assert batch["v"].to_pylist() == ["b", "c"]


def test_a_change_that_comes_again_leaves_the_row_as_it_is() -> None:
    found = _folded(_read('{"id":1,"v":"a"}', '{"id":1,"v":"b"}'))
    again = _folded([_state(found), *_read('{"id":1,"v":"a"}')])
    assert again == {**found, "before": found["state"]}


def test_a_value_that_is_no_event_is_refused_with_its_place() -> None:
    with pytest.raises(ChangeRefused, match="offset 0 of t-0: the value is neither"):
        list(ReadChanges("debezium", _SCHEMA).changes([_staged('{"id":1}')]))


def test_a_column_that_is_newer_than_the_derived_ones_is_refused_not_lost() -> None:
    """Offsets before the ends may have columns that the table has lost since."""
    row = json.dumps({"type": "struct", "fields": [{"type": "int32", "field": "id"}]})
    events = ['{"id": 1, "old": 2}', '{"id": 1, "new": 2}']
    assert len(list(ReadChanges("keyed", with_ends(row, {0: 2})).changes([_staged(*events)]))) == 1
    for ends in ({0: 1}, {1: 9}):
        with pytest.raises(ChangeRefused, match=r"the column (old|new) is newer than .*: run it again"):
            list(ReadChanges("keyed", with_ends(row, ends)).changes([_staged(*events)]))
    assert len(list(ReadChanges("keyed", row).changes([_staged(*events)]))) == 1, "columns of a user's"
    metadata = _staged('{"id": 1, "__op": "c"}')
    assert len(list(ReadChanges("keyed", with_ends(row, {0: 0})).changes([metadata]))) == 1
