"""The recorded topics of Debezium 3.5.0 on PostgreSQL 15.18 and MariaDB 10.11.19, and the tables that must result from
them.

``recorded/DATABASE-VARIANT.jsonl.gz``: one record per line, as it was in the topic. ``recorded/expected``: the tables
as the databases print them at the end. Variants: ``plain`` (JSON without schemas), ``schema`` (JSON with schemas),
``modes`` (other handling modes), ``flat`` and ``bare`` (unwrapped, with and without op), ``avro``.
"""

import base64
import gzip
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

from kafka_zk.spark_jobs.cdc.changes import Change
from kafka_zk.spark_jobs.cdc.readers import (
    ChangeRecord,
    Types,
    avro_record,
    debezium_change,
    json_record,
    keyed_change,
)
from kafka_zk.spark_jobs.values.schema_registry import Schema, SchemaRegistry
from kafka_zk.spark_jobs.values.value_decoder import AVRO, ValueDecoder

_RECORDED = Path(__file__).parent / "recorded"


@cache
def lines(database: str, variant: str) -> tuple[dict[str, Any], ...]:
    with gzip.open(_RECORDED / f"{database}-{variant}.jsonl.gz", "rt", encoding="utf-8") as recorded:
        return tuple(json.loads(line) for line in recorded)


def expected(database: str, table: str) -> list[dict[str, str | None]]:
    text = (_RECORDED / "expected" / f"{database}-{table}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


class _Registry:
    """Stands for ``SchemaRegistry``."""

    def by_id(self, schema_id: int) -> Schema | None:
        return _schemas().get(schema_id)


@cache
def _registered() -> tuple[dict[str, Any], ...]:
    with gzip.open(_RECORDED / "avro-schemas.jsonl.gz", "rt", encoding="utf-8") as recorded:
        return tuple(json.loads(line) for line in recorded)


@cache
def _schemas() -> dict[int, Schema]:
    return {each["id"]: Schema("AVRO", each["schema"]) for each in _registered()}


def versions(subject: str) -> list[Schema]:
    """Oldest first."""
    numbers = {number: each for each in _registered() for name, number in each["subjects"] if name == subject}
    return [Schema("AVRO", numbers[number]["schema"]) for number in sorted(numbers)]


@cache
def avro() -> ValueDecoder:
    return ValueDecoder(AVRO, None, cast("SchemaRegistry", _Registry()))


def records(database: str, variant: str, table: str) -> list[ChangeRecord]:
    """The records of a table's topic, in the order of partitions and offsets."""
    found = [_record(line) for line in lines(database, variant) if line["topic"].endswith(f".shop.{table}")]
    return sorted(found, key=lambda record: (record.partition, record.offset))


def _record(line: dict[str, Any]) -> ChangeRecord:
    headers = dict(line["headers"])
    where = (line["topic"], line["partition"], line["offset"])
    key, value = part(line, "key"), part(line, "value")
    if "value_base64" in line or "key_base64" in line:
        return avro_record(*where, key, value, headers, avro().decode)
    return json_record(*where, key, value, headers)


def part(line: dict[str, Any], name: str) -> bytes | None:
    """The key or the value."""
    if (coded := line.get(f"{name}_base64")) is not None:
        return base64.b64decode(coded)
    text: str | None = line.get(name)
    return None if text is None else text.encode()


def changes(database: str, variant: str, table: str, types: Types | None = None) -> list[Change]:
    """Without types, values stay as the record has them."""
    read: Callable[[ChangeRecord, Types | None], Change | None] = keyed_change if variant == "bare" else debezium_change
    found = [read(record, types) for record in records(database, variant, table)]
    return [change for change in found if change is not None]
