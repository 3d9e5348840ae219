"""Extractions into a real S3 by Spark's own client, killed between the steps; read back by pyarrow.

moto's server is the S3; ``make soak`` kills a driver at every step, 50 rounds.
"""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from tests.integration.extraction_process import DRIVER, MIDDLE
from tests.integration.killed_extraction import KILL_POINTS, KilledExtraction, Point
from tests.peers.s3 import S3, s3_server

pytestmark = pytest.mark.peers

BUCKET = "lake"
BETWEEN_FILES = Point(Step.PUBLISH, MIDDLE)
ROUNDS = 50


class IntoS3(KilledExtraction):
    format = "parquet"

    def __init__(self, cluster: EmbeddedCluster, folder: Path, topic: str, s3: S3) -> None:
        super().__init__(cluster, folder, topic, **s3.conf())
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


def test_driver_is_killed_between_two_files(
    kafka_zk_cluster: EmbeddedCluster, s3: S3, tmp_path: Path
) -> None:
    extraction = IntoS3(kafka_zk_cluster, tmp_path, "into-s3", s3)
    extraction.write(20)
    extraction.kill(BETWEEN_FILES, DRIVER)
    assert len(extraction.keys()) == 1, "one file of two"
    extraction.write(20)
    extraction.recover()
    extraction.check()
    assert extraction.hidden() == [], "nothing is left of the staging"


@pytest.mark.soak
def test_nothing_is_seen_of_what_is_not_committed(kafka_zk_cluster: EmbeddedCluster, s3: S3, tmp_path: Path) -> None:
    extraction = IntoS3(kafka_zk_cluster, tmp_path, "uncommitted-in-s3", s3)
    extraction.write(20)
    extraction.kill(Point(Step.COMMIT, Phase.BEGIN.value), DRIVER)
    assert extraction.keys() == [] and extraction.hidden()
    extraction.recover()
    extraction.check()


@pytest.mark.soak
def test_fifty_kills(kafka_zk_cluster: EmbeddedCluster, s3: S3, tmp_path: Path) -> None:
    extraction = IntoS3(kafka_zk_cluster, tmp_path, "fifty-into-s3", s3)
    rng = random.Random(0)
    for _ in range(ROUNDS):
        extraction.write(20)
        extraction.kill(rng.choice([*KILL_POINTS, BETWEEN_FILES]), DRIVER)
    extraction.recover()
    extraction.check()
