"""Recorded change events merged into Delta tables: run by the PySpark for which Delta has jars.

    python -m tests.peers.spark.cdc_process '{"conf": {"spark.jars": "..."}, "zookeeper": "...", "bootstrap": "...",
        "folder": "...", "tables": {TOPIC: [DATABASE, TABLE, SCHEMA, MAX_RECORDS, END]}}'

Of each table, one run ends early: with END "offsets" the first one, before its offsets move; with END "merges" the
second one, between its two merges. Others follow. Prints JSON: of each table the rows, how each round recovered, and
how many commits the table has.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.spark_jobs.cdc.changes import DEBEZIUM
from kafka_zk.spark_jobs.errors import SourceError
from kafka_zk.spark_jobs.extraction.job import extract
from kafka_zk.spark_jobs.extraction.merge.cdc_options import OWN_COLUMN
from kafka_zk.spark_jobs.extraction.merge.delta_merge import MergedDeltaTables
from kafka_zk.spark_jobs.extraction.planning import Extraction, Report
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from kafka_zk.spark_jobs.session import spark_session
from kafka_zk.testing.timings import SESSION_TIMEOUT_MS
from tests.integration.spark.sessions import LOCAL, SMALL
from tests.spark_jobs.cdc import recordings


class Killed(BaseException):
    """The run ends here."""


def kill_before_offsets(step: Step, phase: Phase) -> None:
    if (step, phase) == (Step.PUBLISH, Phase.END):
        raise Killed


def do_not_kill(step: Step, phase: Phase) -> None:
    pass


def write(bootstrap: str, topic: str, database: str, table: str) -> None:
    lines = [line for line in recordings.lines(database, "plain") if line["topic"].endswith(f".shop.{table}")]
    partitions = 1 + max(line["partition"] for line in lines)
    with BlockingAdmin(None, bootstrap_servers=bootstrap) as admin:
        admin.create_topic(topic, partitions, 1)
    with BlockingProducer(None, bootstrap_servers=bootstrap) as producer:
        for line in sorted(lines, key=lambda line: (line["partition"], line["offset"])):
            key, value = (None if line[name] is None else line[name].encode() for name in ("key", "value"))
            headers = [(name, text.encode()) for name, text in line["headers"]]
            producer.send(topic, value, key=key, partition=line["partition"], headers=headers)
        producer.flush()


def run(spark: Any, extraction: Extraction, end: str | None) -> Report | None:
    """The report; None for a run that ended early."""
    observe = kill_before_offsets if end == "offsets" else do_not_kill
    kill = patch.object(MergedDeltaTables, "_merge_rows", side_effect=Killed) if end == "merges" else nullcontext()
    try:
        with kill:
            return extract(spark, extraction, observe=observe)
    except Killed:
        return None


def merge(spark: Any, extraction: Extraction, end: str | None) -> dict[str, Any]:
    ends = iter([None, end] if end == "merges" else [end])
    recovered: list[str] = []
    while True:
        try:
            report = run(spark, extraction, next(ends, None))
        except SourceError as error:
            return {"refused": str(error)}
        recovered.append("killed" if report is None else report.recovered)
        if report is not None and not report.published:
            break
    rows = spark.read.format("delta").load(extraction.target).drop(OWN_COLUMN)
    commits = len(list(Path(extraction.target).glob("_delta_log/*.json")))
    return {"rows": [row.asDict() for row in rows.collect()], "recovered": recovered, "commits": commits}


def main(asked: dict[str, Any]) -> dict[str, Any]:
    spark = spark_session("cdc", "local[2]", {**SMALL, **asked["conf"]})
    spark.sparkContext.setLogLevel("OFF")
    told = {}
    for topic, (database, table, schema, max_records, end) in asked["tables"].items():
        write(asked["bootstrap"], topic, database, table)
        extraction = Extraction(
            zookeeper=asked["zookeeper"], group=f"group-{topic}", topics=(topic,), target=f"{asked['folder']}/{topic}",
            format="delta", cdc=DEBEZIUM, schema=schema, max_records=max_records, session_timeout_ms=SESSION_TIMEOUT_MS,
        )  # fmt: skip
        told[topic] = merge(spark, extraction, end)
    spark.stop()
    return told


if __name__ == "__main__":
    os.environ.update(LOCAL)
    print(json.dumps(main(json.loads(sys.argv[1])), default=str))
