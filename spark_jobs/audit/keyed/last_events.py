"""Spark's part of an audit by keys: joins the last event of each key with the table's row, and judges it.

Spark groups and joins on disk, so neither many keys nor many events of one key need memory. Python processes each
record once, and then each key that has events once.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

import pyarrow as pa

from kafka_zk.spark_jobs.audit.keyed.events import EVENTS_DDL, KEY, TRUNCATE, ReadEvents
from kafka_zk.spark_jobs.audit.keyed.table_frames import TableFrame
from kafka_zk.spark_jobs.audit.keyed.verdicts import LastEvent, Outcome, Row, Truncate, judge
from kafka_zk.spark_jobs.audit.repairs import quoted

NOT_COMPARED, COMPARED = "not compared", "compared"
VERDICTS_DDL = "outcome STRING, partition INT, offset BIGINT, evidence BIGINT, said STRING, key STRING, keys BIGINT"
"""A batch has these rows, by ``outcome``:

- AGREES: one per partition, for all keys that agree; ``keys`` is their number, ``evidence`` their greatest evidence.
- Any other Outcome: one for each key whose table row is wrong.
- NOT_COMPARED: one for each reason why columns were not compared; ``said`` is the reason, ``keys`` the number of keys.
- COMPARED: one for each column that was compared, with its name in ``said``; and one with an empty name if any table
  row was compared.
"""
_VERDICTS = pa.schema(
    [
        ("outcome", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("evidence", pa.int64()),
        ("said", pa.string()),
        ("key", pa.string()),
        ("keys", pa.int64()),
    ]
)
_RECORD = ("topic", "partition", "offset", "key", "value", "headers")


def last_events(records: Any, read: ReadEvents) -> Any:
    """``records`` has the columns of the data source. Returns a row for each key, one for the newest truncate, and one
    for all refused records. The columns are kind, keys, ``last`` (a struct), ``count`` (number of records), and the
    other fields of ``LastEvent``.
    """
    events = records.select(*_RECORD).mapInArrow(read.events, EVENTS_DDL)
    contents = events.groupBy("kind", "keys", "is_delete", _sql("xxhash64(content)").alias("hash")).agg(
        _sql("max(struct(rank, offset, partition, is_delete, content, key, moved))").alias("last"),
        _sql("min(offset)").alias("first_offset"),
        _sql("min(partition)").alias("low"),
        _sql("max(partition)").alias("high"),
        _sql("bool_or(has_position)").alias("some_have"),
        _sql("bool_and(has_position)").alias("all_have"),
        _sql("min(size(rank))").alias("shortest"),
        _sql("max(size(rank))").alias("longest"),
        _sql("count(*)").alias("count"),
    )
    return contents.groupBy("kind", "keys").agg(
        _sql("max(struct(last, low, high, first_offset))").alias("newest"),
        _sql("max(CASE WHEN NOT is_delete THEN last END).moved").alias("taken"),
        _sql(
            "bool_or(some_have) = bool_and(all_have) AND min(shortest) = max(longest) "
            "AND (bool_and(all_have) OR min(low) = max(high))"
        ).alias("is_ordered"),
        _sql("sum(count)").alias("count"),
    ).selectExpr(
        "kind", "keys", "newest.last AS last", "taken", "is_ordered", "count",
        "CASE WHEN newest.low = newest.high THEN newest.first_offset END AS first_offset",
    )  # fmt: skip


class Keyless(NamedTuple):
    """``truncate``: the newest truncate. ``refused_count``: number of records that are not events. ``reason``: why one
    of these records is not an event."""

    truncate: Truncate | None = None
    refused_count: int = 0
    reason: str = ""


def keyless(last: Any) -> Keyless:
    found = Keyless()
    for row in last.where(f"kind != '{KEY}'").select("kind", "last", "count").collect():
        if row["kind"] == TRUNCATE:
            found = found._replace(truncate=Truncate(tuple(row.last.rank), row.last.partition, row.last.offset))
        else:
            found = found._replace(refused_count=int(row["count"]), reason=str(row.last.content))
    return found


def verdicts(last: Any, table: TableFrame, truncate: Truncate | None) -> Any:
    """The verdicts (VERDICTS_DDL) on the keys that have events."""
    events = last.where(f"kind = '{KEY}'")
    pairs = events.join(table.rows(), _is_of(table), "left_outer")
    judged = pairs.select("last", "taken", "is_ordered", "first_offset", "row", "row_rank")
    return judged.mapInArrow(_JudgeKeys(truncate).verdicts, VERDICTS_DDL)


def rows_without_events(last: Any, table: TableFrame) -> Any:
    """``key_columns`` and ``row_rank`` of the rows whose keys have no events."""
    keys = last.where(f"kind = '{KEY}'").select("keys")
    return table.rows().select("key_columns", "row_rank").join(keys, _is_of(table), "left_anti")


def _is_of(table: TableFrame) -> Any:
    """The condition that an event and a row have the same key."""
    matches = [
        _sql(f"try_cast({_bytes(kind, f'keys[{at}]')} AS {kind}) = key_columns.{quoted(name)}")
        for at, (name, kind) in enumerate(table.key_types().items())
    ]
    return reduce(and_, matches)


class _JudgeKeys:
    def __init__(self, truncate: Truncate | None) -> None:
        self._truncate = truncate

    def verdicts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pylist(list(self._of_batch(batch.to_pylist())), schema=_VERDICTS)

    def _of_batch(self, rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        agreeing: dict[int, dict[str, Any]] = {}
        unlike: dict[str, int] = {}
        compared: set[str] = set()
        for row in rows:
            last = row["last"]
            event = LastEvent(
                last["partition"], last["offset"], last["rank"], last["content"], last["is_delete"],
                row["first_offset"], row["is_ordered"], last["moved"], row["taken"],
            )  # fmt: skip
            found = judge(event, None if row["row"] is None else Row(row["row"], row["row_rank"]), self._truncate)
            if found.compared is not None:
                compared |= {"", *found.compared}
            for sentence in found.unlike:
                unlike[sentence] = unlike.get(sentence, 0) + 1
            told = {
                "outcome": found.outcome.value, "partition": found.partition, "offset": found.offset,
                "evidence": found.evidence, "said": found.said, "key": last["key"], "keys": 1,
            }  # fmt: skip
            if found.outcome is Outcome.AGREES:
                _add(agreeing, told)
            else:
                yield told
        yield from agreeing.values()
        yield from ({"outcome": NOT_COMPARED, "said": said, "keys": count} for said, count in unlike.items())
        yield from ({"outcome": COMPARED, "said": name, "keys": 0} for name in sorted(compared))


def _add(agreeing: dict[int, dict[str, Any]], told: dict[str, Any]) -> None:
    known = agreeing.setdefault(told["partition"], {**told, "key": None, "said": "", "keys": 0})
    known["keys"] += 1
    known["evidence"] = max((each for each in (known["evidence"], told["evidence"]) if each is not None), default=None)


def _bytes(kind: str, text: str) -> str:
    return f"unhex({text})" if kind == "binary" else text


def _sql(text: str) -> Any:
    from pyspark.sql.functions import expr

    return expr(text)
