"""What executors do, on Arrow tables."""

from typing import Any

import pyarrow as pa
import pytest

from kafka_zk.spark_jobs.errors import ChangeRefused
from kafka_zk.spark_jobs.extraction.merge.fold_tasks import FoldChanges, ReadChanges

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


def _folded(rows: list[dict[str, Any]]) -> dict[str, Any]:
    names = ("key", "change", "state", "row")
    table = pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows])
    (result,) = FoldChanges(_SCHEMA, _RESULT, None).folded(table).to_pylist()
    return dict(result)


def test_rows_and_tombstones_become_a_row_for_each_key() -> None:
    found = _folded(_read('{"id":1,"v":"old"}', '{"id":1,"v":"new","unknown":1}'))
    assert (found["lives"], found["id"], found["v"], found["before"]) == (True, 1, "new", None)
    again = _folded([*_read('{"id":1,"v":"old"}', None), {**found, "row": {"id": 1, "v": "new"}}])
    assert (again["lives"], again["v"], again["before"]) == (False, None, found["state"])


def test_a_change_that_comes_again_leaves_the_row_as_it_is() -> None:
    found = _folded(_read('{"id":1,"v":"a"}', '{"id":1,"v":"b"}'))
    again = _folded([*_read('{"id":1,"v":"a"}'), {**found, "row": {"id": 1, "v": "b"}}])
    assert again == {**found, "before": found["state"]}


def test_a_value_that_is_no_event_is_refused_with_its_place() -> None:
    with pytest.raises(ChangeRefused, match="offset 0 of t-0: the value is neither"):
        list(ReadChanges("debezium", _SCHEMA).changes([_staged('{"id":1}')]))
