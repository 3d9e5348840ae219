"""What a task reports about the keys of a batch."""

from typing import Any

import pyarrow as pa

from kafka_zk.spark_jobs.audit.keyed.last_events import COMPARED, _JudgeKeys

_CONTENT = (
    '{"columns":{"v":"new"},"from":null,"key":"","op":"upsert","partition":0,"placeholders":[],"rank":[[],0],'
    '"to":null}'
)


def _judged(row: dict[str, Any] | None) -> list[dict[str, Any]]:
    event = {"rank": [5], "content": _CONTENT, "is_delete": False, "key": "{}", "moved": None}
    last = {"partition": 0, "offset": 9, **event}
    given = {"last": last, "taken": None, "is_ordered": True, "first_offset": 9, "row": row, "row_rank": None}
    (batch,) = _JudgeKeys(None).verdicts([pa.RecordBatch.from_pylist([given])])
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def test_columns_that_an_event_has_are_named_as_compared() -> None:
    """This reveals table columns whose name no event contains, such as V."""
    told = [each["said"] for each in _judged({"v": "new", "V": "new"}) if each["outcome"] == COMPARED]
    assert told == ["", "v"]


def test_nothing_is_compared_with_an_absent_row() -> None:
    assert [each["outcome"] for each in _judged(None)] == ["missing"]
