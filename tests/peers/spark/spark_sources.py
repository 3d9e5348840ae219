"""Our Spark source and Spark's own read the same topics in one session."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa

from kafka_zk.spark_jobs.session import spark_session
from tests.integration.spark.sessions import LOCAL, SMALL, end_java
from tests.peers import jars

OURS, SPARKS = "kafka_zk", "kafka"
_PLACE = ["topic", "partition", "offset"]
#: Spark's own source retries permanent errors three times, a second apart.
_IMPATIENT = {
    "fetchOffset.numRetries": "1",
    "fetchOffset.retryIntervalMs": "1",
    "kafkaConsumer.pollTimeoutMs": "60000",
}


class Piece(NamedTuple):
    """The rows that one task read."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    record_count: int


class Found(NamedTuple):
    """The rows that one source read, sorted by position. ``error``: why it refused or failed."""

    rows: pa.Table | None
    pieces: list[Piece]
    schema: Any
    error: str = ""


@contextmanager
def both_sources() -> Iterator[Any]:
    """A session of local[2] with both sources."""
    os.environ.update(LOCAL)
    end_java()
    kafka_jars = ",".join(map(str, sorted(jars.jars(jars.SPARK_KAFKA).glob("*.jar"))))
    session = spark_session("differential", "local[2]", {**SMALL, "spark.jars": kafka_jars})
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


def read(session: Any, source: str, bootstrap: str, options: Mapping[str, str]) -> Found:
    """Read all columns; timestamps are in microseconds, so that years after 9999 are compared, too."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    reader = session.read.format(source).option("kafka.bootstrap.servers", bootstrap)
    if source == OURS:  # ours reads only committed records by default
        reader = reader.option("isolation.level", "read_uncommitted")
    for name, value in {**_IMPATIENT, **options}.items():
        reader = reader.option(name, value)
    try:
        frame = reader.load()
        columns = ["unix_micros(timestamp) AS timestamp" if name == "timestamp" else name for name in frame.columns]
        table = frame.selectExpr(*columns, "spark_partition_id() AS task").toArrow()
    except (PySparkException, Py4JJavaError) as failure:
        return Found(None, [], None, str(failure))
    ordered = table.sort_by([(name, "ascending") for name in _PLACE])
    return Found(ordered.drop_columns(["task"]), _pieces(table), frame.schema)


def _pieces(table: pa.Table) -> list[Piece]:
    """One piece for each task and partition. Raises: AssertionError unless each task returned its offsets in order."""
    offsets: dict[tuple[str, int, int], list[int]] = {}
    for row in table.select([*_PLACE, "task"]).to_pylist():
        offsets.setdefault((row["topic"], row["partition"], row["task"]), []).append(row["offset"])
    for place, read_offsets in offsets.items():
        assert read_offsets == sorted(set(read_offsets)), f"{place} is out of order"
    return sorted(
        Piece(topic, partition, each[0], each[-1], len(each)) for (topic, partition, _), each in offsets.items()
    )


def difference(ours: Found, sparks: Found, *, same_tasks: bool = False) -> str:
    """Empty if both found the same rows (``same_tasks``: in the same tasks), or both failed; else the first
    difference."""
    if ours.rows is None or sparks.rows is None:
        if (ours.rows is None) == (sparks.rows is None):
            return ""
        return f"only one failed: ours {ours.error[:2000]!r}, Spark's own {sparks.error[:2000]!r}"
    if ours.schema != sparks.schema:
        return f"schema {ours.schema}, Spark's own has {sparks.schema}"
    if not ours.rows.equals(sparks.rows):
        return _first_row(ours.rows, sparks.rows)
    if same_tasks and ours.pieces != sparks.pieces:
        odd = sorted(set(ours.pieces) ^ set(sparks.pieces))
        return f"{len(ours.pieces)} tasks had records, Spark's own {len(sparks.pieces)}: {odd[:6]}"
    return ""


def _first_row(ours: pa.Table, sparks: pa.Table) -> str:
    if ours.schema != sparks.schema:
        return f"Arrow schema {ours.schema}, Spark's own has {sparks.schema}"
    for mine, other in zip(ours.to_pylist(), sparks.to_pylist(), strict=False):
        if mine != other:
            names = [name for name in mine if mine[name] != other[name]]
            return f"row {_short(mine, names)}, Spark's own has {_short(other, names)}"
    return f"{ours.num_rows} rows, Spark's own has {sparks.num_rows}"


def _short(row: Mapping[str, Any], names: list[str]) -> dict[str, str]:
    return {name: repr(row[name])[:200] for name in dict.fromkeys([*_PLACE, *names])}
