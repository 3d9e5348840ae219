"""Recorded change events merged into Delta tables: run by the PySpark for which Delta has jars.

    python -m tests.peers.spark.cdc_process '{"conf": {"spark.jars": "..."}, "zookeeper": "...", "bootstrap": "...",
        "folder": "...", "tables": {TOPIC: [DATABASE, VARIANT, TABLE, MODE, SCHEMA, MAX_RECORDS]}}'

The first round that merges is ended before its offsets move, and another one follows. Prints JSON: of each table the
rows, how each round recovered, and how many commits the table has.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.spark_jobs.errors import SourceError
from kafka_zk.spark_jobs.extraction.job import extract
from kafka_zk.spark_jobs.extraction.merge.cdc_options import OWN_COLUMN
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from kafka_zk.spark_jobs.session import spark_session
from kafka_zk.testing.timings import SESSION_TIMEOUT_MS
from tests.integration.spark.sessions import LOCAL, SMALL
from tests.spark_jobs.cdc import recordings


class Killed(BaseException):
    """The run ends here."""


class KillOnce:
    def __init__(self) -> None:
        self._is_due = True

    def __call__(self, step: Step, phase: Phase) -> None:
        if self._is_due and (step, phase) == (Step.PUBLISH, Phase.END):
            self._is_due = False
            raise Killed


def write(bootstrap: str, topic: str, database: str, variant: str, table: str) -> None:
    lines = [line for line in recordings.lines(database, variant) if line["topic"].endswith(f".shop.{table}")]
    partitions = 1 + max(line["partition"] for line in lines)
    with BlockingAdmin(None, bootstrap_servers=bootstrap) as admin:
        admin.create_topic(topic, partitions, 1)
    with BlockingProducer(None, bootstrap_servers=bootstrap) as producer:
        for line in sorted(lines, key=lambda line: (line["partition"], line["offset"])):
            key, value = (None if line[name] is None else line[name].encode() for name in ("key", "value"))
            headers = [(name, text.encode()) for name, text in line["headers"]]
            producer.send(topic, value, key=key, partition=line["partition"], headers=headers)
        producer.flush()


def merge(spark: Any, extraction: Extraction) -> dict[str, Any]:
    kill, recovered = KillOnce(), []
    while True:
        try:
            report = extract(spark, extraction, observe=kill)
        except Killed:
            recovered.append("killed")
            continue
        except SourceError as error:
            return {"refused": str(error)}
        recovered.append(report.recovered)
        print(f"{extraction.target}: {report.recovered}, {report.seconds:.1f} s", file=sys.stderr)
        if not report.published:
            break
    rows = spark.read.format("delta").load(extraction.target).drop(OWN_COLUMN)
    commits = len(list(Path(extraction.target).glob("_delta_log/*.json")))
    return {"rows": [row.asDict() for row in rows.collect()], "recovered": recovered, "commits": commits}


def main(asked: dict[str, Any]) -> dict[str, Any]:
    spark = spark_session("cdc", "local[2]", {**SMALL, **asked["conf"]})
    spark.sparkContext.setLogLevel("OFF")
    told = {}
    for topic, (database, variant, table, mode, schema, max_records) in asked["tables"].items():
        write(asked["bootstrap"], topic, database, variant, table)
        extraction = Extraction(
            zookeeper=asked["zookeeper"], group=f"group-{topic}", topics=(topic,), target=f"{asked['folder']}/{topic}",
            format="delta", cdc=mode, schema=schema, max_records=max_records, session_timeout_ms=SESSION_TIMEOUT_MS,
        )  # fmt: skip
        told[topic] = merge(spark, extraction)
    spark.stop()
    return told


if __name__ == "__main__":
    os.environ.update(LOCAL)
    print(json.dumps(main(json.loads(sys.argv[1])), default=str))
