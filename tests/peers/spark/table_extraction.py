"""Extractions into Delta and Iceberg tables, killed and recovered; delta-rs and PyIceberg read them back.

They run with the PySpark version for which both formats have jars.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from tests.integration.spark.killed_extraction import ONE_ATTEMPT, KilledExtraction, Point, java_needed_until
from tests.integration.spark.sessions import LOCAL
from tests.integration.spark.spark_cluster import StandaloneCluster
from tests.peers import jars
from tests.peers.spark import spark_versions


class IntoTable(KilledExtraction):
    """Extractions into a table whose files another engine reads."""

    java_is_needed = java_needed_until(Point(Step.CLOSE, Phase.END.value))
    jars_of: str
    conf_of_table: ClassVar[dict[str, str]]

    @classmethod
    def spark_conf(cls, folder: Path) -> dict[str, str]:
        found = ",".join(map(str, sorted(jars.jars(cls.jars_of).glob("*.jar"))))
        warehouse = str(folder / "warehouse")
        conf = {name: value.format(warehouse=warehouse) for name, value in cls.conf_of_table.items()}
        return {**conf, "spark.jars": found}

    def __init__(
        self, cluster: EmbeddedCluster, folder: Path, topic: str, master: str = ONE_ATTEMPT, **conf: str
    ) -> None:
        super().__init__(cluster, folder, topic, master, **{**self.spark_conf(folder), **conf})
        self.environ = spark_versions.environ(spark_versions.WITH_TABLES)

    def _records(self) -> Iterator[tuple[int, int, str]]:
        if not self._is_there():
            return
        for record in self.read().select(["partition", "offset", "value"]).to_pylist():
            yield record["partition"], record["offset"], record["value"]

    def _is_there(self) -> bool:
        raise NotImplementedError

    def read(self) -> pa.Table:
        raise NotImplementedError


class IntoDelta(IntoTable):
    format = "delta"
    jars_of = jars.SPARK_DELTA
    conf_of_table: ClassVar[dict[str, str]] = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",  # instead of 50 tasks for a log with few lines
    }

    def _is_there(self) -> bool:
        return any(Path(self._target).glob("_delta_log/*.json"))

    def read(self) -> pa.Table:
        return read_delta(self._target)


class IntoIceberg(IntoTable):
    format = "iceberg"
    jars_of = jars.SPARK_ICEBERG
    conf_of_table: ClassVar[dict[str, str]] = {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": "{warehouse}",
    }

    def __init__(
        self, cluster: EmbeddedCluster, folder: Path, topic: str, master: str = ONE_ATTEMPT, **conf: str
    ) -> None:
        super().__init__(cluster, folder, topic, master, **conf)
        self._folder_of_table = folder / "warehouse" / "db" / "records"
        self._target = "lake.db.records"

    def _is_there(self) -> bool:
        return self._folder_of_table.exists()

    def read(self) -> pa.Table:
        return read_iceberg(self._folder_of_table)


def read_delta(folder: str | Path) -> pa.Table:
    """Read the table with delta-rs."""
    import deltalake

    return deltalake.DeltaTable(str(folder)).to_pyarrow_table()


def read_iceberg(folder: Path) -> pa.Table:
    """Read the table with PyIceberg."""
    return iceberg_table(folder).scan().to_arrow()


def iceberg_table(folder: Path) -> Any:
    """A ``StaticTable`` of PyIceberg: the newest version of a table in a catalog of folders."""
    from pyiceberg.table import StaticTable

    versions = (folder / "metadata").glob("v*.metadata.json")
    newest = max(versions, key=lambda path: int(path.name[1:].split(".")[0]))
    return StaticTable.from_metadata(str(newest))


@pytest.fixture(scope="module")
def tables_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A Spark cluster of the PySpark version for which both table formats have jars."""
    os.environ.update(LOCAL)
    environ = spark_versions.environ(spark_versions.WITH_TABLES)
    with StandaloneCluster(tmp_path_factory.mktemp("spark"), environ=environ) as cluster:
        yield cluster
