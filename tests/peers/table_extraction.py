"""Extractions into Delta and Iceberg tables, killed and recovered; delta-rs and PyIceberg read them back.

By the PySpark for which both have jars.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from kafka_zk.embedded.cluster import EmbeddedCluster
from tests.integration.killed_extraction import KilledExtraction
from tests.peers import jars, spark_versions


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
