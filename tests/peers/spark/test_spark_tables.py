"""Extractions into Delta and Iceberg tables, killed between the steps, and the properties of the tables' commits.

More kills: tests/soak/test_lake_kill.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet
import pytest

from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.audit.examination import AuditRequest, examine, exit_code
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from tests.integration.spark.extraction_process import DRIVER
from tests.integration.spark.killed_extraction import Point
from tests.peers.spark import spark_versions
from tests.peers.spark.table_extraction import (
    IntoDelta,
    IntoIceberg,
    IntoTable,
    iceberg_table,
    read_delta,
    read_iceberg,
)
from tests.peers.spark.table_process import A_CHECKPOINT

pytestmark = pytest.mark.peers

TIMEOUT_S = 900
PARTITION_COLUMNS = {"delta": ["timestamp_day"], "iceberg": ["timestamp_hour", "value_bucket"]}
WHY_SPARK = {
    "delta": (None, "the table's setting delta.constraints.rule"),
    "iceberg": ("the table's partitions", "the table's setting write.object-storage.enabled"),
}
"""The expected reason before and after a setting that executors do not support."""
OF_THE_SLEEPER = "spark.sql.parquet.outputTimestampType"
"""A setting in the session in which both extractions run."""
FOLLOWS = "the table has its records, the offsets follow"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("table", [IntoDelta, IntoIceberg])
def test_a_run_that_dies_between_the_table_and_zookeeper_is_followed(
    kafka_zk_cluster: EmbeddedCluster, tmp_path: Path, table: type[IntoTable]
) -> None:
    extraction = table(kafka_zk_cluster, tmp_path, f"into-{table.format}")
    extraction.write(20)
    extraction.kill(Point(Step.PUBLISH, Phase.END.value), DRIVER)
    assert extraction.read().num_rows == 20
    extraction.write(20)
    assert extraction.recover() == [FOLLOWS, "nothing"]
    extraction.check()


class Told(NamedTuple):
    """The output of ``table_process``, and the places of its tables and folders."""

    folder: Path
    said: dict[str, Any]
    topics: list[str]


PARTITION_BY = {"delta": ("topic", "hours(timestamp)"), "iceberg": ("hours(timestamp)",)}
PUBLISH, JOIN = Step.PUBLISH.name, Step.JOIN.name
EXECUTORS = "executors"
AT_ONCE = [  # format, target, step where they meet; group and topic of each; number of records of each
    ("delta", "delta.two_groups", PUBLISH, [("a", 0), ("b", 1)], [20, 20]),
    ("delta", "delta.one_group", JOIN, [("a", 0), ("a", 0)], [0, 20]),
    ("iceberg", "lake.db.two_groups", PUBLISH, [("a", 0), ("b", 1)], [20, 20]),
    ("iceberg", "lake.db.one_group", JOIN, [("a", 0), ("a", 0)], [0, 20]),
    ("parquet", "folder.one_topic", PUBLISH, [("a", 0), ("b", 0)], [20, 20]),
]


@pytest.fixture(scope="module")
def told(
    request: pytest.FixtureRequest, kafka_zk_cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Told:  # fmt: skip
    """The results of one session of the PySpark version for tables."""
    folder, topics = tmp_path_factory.mktemp("tables"), ["at-once-0", "at-once-1"]
    write_to(kafka_zk_cluster, topics)
    pairs = []
    for format, target, met_at, runs, _ in AT_ONCE:
        at = {"zookeeper": kafka_zk_cluster.zookeeper_connect, "format": format, "decode": "string", "wait_ms": 120_000}
        at["target"] = target if format == "iceberg" else str(folder / target)
        at["partition_by"] = PARTITION_BY.get(format, ())
        pairs.append(
            [met_at, *({**at, "group": f"{target}-{group}", "topics": [topics[topic]]} for group, topic in runs)]
        )
    both = [table.spark_conf(folder) for table in (IntoDelta, IntoIceberg)]
    conf = {**both[0], **both[1], "spark.jars": ",".join(each["spark.jars"] for each in both)}
    files = {"delta": [f"file:{folder}/f", f"{folder}/f-delta"], "iceberg": ["lake.db.f", f"{folder}/f-iceberg"]}
    tables = {"delta": str(folder / "t"), "iceberg": "lake.db.t"}
    asked = {"conf": conf, "tables": tables, "files": files, "at once": pairs,
             "offsets": [kafka_zk_cluster.bootstrap, str(folder / "offsets")],
             "more offsets": not request.config.getoption("slice")}
    command = [sys.executable, "-m", "tests.peers.spark.table_process", json.dumps(asked)]
    environ = {**os.environ, **spark_versions.environ(spark_versions.WITH_TABLES)}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return Told(folder, json.loads(done.stdout.splitlines()[-1]), topics)


def write_to(cluster: EmbeddedCluster, topics: list[str]) -> None:
    """Write 20 records to each topic; their values name it."""
    with BlockingAdmin(None, bootstrap_servers=cluster.bootstrap) as admin:
        for topic in topics:
            admin.create_topic(topic, 2, 1)
    with BlockingProducer(None, bootstrap_servers=cluster.bootstrap) as producer:
        for topic in topics:
            for number in range(20):
                producer.send(topic, f"{topic}-{number}".encode(), partition=number % 2)
        producer.flush()


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_plan_is_committed_once_and_never_after_a_fence(told: Told, format: str) -> None:
    said = dict(told.said[format])
    assert said.pop("another schema") != "accepted"
    assert said.pop("partitioned by") == PARTITION_COLUMNS[format]
    assert (said.pop("files of executors"), said.pop("with a rule")) == WHY_SPARK[format]
    assert said == {
        "before": None,
        "committed": [10, "records"],
        "by a second run": [10, "records"],
        "fenced": [10, "fence"],
        "by who slept": [10, "fence"],
        "refused": [10, None],
        "merged": [20, "records"],
        "compacted": [True, 20, "records"],
        "repeated then": [20, "records"],
        "past a checkpoint": [20 + 10 * A_CHECKPOINT, "records"],
    }


def test_spark_writes_times_as_executors_do(told: Told) -> None:
    """Compactions write times in the same way."""
    files = list((told.folder / "t").glob("timestamp_day=*/*.parquet"))
    found = {pyarrow.parquet.read_metadata(path).schema.column(1).physical_type for path in files}
    assert found == {"INT64"}


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_files_of_executors_are_committed_once_and_found_by_their_bounds(told: Told, format: str) -> None:
    """The row groups have a value without bounds, and a NaN, which is Spark's greatest number."""
    said = dict(told.said["files"][format])
    if format == "iceberg":
        assert said.pop("deleted") == [4, 2]
        assert said.pop("with other columns").endswith("because of the table's columns; run it again")
    assert said == {
        "committed": [4, "records"],
        "found": [1, 1],
        "by a second run": [4, "records"],
        "by who slept past a fence": [4, "fence"],
        "left by a failed commit": 0,
        "after a kill and a failure": [8, "records"],
    }


def check_fields_and_metrics(place: Path) -> None:
    """Every column of an Iceberg table's files has its id, and the table's metadata has its bounds."""
    table = iceberg_table(place)
    ids = [field.field_id for field in table.schema().fields]
    for file in table.inspect.files().to_pylist():
        schema = pyarrow.parquet.read_schema(file["file_path"])
        assert [int(field.metadata[b"PARQUET:field_id"]) for field in schema] == ids
        assert file["readable_metrics"]["offset"]["lower_bound"] == 0
        assert file["readable_metrics"]["value"]["value_count"] == file["record_count"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("number", range(len(AT_ONCE)), ids=[each[1] for each in AT_ONCE])
def test_of_two_writers_at_once_neither_loses_nor_doubles_a_record(told: Told, number: int) -> None:
    """Two groups meet when both have staged and neither has committed. If one group has two runs, the second waits for
    the first. Two groups that extract one topic into one folder meet before the rename."""
    format, target, _, runs, expected = AT_ONCE[number]
    assert sorted(told.said["at once"][number]) == [[count, EXECUTORS if count else ""] for count in expected]
    place = told.folder / target
    if format == "delta":
        table = read_delta(place)
    elif format == "iceberg":
        place = told.folder / "warehouse" / "db" / target.removeprefix("lake.db.")
        table = read_iceberg(place)
        check_fields_and_metrics(place)
    else:
        files = sorted(place.glob("range=*/**/*.parquet"))
        table = pa.concat_tables(pyarrow.parquet.read_table(path) for path in files)
        assert list((place / "_kafka_zk_staging").iterdir()) == [], "nothing is left of the staging"
    written = [f"{told.topics[topic]}-{record}" for topic in {topic for _, topic in runs} for record in range(20)]
    assert sorted(table["value"].to_pylist()) == sorted(written)
    report = examine(AuditRequest(str(place)), None)
    assert (report.format, exit_code(report), report.rows) == (format, 0, len(written))


NEW, NOTHING = [20, EXECUTORS], [0, ""]


def check_offsets(said: dict[str, Any], errors: dict[str, str], expected: dict[str, Any]) -> None:
    """Check for each run the table's rows and distinct rows after it, and its records and writer, or its error."""
    for name, error in errors.items():
        assert error in said[name].pop()
    assert said == expected


def test_without_zookeeper_the_table_has_the_offsets(told: Told) -> None:
    check_offsets(
        told.said["offsets"],
        {"slept while it committed": "has moved the table's offsets meanwhile"},
        {
            "planned": 20,
            "first": [[20, 20], NEW],
            "slept while it committed": [[40, 40], [20, f"Spark, because of {OF_THE_SLEEPER}"]],
            "mirrored": [20, 20],
        },
    )


@pytest.mark.weekly  # 40 CPU seconds
def test_nothing_but_a_commit_of_the_table_changes_its_offsets(told: Told) -> None:
    check_offsets(
        told.said["more offsets"],
        {
            "slept before it committed": "has moved the table's offset of in-table-0 to 40 meanwhile",
            "with another column": 'more is absent in the table, "integer" in the extraction',
            "in a table that forgets": "the table's setting delta.setTransactionRetentionDuration forgets the offsets",
            "of a recreated topic": "topic in-table was deleted and recreated since group in-table-lake was at offset",
        },
        {
            "again": [[40, 40], NOTHING],
            "by Spark's writer": [[60, 60], [20, "Spark, because of --where"]],
            "left by a dead run": False,
            "slept before it committed": [[80, 80], NEW],
            "after expired offsets": [[80, 80], NOTHING, [40, 40]],
            "after the log's clean-up": [[80, 80], NOTHING],
            "with another column": [[80, 80]],
            "in a table that forgets": [[80, 80]],
            "in one that does not": [[100, 100], NEW],
            "of a recreated topic": [[100, 100]],
            "from its beginning": [[120, 120], NEW],
        },
    )
