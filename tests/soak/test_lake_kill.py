"""Drivers of extractions into S3, Delta and Iceberg killed at any step, 50 rounds each; others read them back."""

import random
from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from tests.integration.extraction_process import DRIVER
from tests.integration.killed_extraction import KILL_POINTS, KilledExtraction, Point
from tests.peers.s3 import S3
from tests.peers.s3_extraction import BETWEEN_FILES, IntoS3, s3  # noqa: F401
from tests.peers.table_extraction import IntoDelta, IntoIceberg, IntoTable

pytestmark = [pytest.mark.integration, pytest.mark.soak]

ROUNDS = 50


def killed_and_recovered(extraction: KilledExtraction, points: list[Point]) -> None:
    rng = random.Random(0)
    for _ in range(ROUNDS):
        extraction.write(20)
        extraction.kill(rng.choice(points), DRIVER)
    extraction.recover()
    extraction.check()


def test_into_s3(kafka_zk_cluster: EmbeddedCluster, s3: S3, tmp_path: Path) -> None:  # noqa: F811
    extraction = IntoS3(kafka_zk_cluster, tmp_path, "fifty-into-s3", s3)
    killed_and_recovered(extraction, [*KILL_POINTS, BETWEEN_FILES])


def test_nothing_is_seen_in_s3_of_what_is_not_committed(
    kafka_zk_cluster: EmbeddedCluster, s3: S3, tmp_path: Path  # noqa: F811
) -> None:
    extraction = IntoS3(kafka_zk_cluster, tmp_path, "uncommitted-in-s3", s3)
    extraction.write(20)
    extraction.kill(Point(Step.COMMIT, Phase.BEGIN.value), DRIVER)
    assert extraction.keys() == [] and extraction.hidden()
    extraction.recover()
    extraction.check()


@pytest.mark.parametrize("table", [IntoDelta, IntoIceberg])
def test_into_a_table(kafka_zk_cluster: EmbeddedCluster, tmp_path: Path, table: type[IntoTable]) -> None:
    killed_and_recovered(table(kafka_zk_cluster, tmp_path, f"fifty-into-{table.format}"), list(KILL_POINTS))
