"""Extractions into Delta and Iceberg tables, killed between the steps; delta-rs and PyIceberg read them back.

By the PySpark for which both have jars. ``make soak`` kills a driver at every step, 50 rounds for each.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from tests.integration.extraction_process import DRIVER
from tests.integration.killed_extraction import KILL_POINTS, KilledExtraction, Point
from tests.peers import jars, spark_versions

pytestmark = pytest.mark.peers

ROUNDS = 50
FOLLOWS = "the table has its records, the offsets follow"


class IntoTable(KilledExtraction):
    """Into a table whose files another engine reads."""

    jars_of: str
    conf_of_table: ClassVar[dict[str, str]]

    @classmethod
    def spark_conf(cls, folder: Path) -> dict[str, str]:
        found = ",".join(map(str, sorted(jars.jars(cls.jars_of).glob("*.jar"))))
        warehouse = str(folder / "warehouse")
        conf = {name: value.format(warehouse=warehouse) for name, value in cls.conf_of_table.items()}
        return {**conf, "spark.jars": found}

    def __init__(self, cluster: EmbeddedCluster, folder: Path, topic: str) -> None:
        super().__init__(cluster, folder, topic, **self.spark_conf(folder))
        self.environ = spark_versions.environ(spark_versions.WITH_TABLES)

    def _records(self) -> Iterator[tuple[int, int, str]]:
        for record in self.read().select(["partition", "offset", "value"]).to_pylist():
            yield record["partition"], record["offset"], record["value"]

    def read(self) -> pa.Table:
        raise NotImplementedError


class IntoDelta(IntoTable):
    format = "delta"
    jars_of = jars.SPARK_DELTA
    conf_of_table: ClassVar[dict[str, str]] = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }

    def read(self) -> pa.Table:
        import deltalake

        return deltalake.DeltaTable(self._target).to_pyarrow_table()


class IntoIceberg(IntoTable):
    format = "iceberg"
    jars_of = jars.SPARK_ICEBERG
    conf_of_table: ClassVar[dict[str, str]] = {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": "{warehouse}",
    }

    def __init__(self, cluster: EmbeddedCluster, folder: Path, topic: str) -> None:
        super().__init__(cluster, folder, topic)
        self._metadata = folder / "warehouse" / "db" / "records" / "metadata"
        self._target = "lake.db.records"

    def read(self) -> pa.Table:
        from pyiceberg.table import StaticTable

        versions = self._metadata.glob("v*.metadata.json")
        newest = max(versions, key=lambda path: int(path.name[1:].split(".")[0]))
        return StaticTable.from_metadata(str(newest)).scan().to_arrow()


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


@pytest.mark.soak
@pytest.mark.parametrize("table", [IntoDelta, IntoIceberg])
def test_fifty_kills(kafka_zk_cluster: EmbeddedCluster, tmp_path: Path, table: type[IntoTable]) -> None:
    extraction = table(kafka_zk_cluster, tmp_path, f"fifty-into-{table.format}")
    rng = random.Random(0)
    for _ in range(ROUNDS):
        extraction.write(20)
        extraction.kill(rng.choice(KILL_POINTS), DRIVER)
    extraction.recover()
    extraction.check()
