"""The recorded topics of Debezium 3.5.0 on PostgreSQL 15.18 and MariaDB 10.11.19, and the tables they must lead to.

``recorded/DATABASE-VARIANT.jsonl.gz``: one record a line, as it was in the topic. ``recorded/expected``: the tables as
the databases print them at the end. Variants: ``plain`` (JSON without schemas), ``schema`` (with), ``modes`` (other
handling modes), ``flat`` and ``bare`` (unwrapped, with and without op), ``avro``.
"""

import base64
import gzip
import io
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from kafka_zk.spark_jobs.cdc.changes import Change
from kafka_zk.spark_jobs.cdc.readers import ChangeRecord, debezium_change, json_record, keyed_change

_RECORDED = Path(__file__).parent / "recorded"


@cache
def lines(database: str, variant: str) -> tuple[dict[str, Any], ...]:
    with gzip.open(_RECORDED / f"{database}-{variant}.jsonl.gz", "rt", encoding="utf-8") as recorded:
        return tuple(json.loads(line) for line in recorded)


def expected(database: str, table: str) -> list[dict[str, str | None]]:
    text = (_RECORDED / "expected" / f"{database}-{table}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@cache
def schemas() -> dict[int, Any]:
    import fastavro

    with gzip.open(_RECORDED / "avro-schemas.jsonl.gz", "rt", encoding="utf-8") as recorded:
        found = [json.loads(line) for line in recorded]
    return {each["id"]: fastavro.parse_schema(_document(each["schema"])) for each in found}


def _document(schema: Any) -> Any:
    return json.loads(schema) if isinstance(schema, str) else schema


def records(database: str, variant: str, table: str) -> list[ChangeRecord]:
    """Those of a table's topic, in the order of partitions and offsets."""
    found = [_record(line) for line in lines(database, variant) if line["topic"].endswith(f".shop.{table}")]
    return sorted(found, key=lambda record: (record.partition, record.offset))


def _record(line: dict[str, Any]) -> ChangeRecord:
    headers = dict(line["headers"])
    where = (line["topic"], line["partition"], line["offset"])
    if "value_base64" in line or "key_base64" in line:
        return ChangeRecord(*where, _avro(line.get("key_base64")), _avro(line.get("value_base64")), headers)
    return json_record(*where, line["key"], line["value"], headers)


def _avro(framed: str | None) -> Any:
    import fastavro

    if framed is None:
        return None
    data = base64.b64decode(framed)
    schema = schemas()[int.from_bytes(data[1:5], "big")]
    return fastavro.schemaless_reader(io.BytesIO(data[5:]), schema, None)


def changes(database: str, variant: str, table: str) -> list[Change]:
    """Read without types: values stay as the record has them."""
    read: Callable[[ChangeRecord], Change | None] = keyed_change if variant == "bare" else debezium_change
    found = [read(record) for record in records(database, variant, table)]
    return [change for change in found if change is not None]
