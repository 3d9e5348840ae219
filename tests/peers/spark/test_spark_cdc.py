"""Change events of PostgreSQL and MariaDB merged into Delta tables, in rounds, with a kill before the offsets move."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from tests.peers.spark import spark_versions
from tests.peers.spark.table_extraction import IntoDelta
from tests.spark_jobs.cdc import recordings

pytestmark = pytest.mark.peers

TIMEOUT_S = 300
DOCUMENTS = "id INT, title STRING, body STRING, blob BINARY"
QUICK = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Compiling the queries would take most of the time."""
TABLES = {
    "documents": ("postgres", "documents", DOCUMENTS, None, "offsets"),
    "cleared": ("mariadb", "cleared", "id INT, v STRING", 4, "merges"),  # the truncate is in the second round
    "log_lines": ("postgres", "log_lines", "line STRING", None, None),
}


@pytest.fixture(scope="module")
def merged(kafka_zk_cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("cdc")
    asked = {
        "conf": {**IntoDelta.spark_conf(folder), **QUICK},
        "zookeeper": kafka_zk_cluster.zookeeper_connect,
        "bootstrap": kafka_zk_cluster.bootstrap,
        "folder": str(folder),
        "tables": TABLES,
    }
    command = [sys.executable, "-m", "tests.peers.spark.cdc_process", json.dumps(asked)]
    environ = {**os.environ, **spark_versions.environ(spark_versions.WITH_TABLES)}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("table", "database", "columns"), [
    ("documents", "postgres", ("id", "title")),
    ("cleared", "mariadb", ("id", "v")),
])  # fmt: skip
def test_the_merged_table_is_the_databases(
    merged: dict[str, Any], table: str, database: str, columns: tuple[str, ...]
) -> None:
    told = merged[table]
    assert "refused" not in told, told
    found = [tuple(None if row[name] is None else str(row[name]) for name in columns) for row in told["rows"]]
    assert sorted(found, key=str) == sorted(
        (tuple(row[name] for name in columns) for row in recordings.expected(database, table)), key=str
    )


def test_a_round_whose_offsets_did_not_move_is_followed_and_merged_once(merged: dict[str, Any]) -> None:
    recovered = merged["documents"]["recovered"]
    assert recovered[:2] == ["killed", "the table has its records, the offsets follow"]
    created, rounds = 1, 1
    assert merged["documents"]["commits"] == created + rounds


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


def test_keyless_tables_are_refused(merged: dict[str, Any]) -> None:
    assert "has no key with columns" in merged["log_lines"]["refused"]
    assert "\n" not in merged["log_lines"]["refused"]
