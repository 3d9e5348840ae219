"""Both writers, the executors' and Spark's, write the same schemas, rows and folders, and a retried task's records
once.
"""

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.extraction.file_lake import FileLake
from kafka_zk.spark_jobs.extraction.job import extract
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.undecodable import Staged
from kafka_zk.testing.plugin import MakeTopic
from tests.integration.spark.extraction_process import DRIVER, WORKER
from tests.integration.spark.killed_extraction import READING, THREE_ATTEMPTS, IntoParquet
from tests.integration.spark.sessions import spark  # noqa: F401

pytestmark = [pytest.mark.integration, pytest.mark.spark]

FIELDS = {
    "name": "string",
    "count": ["null", "int"],
    "big": "long",
    "ratio": "double",
    "small": "float",
    "yes": "boolean",
    "raw": "bytes",
    "at": {"type": "long", "logicalType": "timestamp-millis"},
    "local": {"type": "long", "logicalType": "local-timestamp-micros"},
    "day": {"type": "int", "logicalType": "date"},
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    "sum": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 4},
    "tags": {"type": "array", "items": "string"},
    "by_name": {"type": "map", "values": "long"},
    "inner": {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": ["null", "string"]}]},
}
SCHEMA: Any = {
    "type": "record",
    "name": "All",
    "fields": [{"name": name, "type": kind} for name, kind in FIELDS.items()],
}
AT_MS = 4_102_444_800_000  # in 2100, so that retention leaves the records alone
NAMES = ["a b", "a/b=c%", "", "ü{}[]^'\"#:?*\\~.-_", "A", "a"]
KEYS = [b"key", None, "grün".encode(), b"\xff\xfe", b"\xed\xa0\x80"]


def record(number: int) -> bytes:
    out = io.BytesIO()
    value = {
        "name": NAMES[number % len(NAMES)], "count": None if number % 3 else number, "big": -(2**60) + number,
        "ratio": number / 7, "small": 0.5, "yes": bool(number % 2), "raw": b"\xff\x00",
        "at": datetime(1969, 12, 31, 23, number, 59, 999_000, UTC), "local": datetime(2026, 1, 1, 0, number, 0, 1),
        "day": date(1, 1, 1 + number), "price": Decimal(-number) / 4, "sum": Decimal(10) ** 20 + number,
        "tags": ["x"] * (number % 3), "by_name": {"k": number} if number % 2 else {}, "inner": {"x": None},
    }  # fmt: skip
    fastavro.schemaless_writer(out, SCHEMA, value)
    return out.getvalue()


@pytest.fixture
def topic(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic) -> str:
    """A topic of two partitions with Avro values, other values and tombstones; keys are text or other bytes."""
    name = make_topic(partitions=2)
    values = [*map(record, range(12)), b"text", b"\xff\xfe", b"", *[None] * 4]
    with BlockingProducer(None, bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:
        for number, value in enumerate(values):
            key = KEYS[number % len(KEYS)]
            headers = [("h", b"%d" % number), ("g", None), ("h", b"last")] if number % 2 else []
            time_ms = AT_MS + number * 3_600_000 - 1
            producer.send(name, value, key, partition=number % 2, timestamp_ms=time_ms, headers=headers)
        producer.flush()
    return name


CASES: dict[str, dict[str, Any]] = {
    "bytes": {"include": ("headers", "timestamp_type"), "partition_by": ("hours(timestamp)",)},
    "text": {"decode": "string", "on_undecodable": "keep", "partition_by": ("partition",)},
    "avro": {"decode": "avro", "schema": json.dumps(SCHEMA), "on_undecodable": "keep"},
    "folders": {
        "decode": "avro", "schema": json.dumps(SCHEMA), "on_undecodable": "null", "select": "NAME, offset, day, at",
        "partition_by": ("NAME", "day", "months(at)"),
    },
    "letters": {"decode": "avro", "schema": json.dumps(SCHEMA), "dead_letter_topic": "letters"},
}  # fmt: skip


def files(target: str) -> dict[str, Any]:
    """The columns and rows of the Parquet files, by folder."""
    found: dict[str, Any] = {}
    for path in sorted(Path(target).glob("range=*/**/*.parquet")):
        folder = "/".join(path.relative_to(target).parts[1:-1])
        file = pq.ParquetFile(path)
        metadata = file.metadata.metadata[b"org.apache.spark.sql.parquet.row.metadata"]
        columns = str(file.schema).splitlines()[2:], json.loads(metadata)  # no address, no root name
        schema, rows = found.setdefault(folder, (columns, []))
        assert schema == columns
        rows.extend(file.read().to_pylist())
    return {folder: (schema, sorted(rows, key=repr)) for folder, (schema, rows) in found.items()}


def spark_rows(spark: Any, target: str) -> tuple[str, Sequence[str]]:  # noqa: F811
    frame = spark.read.parquet(target).drop("range")
    return frame.schema.simpleString(), sorted(repr(row) for row in frame.collect())


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> list[Staged]:
    """The ``Staged`` of each extraction in the test."""
    found: list[Staged] = []
    stage = FileLake.stage

    def recorded(lake: FileLake, *args: Any) -> Staged:
        found.append(stage(lake, *args))
        return found[-1]

    monkeypatch.setattr(FileLake, "stage", recorded)
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", CASES)
def test_both_write_the_same(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, topic: str, tmp_path: Path,  # noqa: F811
    staged: list[Staged], case: str,
) -> None:  # fmt: skip
    ours = Extraction(
        zookeeper=kafka_zk_cluster.zookeeper_connect, group=f"ours-{topic}", topics=(topic,),
        target=str(tmp_path / "ours"), **CASES[case],
    )  # fmt: skip
    sparks = replace(ours, group=f"sparks-{topic}", target=str(tmp_path / "sparks"), where="true")
    reports = [extract(spark, ours), extract(spark, sparks)]
    assert [each.writer for each in reports] == ["executors", "Spark, because of --where"]
    assert staged[0] == staged[1]._replace(spark_because=None)
    assert (staged[0].keys > 0) == (case != "bytes")
    assert files(ours.target) == files(sparks.target)
    assert spark_rows(spark, ours.target) == spark_rows(spark, sparks.target)


@pytest.mark.parametrize(
    "more", [{"include": ("timestamp_type",), "format": "json"}, {"key_format": "string", "on_undecodable": "null"}]
)
def test_columns_that_are_needed_but_not_selected(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, topic: str, tmp_path: Path, more: dict[str, Any]  # noqa: F811
) -> None:
    extraction = Extraction(
        zookeeper=kafka_zk_cluster.zookeeper_connect, group=f"g-{topic}", topics=(topic,),
        target=str(tmp_path / "lake"), select="offset", **more,
    )  # fmt: skip
    assert extract(spark, extraction).records == 19


def test_a_worker_or_the_driver_is_killed_while_executors_write(
    kafka_zk_cluster: EmbeddedCluster, tmp_path: Path, process_campaign_seed: int
) -> None:
    """Spark repeats the worker's task; the next run repeats the driver's work."""
    extraction = IntoParquet(kafka_zk_cluster, tmp_path, f"written-{process_campaign_seed}", THREE_ATTEMPTS)
    extraction.write(20)
    extraction.kill(READING, WORKER)
    extraction.check()
    extraction.write(20)
    extraction.kill(READING, DRIVER)
    extraction.recover()
    extraction.check()
    left = [path.name for path in (tmp_path / "lake").rglob("*") if "attempts" in path.name]
    assert not left
