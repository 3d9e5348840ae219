"""Merges recorded change events into tables, with the PySpark version for which Delta and Iceberg have jars.

    python -m tests.peers.spark.cdc_process '{"conf": {"spark.jars": "..."}, "zookeeper": "...", "bootstrap": "...",
        "folder": "...", "audited": TOPIC or null, "mixed": [TOPIC, OTHER_TOPIC],
        "tables": {TOPIC: [FORMAT, DATABASE, TABLE, SCHEMA, MAX_RECORDS, [END, ...]]}}'

The first runs into a table end early, or meet another writer, as ENDS says; others follow. Prints JSON: for each table,
the rows, how each run ended, the names of plans in its history, and the branches that are left; for the audited one,
the findings before and after a row is lost; for the mixed one, why the other topic is not merged into its table.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.spark_jobs.audit.keyed.key_audit import KeyRequest, audit_keys
from kafka_zk.spark_jobs.audit.topic_log import TopicLog
from kafka_zk.spark_jobs.cdc.changes import DEBEZIUM
from kafka_zk.spark_jobs.errors import ExtractionFailed, SourceError
from kafka_zk.spark_jobs.extraction.job import extract
from kafka_zk.spark_jobs.extraction.manifest import Manifest
from kafka_zk.spark_jobs.extraction.merge import iceberg_merge
from kafka_zk.spark_jobs.extraction.merge.cdc_options import OWN_COLUMN
from kafka_zk.spark_jobs.extraction.merge.delta_merge import MergedDeltaTables
from kafka_zk.spark_jobs.extraction.merge.iceberg_merge import DELETED_SUFFIX, MergedIcebergTables
from kafka_zk.spark_jobs.extraction.planning import Extraction, Report
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from kafka_zk.spark_jobs.extraction.table_lake import FENCE, RECORDS
from kafka_zk.spark_jobs.session import spark_session
from kafka_zk.spark_jobs.source.cluster_client import ClientSettings
from kafka_zk.testing.timings import SESSION_TIMEOUT_MS
from tests.integration.spark.sessions import LOCAL, SMALL
from tests.spark_jobs.cdc import recordings

PATIENCE_MS = 30_000


class Killed(BaseException):
    """The run ends here."""


def kill_before_offsets(step: Step, phase: Phase) -> None:
    if (step, phase) == (Step.PUBLISH, Phase.END):
        raise Killed


def do_not_kill(step: Step, phase: Phase) -> None:
    pass


Other = Callable[[MergedIcebergTables, Any, Manifest, Extraction], object]


def meanwhile(others: Other) -> AbstractContextManager[Any]:
    """Another writer commits to the Iceberg table once, after this run has merged into its branch."""
    append, fast_forward = MergedIcebergTables.append, iceberg_merge._Branch._fast_forward
    waiting: list[Callable[[], object]] = []

    def noted(tables: MergedIcebergTables, frame: Any, manifest: Manifest, what: str, asked: Extraction) -> None:
        if not waiting:
            waiting.append(lambda: others(tables, frame, manifest, asked))
        append(tables, frame, manifest, what, asked)

    def after_the_other(branch: Any, merged: int) -> bool:
        if waiting and waiting[0] is not done:
            other, waiting[0] = waiting[0], done
            other()
        return fast_forward(branch, merged)

    stack = ExitStack()
    stack.enter_context(patch.object(MergedIcebergTables, "append", noted))
    stack.enter_context(patch.object(iceberg_merge._Branch, "_fast_forward", after_the_other))
    return stack


def done() -> None:
    pass


def same_plan(tables: MergedIcebergTables, frame: Any, manifest: Manifest, asked: Extraction) -> None:
    tables.append(frame, replace(manifest, staging=f"{manifest.staging}other"), RECORDS, asked)


def fence(tables: MergedIcebergTables, frame: Any, manifest: Manifest, asked: Extraction) -> None:
    tables.append(None, replace(manifest, staging=f"{manifest.staging}other"), FENCE, asked)


def foreign(tables: MergedIcebergTables, frame: Any, manifest: Manifest, asked: Extraction) -> None:
    tables._spark.sql(f"INSERT INTO {manifest.target} (id) VALUES ({OF_ANOTHER})")


def with_its_branch_left() -> AbstractContextManager[Any]:
    killed = {"_fast_forward": Mock(side_effect=Killed), "_remove_branches": Mock()}
    return patch.multiple(iceberg_merge._Branch, **killed)


OF_ANOTHER = -1
ENDS: dict[str | None, Callable[[], AbstractContextManager[Any]]] = {
    None: nullcontext,
    "killed before the offsets move": nullcontext,
    "killed before Delta's second merge": lambda: patch.object(MergedDeltaTables, "_merge_rows", side_effect=Killed),
    "killed before the second merge": lambda: patch.object(MergedIcebergTables, "_merge_rows", side_effect=Killed),
    "killed before it is published": with_its_branch_left,
    "beside a foreign writer": lambda: meanwhile(foreign),
    "slept while its plan was merged": lambda: meanwhile(same_plan),
    "slept while its plan was fenced": lambda: meanwhile(fence),
}


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


def run(spark: Any, extraction: Extraction, end: str | None) -> Report | str:
    """Run once. Returns the report, or how the run ended early."""
    observe = kill_before_offsets if end == "killed before the offsets move" else do_not_kill
    try:
        with ENDS[end]():
            return extract(spark, extraction, observe=observe)
    except Killed:
        return "killed"
    except ExtractionFailed as error:
        if end is None:  # a second attempt would fail again
            raise
        return str(error)


def merge(spark: Any, extraction: Extraction, ends: Sequence[str | None]) -> dict[str, Any]:
    left = list(ends)
    recovered: list[str] = []
    while True:
        try:
            report = run(spark, extraction, left.pop(0) if left else None)
        except SourceError as error:
            return {"refused": str(error)}
        recovered.append(report if isinstance(report, str) else report.recovered)
        if isinstance(report, Report) and not report.published and not left:
            break
    told = told_of_delta if extraction.format == "delta" else told_of_iceberg
    return {"recovered": recovered, **told(spark, extraction.target)}


def told_of_delta(spark: Any, target: str) -> dict[str, Any]:
    rows = spark.read.format("delta").load(target).drop(OWN_COLUMN)
    commits = len(list(Path(target).glob("_delta_log/*.json")))
    return {"rows": [row.asDict() for row in rows.collect()], "commits": commits}


def told_of_iceberg(spark: Any, target: str) -> dict[str, Any]:
    rows = [row.asDict() for row in spark.table(target).drop(OWN_COLUMN).collect()]
    history = spark.sql(
        f"SELECT summary['wap.id'] AS plan, summary['published-wap-id'] AS fence FROM {target}.snapshots "
        f"JOIN {target}.history USING (snapshot_id) WHERE is_current_ancestor"
    ).collect()
    refs = [row.name for each in (target, f"{target}{DELETED_SUFFIX}") for row in spark.table(f"{each}.refs").collect()]
    return {
        "rows": [row for row in rows if row["id"] != OF_ANOTHER],
        "of another": sum(row["id"] == OF_ANOTHER for row in rows),
        "plans": [row.plan or row.fence for row in history if row.plan or row.fence],
        "branches": sorted(refs),
    }


def audit(spark: Any, bootstrap: str, extraction: Extraction) -> list[dict[str, Any]]:
    """Reports about the whole table, and about the table without row 10 and with another title in row 2."""
    (topic,) = extraction.topics
    request = KeyRequest(extraction.target, topic, ("id",), DEBEZIUM, extraction.schema)
    reports = []
    with TopicLog(ClientSettings(bootstrap, patience_ms=PATIENCE_MS), print) as log:
        reports.append(audit_keys(spark, request, log).as_document())
        spark.sql(f"DELETE FROM delta.`{extraction.target}` WHERE id = 10")
        spark.sql(f"UPDATE delta.`{extraction.target}` SET title = 'another' WHERE id = 2")
        reports.append(audit_keys(spark, request, log).as_document())
    return reports


def main(asked: dict[str, Any]) -> dict[str, Any]:
    spark = spark_session("cdc", "local[2]", {**SMALL, **asked["conf"]})
    spark.sparkContext.setLogLevel("OFF")
    told: dict[str, dict[str, Any]] = {}
    extractions: dict[str, Extraction] = {}
    for topic, (format, database, table, schema, max_records, ends) in asked["tables"].items():
        write(asked["bootstrap"], topic, database, table)
        target = f"{asked['folder']}/{topic}" if format == "delta" else f"lake.db.{topic}"
        extraction = Extraction(
            zookeeper=asked["zookeeper"], group=f"group-{topic}", topics=(topic,), target=target, format=format,
            cdc=DEBEZIUM, schema=schema, max_records=max_records, session_timeout_ms=SESSION_TIMEOUT_MS,
        )  # fmt: skip
        extractions[topic] = extraction
        told[topic] = merge(spark, extraction, ends)
        if topic == asked["audited"]:
            told[topic]["audits"] = audit(spark, asked["bootstrap"], extraction)
    mixed, other = asked["mixed"]
    told[mixed]["mixed"] = merge(spark, replace(extractions[mixed], topics=(other,), group="mixed"), ())["refused"]
    spark.stop()
    return told


if __name__ == "__main__":
    os.environ.update(LOCAL)
    print(json.dumps(main(json.loads(sys.argv[1])), default=str))
