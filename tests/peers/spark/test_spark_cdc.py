"""Change events of PostgreSQL and MariaDB merged into tables, in rounds, with kills and beside other writers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from tests.peers.spark import spark_versions
from tests.peers.spark.table_extraction import IntoDelta, IntoIceberg
from tests.spark_jobs.cdc import recordings

pytestmark = pytest.mark.peers

TIMEOUT_S = 600
DOCUMENTS = "id INT, title STRING, body STRING, blob BINARY"
QUICK = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Otherwise, compiling the queries would take most of the time."""
CUSTOMERS = "id INT, name STRING, credit DECIMAL(12,2), created TIMESTAMP, note STRING"
BEFORE_OFFSETS = "killed before the offsets move"
ICEBERGS_ENDS = [
    "killed before it is published",
    "beside a foreign writer",
    "slept while its plan was merged",
    "killed before the second merge",
    BEFORE_OFFSETS,
    "slept while its plan was fenced",
]
TABLES: dict[str, Any] = {
    "documents": ("delta", "postgres", "documents", DOCUMENTS, None, [BEFORE_OFFSETS]),
    "cleared": ("delta", "mariadb", "cleared", "id INT, v STRING", 4, [None, "killed before Delta's second merge"]),
    "log_lines": ("delta", "postgres", "log_lines", "line STRING", None, []),
    "customers": ("iceberg", "postgres", "customers", CUSTOMERS, None, ["beside a foreign writer"]),
    "killed": ("iceberg", "postgres", "customers", CUSTOMERS, 10, ICEBERGS_ENDS),
    "emptied": ("iceberg", "postgres", "cleared", "id SMALLINT, v STRING", None, []),
}
"""``cleared`` is truncated in the second round."""
WEEKLY = ("customers", "killed", "emptied")


@pytest.fixture(scope="module")
def merged(
    request: pytest.FixtureRequest, kafka_zk_cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:  # fmt: skip
    folder, is_slice = tmp_path_factory.mktemp("cdc"), request.config.getoption("slice")
    both = [table.spark_conf(folder) for table in (IntoDelta, IntoIceberg)]
    asked = {
        "conf": {**both[0], **both[1], "spark.jars": ",".join(each["spark.jars"] for each in both), **QUICK},
        "zookeeper": kafka_zk_cluster.zookeeper_connect,
        "bootstrap": kafka_zk_cluster.bootstrap,
        "folder": str(folder),
        "audited": None if is_slice else "documents",
        "mixed": ["documents", "cleared"],
        "tables": {name: each for name, each in TABLES.items() if name not in WEEKLY or not is_slice},
    }
    command = [sys.executable, "-m", "tests.peers.spark.cdc_process", json.dumps(asked)]
    environ = {**os.environ, **spark_versions.environ(spark_versions.WITH_TABLES)}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("table", "columns"), [
    ("documents", ("id", "title")),
    ("cleared", ("id", "v")),
    pytest.param("customers", ("id", "name", "credit", "note"), marks=pytest.mark.weekly),
    pytest.param("killed", ("id", "name", "credit", "note"), marks=pytest.mark.weekly),
    pytest.param("emptied", ("id", "v"), marks=pytest.mark.weekly),
])  # fmt: skip
def test_the_merged_table_is_the_databases(
    merged: dict[str, Any], table: str, columns: tuple[str, ...]
) -> None:
    told, (_, database, source, *_) = merged[table], TABLES[table]
    assert "refused" not in told, told
    found = [tuple(None if row[name] is None else str(row[name]) for name in columns) for row in told["rows"]]
    assert sorted(found, key=str) == sorted(
        (tuple(row[name] for name in columns) for row in recordings.expected(database, source)), key=str
    )


def test_a_round_whose_offsets_did_not_move_is_followed_and_merged_once(merged: dict[str, Any]) -> None:
    recovered = merged["documents"]["recovered"]
    assert recovered[:2] == ["killed", "the table has its records, the offsets follow"]
    created, named, rounds = 1, 1, 1
    assert merged["documents"]["commits"] == created + named + rounds


def test_a_table_of_another_topic_is_refused(merged: dict[str, Any]) -> None:
    told = "is the table of topic documents; rows of topic cleared would replace its rows with equal keys"
    assert told in merged["documents"]["mixed"]


@pytest.mark.weekly
def test_a_truncate_whose_round_died_between_its_merges_is_repeated(merged: dict[str, Any]) -> None:
    assert merged["cleared"]["recovered"][1] == "killed"
    assert [row["id"] for row in merged["cleared"]["rows"]] == [1]


@pytest.mark.weekly
def test_placeholders_have_the_values_of_the_old_key(merged: dict[str, Any]) -> None:
    rows = {row["id"]: row for row in merged["documents"]["rows"]}
    expected = {row["id"]: row for row in recordings.expected("postgres", "documents")}
    assert rows[10]["body"] == expected["10"]["body"]
    assert rows[30]["body"] == expected["30"]["body"]


@pytest.mark.weekly
def test_an_audit_by_key_finds_what_the_merged_table_lacks(merged: dict[str, Any]) -> None:
    whole, lacking = merged["documents"]["audits"]
    assert (whole["comparedBy"], whole["findings"], whole["notChecked"]) == ("position", [], [])
    assert sum(each["agree"] for each in whole["partitions"]) == len({1, 2, 3, 10, 30})
    assert {each["kind"]: each["key"] for each in lacking["findings"]} == {
        "MISSING": '{"id": 10}', "ALTERED": '{"id": 2}'
    }  # fmt: skip


def test_keyless_tables_are_refused(merged: dict[str, Any]) -> None:
    assert "has no key with columns" in merged["log_lines"]["refused"]
    assert "\n" not in merged["log_lines"]["refused"]


@pytest.mark.weekly
def test_a_run_beside_a_foreign_writer_merges_again_and_loses_nothing(merged: dict[str, Any]) -> None:
    told = merged["customers"]
    assert (told["recovered"], told["of another"]) == (["nothing", "nothing"], 1)
    assert (len(told["plans"]), told["branches"]) == (1, ["main", "main"])


@pytest.mark.weekly
def test_a_plan_is_in_the_history_of_an_iceberg_table_once_however_its_runs_end(merged: dict[str, Any]) -> None:
    told = merged["killed"]
    fenced = told["recovered"].pop(len(ICEBERGS_ENDS) - 1)
    assert fenced.startswith("lake.db.killed has no commit of") and fenced.endswith("(found: fence)")
    repeated, forgotten = "the same ranges are extracted again", "its attempt is forgotten"
    assert told["recovered"] == ["killed", repeated, "nothing", "killed", "killed", forgotten, "nothing", "nothing"]
    assert [plan.rpartition("-")[2] for plan in told["plans"]] == ["0", "1", "2", "3", "4", "5"]
    assert (told["of another"], told["branches"]) == (1, ["main", "main"])
