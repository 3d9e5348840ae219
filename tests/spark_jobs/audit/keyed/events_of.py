"""The recorded topics as the audit reads them, without Spark."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from kafka_zk.spark_jobs.audit.keyed.events import KEY, TRUNCATE, ReadEvents
from kafka_zk.spark_jobs.audit.keyed.verdicts import LastEvent, Truncate
from tests.spark_jobs.cdc import recordings


def records(database: str, variant: str, table: str) -> list[dict[str, Any]]:
    """The records in the form in which the data source returns them."""
    return [
        {
            "topic": line["topic"], "partition": line["partition"], "offset": line["offset"],
            **{part: recordings.part(line, part) for part in ("key", "value")},
            "headers": [{"key": name, "value": text.encode()} for name, text in line["headers"]],
        }
        for line in recordings.lines(database, variant)
        if line["topic"].endswith(f".shop.{table}")
    ]  # fmt: skip


_RECORDS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def events(read: ReadEvents, given: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    batch = pa.RecordBatch.from_pylist(list(given), schema=_RECORDS)
    return [row for found in read.events([batch]) for row in found.to_pylist()]


def last_events(found: Iterable[Mapping[str, Any]]) -> tuple[dict[tuple[str, ...], LastEvent], Truncate | None]:
    """The result of Spark's aggregates."""
    by_key: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    truncates = []
    for event in found:
        if event["kind"] == KEY:
            by_key.setdefault(tuple(event["keys"]), []).append(event)
        elif event["kind"] == TRUNCATE:
            truncates.append(Truncate(event["rank"], event["partition"], event["offset"]))
    return {key: _last(each) for key, each in by_key.items()}, max(truncates, default=None)


def _last(events_of_key: Sequence[Mapping[str, Any]]) -> LastEvent:
    last = max(events_of_key, key=_order)
    same = [each for each in events_of_key if each["content"] == last["content"]]
    upserts = [each for each in events_of_key if not each["is_delete"]]
    return LastEvent(
        last["partition"], last["offset"], last["rank"], last["content"], last["is_delete"],
        min(each["offset"] for each in same) if len({each["partition"] for each in same}) == 1 else None,
        moved=last["moved"], taken=max(upserts, key=_order)["moved"] if upserts else None,
    )  # fmt: skip


def _order(event: Mapping[str, Any]) -> tuple[list[int], int]:
    return event["rank"], event["offset"]
