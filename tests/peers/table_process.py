"""What the commits of tables do, without Kafka: run by the PySpark for which tables have jars, prints JSON.

    python -m tests.peers.table_process delta FOLDER '{"spark.jars": "..."}'
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from kafka_zk.spark_jobs.extraction.manifest import Manifest, planned
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.table_formats import DELTA
from kafka_zk.spark_jobs.extraction.table_lake import FENCE, RECORDS, DeltaTables, IcebergTables
from kafka_zk.spark_jobs.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.session import spark_session
from tests.integration.spark import LOCAL, SMALL

PARTITION_BY = ("days(timestamp)",)


def observe(spark: Any, format: str, target: str) -> dict[str, Any]:
    """Counts of the table's rows after each thing that is done to it."""
    tables = DeltaTables(spark) if format == DELTA else IcebergTables(spark)
    asked = {"zookeeper": "z", "group": "g", "topics": ("t",), "target": target, "format": format}
    extraction = Extraction(**asked, partition_by=PARTITION_BY)
    frame = spark.sql("SELECT 'v' AS value, TIMESTAMP '2026-11-23 23:30:00' AS timestamp FROM range(10)")
    told: dict[str, Any] = {}

    def plan(sequence: int, attempt: str = "a") -> Manifest:
        return planned([OffsetRange("t", 0, 0, 10)], target, format, attempt, 0, "writer", sequence)

    def count() -> int:
        table = spark.read.format("delta").load(target) if format == DELTA else spark.table(target)
        return int(table.count())

    tables.prepare(target, frame.limit(0), PARTITION_BY)
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
    tables.append(wider, plan(3, "c"), RECORDS, Extraction(**asked, partition_by=PARTITION_BY, merge_schema=True))
    told["merged"] = [count(), tables.commit_of(plan(3))]
    return told


if __name__ == "__main__":
    os.environ.update(LOCAL)
    session = spark_session("tables", "local[1]", {**SMALL, **json.loads(sys.argv[3])})
    session.sparkContext.setLogLevel("OFF")
    print(json.dumps(observe(session, sys.argv[1], sys.argv[2])))
    session.stop()
