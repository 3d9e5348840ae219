"""Extractions into the S3 of ``s3.py``, killed and recovered; what a reader sees that lists the folder."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.extraction.steps import Step
from tests.integration.extraction_process import MIDDLE
from tests.integration.killed_extraction import ONE_ATTEMPT, KilledExtraction, Point
from tests.peers.s3 import S3, s3_server

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
        """Of what a reader sees that lists the folder."""
        prefix = self._target.removeprefix(f"s3a://{BUCKET}/")
        found = self._s3.keys(BUCKET, f"{prefix}/range=")
        return [key for key in found if not key.rpartition("/")[2].startswith("_") and not key.endswith("/")]

    def hidden(self) -> list[str]:
        prefix = self._target.removeprefix(f"s3a://{BUCKET}/")
        return [key for key in self._s3.keys(BUCKET, f"{prefix}/_kafka_zk_staging/") if not key.endswith("staging/")]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3_server(tmp_path_factory.mktemp("s3") / "log") as server:
        server.client.create_bucket(Bucket=BUCKET)
        yield server
