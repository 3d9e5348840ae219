"""Commits of tables, and two concurrent extractions. Runs with the PySpark version for which table formats have jars.

    python -m tests.peers.spark.table_process '{"conf": {"spark.jars": "..."}, "tables": {"delta": FOLDER},
        "files": {"delta": [FOLDER, STAGING]}, "offsets": [BOOTSTRAP, FOLDER], "more offsets": true, "at once": PAIRS}'

``PAIRS`` are [step, fields, fields]: two extractions by their fields, in a session each, which wait for each other at
the beginning of the step. Prints JSON: for each table the result of ``observe``, for ``files`` that of
``executor_files.observe``, for ``offsets`` that of the observer in ``offsets_in_table``, and for each extraction the
number of its records and who wrote them, or the reason why it failed.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

from kafka_zk.spark_jobs.errors import SourceError
from kafka_zk.spark_jobs.extraction.job import extract
from kafka_zk.spark_jobs.extraction.manifest import Manifest, planned
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from kafka_zk.spark_jobs.extraction.table_compaction import compact_table
from kafka_zk.spark_jobs.extraction.table_formats import DELTA, ICEBERG
from kafka_zk.spark_jobs.extraction.table_lake import FENCE, RECORDS, DeltaTables, IcebergTables
from kafka_zk.spark_jobs.session import spark_session
from kafka_zk.spark_jobs.source.datasource import KafkaZkDataSource
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from kafka_zk.testing.timings import SESSION_TIMEOUT_MS
from tests.integration.spark.sessions import LOCAL, SMALL
from tests.peers.spark import executor_files, offsets_in_table

PARTITION_BY = {DELTA: ("days(timestamp)",), ICEBERG: ("hours(timestamp)", "bucket(4, value)")}
A_RULE = {
    DELTA: "ALTER TABLE delta.`{}` ADD CONSTRAINT rule CHECK (value <> '')",
    ICEBERG: "ALTER TABLE {} SET TBLPROPERTIES ('write.object-storage.enabled'='true')",
}
A_CHECKPOINT = 12
"""Number of commits after which Delta has made at least one checkpoint."""
_MEET_S = 120


def observe(spark: Any, format: str, target: str) -> dict[str, Any]:
    """The number of the table's rows after each operation."""
    tables = DeltaTables(spark) if format == DELTA else IcebergTables(spark)
    extraction = Extraction(
        zookeeper="z", group="g", topics=("t",), target=target, format=format, partition_by=PARTITION_BY[format]
    )
    frame = spark.sql("SELECT 'v' AS value, TIMESTAMP '2026-11-23 23:30:00' AS timestamp FROM range(10)")
    told: dict[str, Any] = {}

    def plan(sequence: int, attempt: str = "a") -> Manifest:
        return planned([OffsetRange("t", 0, 0, 10)], target, format, attempt, 0, "writer", sequence)

    def count() -> int:
        table = spark.read.format("delta").load(target) if format == DELTA else spark.table(target)
        return int(table.count())

    tables.prepare(target, frame.limit(0), PARTITION_BY[format])
    told["before"] = tables.commit_of(plan(1))
    tables.append(frame, plan(1), RECORDS, extraction)
    told["committed"] = [count(), tables.commit_of(plan(1))]
    tables.append(frame, plan(1, "b"), RECORDS, extraction)
    told["by a second run"] = [count(), tables.commit_of(plan(1))]
    tables.append(None, plan(2), FENCE, extraction)
    told["fenced"] = [count(), tables.commit_of(plan(2))]
    tables.append(frame, plan(2, "sleeper"), RECORDS, extraction)
    told["by who slept"] = [count(), tables.commit_of(plan(2))]
    wider = frame.selectExpr("*", "1 AS added")
    try:
        tables.append(wider, plan(3), RECORDS, extraction)
        told["another schema"] = "accepted"
    except Exception as error:
        told["another schema"] = type(error).__name__
    told["refused"] = [count(), tables.commit_of(plan(3))]
    tables.append(wider, plan(3, "c"), RECORDS, replace(extraction, merge_schema=True))
    told["merged"] = [count(), tables.commit_of(plan(3))]
    place = os.path.relpath(target) if format == DELTA else target  # as users type the name
    done = compact_table(spark, format, place, 1 << 20)
    told["compacted"] = [done.files_after < done.files_before, count(), tables.commit_of(plan(3))]
    tables.append(wider, plan(3, "d"), RECORDS, extraction)
    told["repeated then"] = [count(), tables.commit_of(plan(3))]
    for sequence in range(4, 4 + A_CHECKPOINT):
        tables.append(wider, plan(sequence), RECORDS, extraction)
    told["past a checkpoint"] = [count(), tables.commit_of(plan(3 + A_CHECKPOINT))]
    told["partitioned by"] = partition_columns(spark, format, target)
    asked = (f"file:{target}" if format == DELTA else target, wider.limit(0).schema, extraction)
    told["files of executors"] = tables.sparks_writer_because(*asked)
    spark.sql(A_RULE[format].format(target))
    told["with a rule"] = tables.sparks_writer_because(*asked)
    return told


def partition_columns(spark: Any, format: str, target: str) -> list[str]:
    """The partition columns with the table's own names."""
    if format == DELTA:
        return list(spark.sql(f"DESCRIBE DETAIL delta.`{target}`").first().partitionColumns)
    return list(spark.table(f"{target}.partitions").schema["partition"].dataType.names)


def at_once(spark: Any, met_at: Step, both: list[dict[str, Any]]) -> list[Any]:
    meeting = Barrier(len(both), timeout=_MEET_S)

    def meet(step: Step, phase: Phase) -> None:
        if (step, phase) == (met_at, Phase.BEGIN):
            meeting.wait()

    def run(fields: dict[str, Any]) -> Any:
        session = spark.newSession()
        session.dataSource.register(KafkaZkDataSource)
        try:
            report = extract(session, Extraction(**fields, session_timeout_ms=SESSION_TIMEOUT_MS), observe=meet)
            return [report.records, report.writer]
        except SourceError as error:
            return f"{type(error).__name__}: {error}"

    with ThreadPoolExecutor(len(both)) as threads:
        return list(threads.map(run, both))


def main(asked: dict[str, Any]) -> dict[str, Any]:
    spark = spark_session("tables", "local[2]", {**SMALL, **asked["conf"]})
    spark.sparkContext.setLogLevel("OFF")
    told: dict[str, Any] = {"files": {}, "at once": []}
    for format, target in asked["tables"].items():
        print(f"{format} {target}", file=sys.stderr)
        told[format] = observe(spark, format, target)
    for format, (target, staging) in asked["files"].items():
        print(f"{format} {target}", file=sys.stderr)
        told["files"][format] = executor_files.observe(spark, format, target, Path(staging))
    observer = offsets_in_table.Observer(spark, *asked["offsets"])
    told["offsets"] = observer.begin()
    told["more offsets"] = observer.go_on() if asked["more offsets"] else {}
    for name, *both in asked["at once"]:
        print(name, *(f"{fields['group']} {fields['target']}" for fields in both), file=sys.stderr)
        told["at once"].append(at_once(spark, Step[name], both))
    spark.stop()
    return told


if __name__ == "__main__":
    os.environ.update(LOCAL)
    print(json.dumps(main(json.loads(sys.argv[1]))))
