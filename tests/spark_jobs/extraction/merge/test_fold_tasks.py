"""What executors do, on Arrow tables."""

from typing import Any

import pyarrow as pa
import pytest

from kafka_zk.spark_jobs.errors import ChangeRefused
from kafka_zk.spark_jobs.extraction.merge.fold_tasks import ORDERED, FoldChanges, ReadChanges

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


def _ordered(rows: list[dict[str, Any]], name: str = "n") -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{each: {**row, "name": name}.get(each) for each in ORDERED} for row in rows])


def _folded(rows: list[dict[str, Any]]) -> dict[str, Any]:
    (batch,) = FoldChanges(_SCHEMA, _RESULT, None).folded([_ordered(rows)])
    (result,) = batch.to_pylist()
    return dict(result)


def _state(found: dict[str, Any]) -> dict[str, Any]:
    """The row that the table has then."""
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
