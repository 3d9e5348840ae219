"""Delta and Iceberg tables whose types are widened: values at the limits, read by several readers.

Folders: tests/integration/spark/test_widened_folder.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from tests.integration.spark.widened_values import CHANGES, NARROW, WIDE, Row
from tests.peers.spark import spark_versions
from tests.peers.spark.table_extraction import IntoDelta, IntoIceberg, read_delta, read_iceberg

pytestmark = [pytest.mark.peers, pytest.mark.weekly]

TIMEOUT_S = 600
QUICK = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Otherwise, compiling the queries would take most of the time."""


class Told(NamedTuple):
    folder: Path
    said: dict[str, Any]


@pytest.fixture(scope="module")
def told(kafka_zk_cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("widened")
    both = [table.spark_conf(folder) for table in (IntoDelta, IntoIceberg)]
    conf = {**both[0], **both[1], "spark.jars": ",".join(each["spark.jars"] for each in both), **QUICK}
    asked = {"conf": conf, "zookeeper": kafka_zk_cluster.zookeeper_connect, "bootstrap": kafka_zk_cluster.bootstrap,
             "folder": str(folder)}  # fmt: skip
    command = [sys.executable, "-m", "tests.peers.spark.widening_process", json.dumps(asked)]
    environ = {**os.environ, **spark_versions.environ(spark_versions.WITH_TABLES)}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return Told(folder, json.loads(done.stdout.splitlines()[-1]))


def told_rows(rows: list[Row]) -> list[list[Any]]:
    return sorted([number, double, str(decimal)] for number, double, decimal in rows)


SPARK = "Spark, because of"
EXPECTED = {
    "append": (NARROW, [*NARROW, *WIDE, *NARROW]),
    "cdc": (NARROW, [NARROW[0], *WIDE]),
}
WRITERS = {
    "append delta": ["executors", *[f"{SPARK} the table's feature typeWidening"] * 2],
    "append iceberg": ["executors", "executors", f"{SPARK} the table's columns"],
    "cdc delta": [f"{SPARK} --cdc"] * 2,
    "cdc iceberg": [f"{SPARK} --cdc"] * 2,
}


@pytest.mark.parametrize("table", WRITERS)
def test_a_widened_table_has_every_value_and_is_compacted(told: Told, table: str) -> None:
    said = dict(told.said[table])
    before, rows = EXPECTED[table.partition(" ")[0]]
    assert f"has columns of other types ({CHANGES}): give --widen" in said.pop("refused")
    assert said == {
        "before": told_rows(before),
        "writers": WRITERS[table],
        "rows": told_rows(rows),
        "compacted": table != "cdc delta",  # its merge has rewritten the only file, so one file is left
        "afterwards": told_rows(rows),
    }


@pytest.mark.parametrize("kind", EXPECTED)
def test_pyiceberg_reads_a_widened_table(told: Told, kind: str) -> None:
    table = read_iceberg(told.folder / "warehouse" / "db" / f"{kind}_iceberg")
    rows = zip(*(table[name].to_pylist() for name in ("i", "f", "d")), strict=True)
    assert told_rows(list(rows)) == told_rows(EXPECTED[kind][1])


@pytest.mark.parametrize("kind", EXPECTED)
def test_delta_rs_refuses_a_widened_table(told: Told, kind: str) -> None:
    """If it reads such a table one day, the documentation must say so."""
    from deltalake.exceptions import DeltaProtocolError

    with pytest.raises(DeltaProtocolError, match="typeWidening"):
        read_delta(told.folder / f"{kind}_delta")
