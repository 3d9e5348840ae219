"""Extractions into Delta and Iceberg tables, killed between the steps; what the tables' commits do.

More kills: tests/soak/test_lake_kill.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from tests.integration.extraction_process import DRIVER
from tests.integration.killed_extraction import Point
from tests.peers import spark_versions
from tests.peers.table_extraction import IntoDelta, IntoIceberg, IntoTable

pytestmark = pytest.mark.peers

FOLLOWS = "the table has its records, the offsets follow"


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


@pytest.mark.parametrize(("table", "target"), [(IntoDelta, "{folder}/table"), (IntoIceberg, "lake.db.t")])
def test_a_plan_is_committed_once_and_never_after_a_fence(
    tmp_path: Path, table: type[IntoTable], target: str
) -> None:
    conf = json.dumps(table.spark_conf(tmp_path))
    command = [sys.executable, "-m", "tests.peers.table_process", table.format, target.format(folder=tmp_path), conf]
    environ = {**os.environ, **spark_versions.environ(spark_versions.WITH_TABLES)}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told.pop("another schema") != "accepted"
    assert told == {
        "before": None,
        "committed": [10, "records"],
        "by a second run": [10, "records"],
        "fenced": [10, "fence"],
        "by who slept": [10, "fence"],
        "refused": [10, None],
        "merged": [20, "records"],
    }
