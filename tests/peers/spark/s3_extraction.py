"""Extractions into the S3 of ``s3.py``, killed and recovered, and the files that a reader sees when listing the
folder."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from tests.integration.spark.extraction_process import MIDDLE
from tests.integration.spark.killed_extraction import ONE_ATTEMPT, KilledExtraction, Point, java_needed_until
from tests.peers.spark.s3 import S3, s3_server

BUCKET = "lake"
BETWEEN_FILES = Point(Step.PUBLISH, MIDDLE)


class IntoS3(KilledExtraction):
    format = "parquet"

    def __init__(
        self, cluster: EmbeddedCluster, folder: Path, topic: str, s3: S3, master: str = ONE_ATTEMPT, **conf: str
    ) -> None:
        super().__init__(cluster, folder, topic, master, **{**s3.conf(), **conf})
        self._s3 = s3
        self._target = f"s3a://{BUCKET}/{topic}"

    def _records(self) -> Iterator[tuple[int, int, str]]:
        for key in self.keys():
            for record in pq.read_table(io.BytesIO(self._s3.read(BUCKET, key))).to_pylist():
                yield record["partition"], record["offset"], record["value"]

    def keys(self) -> list[str]:
        """The keys that a reader sees when listing the folder."""
        prefix = self._target.removeprefix(f"s3a://{BUCKET}/")
        found = self._s3.keys(BUCKET, f"{prefix}/range=")
        return [key for key in found if not key.rpartition("/")[2].startswith("_") and not key.endswith("/")]

    def hidden(self) -> list[str]:
        prefix = self._target.removeprefix(f"s3a://{BUCKET}/")
        return [key for key in self._s3.keys(BUCKET, f"{prefix}/_kafka_zk_staging/") if not key.endswith("staging/")]


class IntoIcebergOnS3(KilledExtraction):
    """Extractions into a table of a folder catalog in the bucket; PyIceberg reads the table with its own client."""

    format = "iceberg"
    java_is_needed = java_needed_until(Point(Step.CLOSE, Phase.END.value))

    def __init__(
        self, cluster: EmbeddedCluster, folder: Path, topic: str, s3: S3, master: str = ONE_ATTEMPT, **conf: str
    ) -> None:
        catalog = {
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": f"s3a://{BUCKET}/warehouse",
        }
        super().__init__(cluster, folder, topic, master, **catalog, **conf)
        self._s3 = s3
        self._name = topic.replace("-", "_")
        self._target = f"lake.db.{self._name}"

    def _records(self) -> Iterator[tuple[int, int, str]]:
        from pyiceberg.table import StaticTable

        keys = self._s3.keys(BUCKET, f"warehouse/db/{self._name}/metadata/v")
        versions = [key for key in keys if key.endswith(".metadata.json")]
        if not versions:
            return
        newest = max(versions, key=lambda key: int(key.rpartition("/v")[2].split(".")[0]))
        table = StaticTable.from_metadata(f"s3a://{BUCKET}/{newest}", self._s3.pyiceberg)
        for record in table.scan().to_arrow().to_pylist():
            yield record["partition"], record["offset"], record["value"]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3_server(tmp_path_factory.mktemp("s3") / "log") as server:
        server.client.create_bucket(Bucket=BUCKET)
        yield server
