"""Extracts and merges into tables whose types are widened, with the PySpark version for which tables have jars.

    python -m tests.peers.spark.widening_process '{"conf": {"spark.jars": "..."}, "zookeeper": "...",
        "bootstrap": "...", "folder": "..."}'

Prints JSON. For each format, ``append`` and ``cdc``: the refusal without --widen, who wrote the files of each run, the
rows after all runs, and the rows after a compaction.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.spark_jobs.cdc.changes import KEYED
from kafka_zk.spark_jobs.errors import SourceError
from kafka_zk.spark_jobs.extraction.job import extract
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.table_compaction import compact_table
from kafka_zk.spark_jobs.extraction.table_formats import DELTA, ICEBERG
from kafka_zk.spark_jobs.session import spark_session
from kafka_zk.testing.timings import SESSION_TIMEOUT_MS
from tests.integration.spark.sessions import LOCAL, SMALL
from tests.integration.spark.widened_values import (
    CDC_NARROW,
    CDC_WIDE,
    NARROW,
    WIDE,
    Row,
    avro_schema,
    in_avro,
    in_json,
)

Record = tuple[bytes | None, bytes]


class Table:
    """One table, and the topic that is extracted into it."""

    def __init__(self, spark: Any, asked: dict[str, Any], kind: str, format: str) -> None:
        self._spark = spark
        self._bootstrap = asked["bootstrap"]
        self._topic = f"{kind}-{format}"
        name = f"{kind}_{format}"
        self.extraction = Extraction(
            zookeeper=asked["zookeeper"], group=self._topic, topics=(self._topic,), format=format,
            target=f"{asked['folder']}/{name}" if format == DELTA else f"lake.db.{name}",
            session_timeout_ms=SESSION_TIMEOUT_MS,
        )  # fmt: skip
        with BlockingAdmin(None, bootstrap_servers=self._bootstrap) as admin:
            admin.create_topic(self._topic, 1, 1)

    def write(self, records: list[Record]) -> None:
        with BlockingProducer(None, bootstrap_servers=self._bootstrap) as producer:
            for key, value in records:
                producer.send(self._topic, value, key=key, partition=0)
            producer.flush()

    def refused(self, extraction: Extraction) -> str:
        try:
            extract(self._spark, extraction)
        except SourceError as error:
            return f"{type(error).__name__}: {error}"
        return "accepted"

    def rows(self) -> list[list[Any]]:
        target = self.extraction.target
        is_delta = self.extraction.format == DELTA
        table = self._spark.read.format("delta").load(target) if is_delta else self._spark.table(target)
        return sorted([row.i, row.f, str(row.d)] for row in table.select("i", "f", "d").collect())

    def runs(
        self, narrow: Extraction, wide: Extraction, first: list[Record], second: list[Record], third: list[Record]
    ) -> dict[str, Any]:
        """``third``: records of the narrow types for a last run; empty for none."""
        self.write(first)
        writers = [extract(self._spark, narrow).writer]
        self.write(second)
        told = {"refused": self.refused(wide), "before": self.rows()}
        writers.append(extract(self._spark, replace(wide, widen=True)).writer)
        if third:
            self.write(third)
            writers.append(extract(self._spark, narrow).writer)
        told |= {"writers": writers, "rows": self.rows()}
        done = compact_table(self._spark, narrow.format, narrow.target, 1 << 20)
        return {**told, "compacted": done.files_after < done.files_before, "afterwards": self.rows()}


def appended(table: Table) -> dict[str, Any]:
    asked = replace(table.extraction, decode="avro")
    narrow, wide = (replace(asked, schema=avro_schema(wide=is_wide)) for is_wide in (False, True))

    def records(rows: Sequence[Row]) -> list[Record]:
        return [(None, in_avro(row, wide=rows is WIDE)) for row in rows]

    return table.runs(narrow, wide, records(NARROW), records(WIDE), records(NARROW))


def merged(table: Table) -> dict[str, Any]:
    """The second run changes row 1, and adds rows."""
    asked = replace(table.extraction, cdc=KEYED)
    narrow, wide = replace(asked, schema=CDC_NARROW), replace(asked, schema=CDC_WIDE)

    def records(rows: Sequence[Row], since: int) -> list[Record]:
        return [(b'{"id": %d}' % number, in_json(number, row)) for number, row in enumerate(rows, since)]

    return table.runs(narrow, wide, records(NARROW, 0), records(WIDE, 1), [])


def main(asked: dict[str, Any]) -> dict[str, Any]:
    spark = spark_session("widening", "local[2]", {**SMALL, **asked["conf"]})
    spark.sparkContext.setLogLevel("OFF")
    told = {}
    for format in (DELTA, ICEBERG):
        for kind, run in (("append", appended), ("cdc", merged)):
            print(kind, format, file=sys.stderr)
            told[f"{kind} {format}"] = run(Table(spark, asked, kind, format))
    spark.stop()
    return told


if __name__ == "__main__":
    os.environ.update(LOCAL)
    print(json.dumps(main(json.loads(sys.argv[1]))))
