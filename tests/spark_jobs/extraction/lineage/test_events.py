"""The OpenLineage events of an extraction."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_zk.spark_jobs.extraction.lineage.events import LineageRun, dataset_of
from kafka_zk.spark_jobs.extraction.planning import Extraction, PartitionReport, Report

RUN_ID = "3f1a2b3c-0000-4000-8000-000000000000"
NOW_MS = 1_795_000_000_123


def run(**more: Any) -> LineageRun:
    fields = {"zookeeper": "z", "group": "lake", "topics": ("flights",), "target": "lake"}
    return LineageRun(RUN_ID, "prod", Extraction(**{**fields, **more}))


def report(*published: str) -> Report:
    rows = tuple(PartitionReport("flights", number, 0, 5, 5, 0) for number in range(2))
    return Report(rows, 10, 0, published, "nothing", brokers="b1:9092,b2:9092")


def test_a_run_begins_as_a_job_of_its_group() -> None:
    event = run().started(NOW_MS)
    assert (event["eventType"], event["eventTime"]) == ("START", "2026-11-18T11:06:40.123+00:00")
    assert event["run"] == {"runId": RUN_ID, "facets": {}}
    assert (event["job"]["namespace"], event["job"]["name"]) == ("prod", "extract.lake")
    assert (event["inputs"], event["outputs"]) == ([], [])


def test_it_completes_from_topics_into_the_folder_of_its_ranges() -> None:
    folders = [f"file:/data/lake/range=flights@{each}" for each in ("0-5-aa", "5-10-bb")]
    event = run().completed(NOW_MS, report(*folders))
    assert event["eventType"] == "COMPLETE"
    assert event["inputs"] == [{"namespace": "kafka://b1:9092", "name": "flights"}]
    (output,) = event["outputs"]
    assert (output["namespace"], output["name"]) == ("file", "/data/lake")
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 10


def test_a_table_is_named_by_its_folder_or_its_catalog() -> None:
    (delta,) = run(format="delta").completed(NOW_MS, report("s3a://bucket/flights range=flights@0-10-aa"))["outputs"]
    assert (delta["namespace"], delta["name"]) == ("s3://bucket", "flights")
    iceberg = run(format="iceberg", target="lake.db.flights")
    (table,) = iceberg.completed(NOW_MS, report("lake.db.flights range=flights@0-10-aa"))["outputs"]
    assert (table["namespace"], table["name"]) == ("prod", "lake.db.flights")


def test_a_run_without_new_records_has_no_output() -> None:
    assert run().completed(NOW_MS, report())["outputs"] == []


def test_a_failure_has_its_sentence() -> None:
    event = run().failed(NOW_MS, "no broker responds")
    assert event["eventType"] == "FAIL" and event["run"]["facets"]["errorMessage"]["message"] == "no broker responds"


@pytest.mark.parametrize(
    ("uri", "namespace", "name"),
    [
        ("file:/data/a%20b", "file", "/data/a b"),
        ("hdfs://n:8020/lake", "hdfs://n:8020", "/lake"),
        ("gs://bucket/a/b", "gs://bucket", "a/b"),
        ("abfss://c@account/lake", "abfss://c@account", "/lake"),
        ("s3a://bucket", "s3://bucket", "/"),
    ],
)
def test_folders_are_named_as_openlineage_names_them(uri: str, namespace: str, name: str) -> None:
    assert dataset_of(uri) == {"namespace": namespace, "name": name}
