"""Extractions into S3, HDFS, Delta and Iceberg, killed at any step; other programs read back what is there.

A tenth of ``--rounds`` for each: 50 with ``make soak``. ``--seed`` chooses who is killed where. After each kill nothing
may be there twice; after the last one everything is there once.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from tests.integration.extraction_process import DRIVER, EXECUTOR, JAVA
from tests.integration.killed_extraction import KILL_POINTS, KilledExtraction, Point
from tests.integration.spark import LOCAL
from tests.integration.spark_cluster import SMALL_EXECUTORS, StandaloneCluster, spark_cluster  # noqa: F401
from tests.peers import spark_versions
from tests.peers.hdfs import Hdfs
from tests.peers.hdfs_extraction import IntoHdfs, hdfs  # noqa: F401
from tests.peers.s3 import S3
from tests.peers.s3_extraction import BETWEEN_FILES, IntoS3, s3  # noqa: F401
from tests.peers.table_extraction import IntoDelta, IntoIceberg, IntoTable

pytestmark = [pytest.mark.integration, pytest.mark.soak]


class Campaign:
    def __init__(self, rounds: int, seed: int) -> None:
        self.rounds = rounds
        self.seed = seed

    def run(self, extraction: KilledExtraction, victims: list[str], *more: Point) -> None:
        chance = random.Random(self.seed)
        for number in range(self.rounds):
            point, victim = chance.choice([*KILL_POINTS, *more]), chance.choice(victims)
            print(f"round {number + 1} of {self.rounds}, seed {self.seed}: {victim} at {point}", flush=True)
            extraction.write(20)
            extraction.kill(point, victim)
            extraction.check_nothing_twice()
        extraction.recover()
        extraction.check()


@pytest.fixture
def campaign(request: pytest.FixtureRequest) -> Campaign:
    rounds: int = request.config.getoption("rounds")
    return Campaign(max(1, rounds // 10), request.config.getoption("seed"))


@pytest.fixture(scope="module")
def tables_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """Of the PySpark for which both table formats have jars."""
    os.environ.update(LOCAL)
    environ = spark_versions.environ(spark_versions.WITH_TABLES)
    with StandaloneCluster(tmp_path_factory.mktemp("spark"), environ=environ) as cluster:
        yield cluster


def test_into_s3(
    kafka_zk_cluster: EmbeddedCluster, s3: S3, tmp_path: Path, campaign: Campaign  # noqa: F811
) -> None:
    campaign.run(IntoS3(kafka_zk_cluster, tmp_path, "soak-s3", s3), [DRIVER, JAVA], BETWEEN_FILES)


def test_into_hdfs(
    kafka_zk_cluster: EmbeddedCluster, hdfs: Hdfs, tmp_path: Path, campaign: Campaign  # noqa: F811
) -> None:
    campaign.run(IntoHdfs(kafka_zk_cluster, tmp_path, "soak-hdfs", hdfs), [DRIVER, JAVA])


@pytest.mark.parametrize("table", [IntoDelta, IntoIceberg])
def test_into_a_table(
    kafka_zk_cluster: EmbeddedCluster, tmp_path: Path, table: type[IntoTable], campaign: Campaign
) -> None:
    campaign.run(table(kafka_zk_cluster, tmp_path, f"soak-{table.format}"), [DRIVER, JAVA])


def test_executors_into_s3(
    kafka_zk_cluster: EmbeddedCluster,
    spark_cluster: StandaloneCluster,  # noqa: F811
    s3: S3,  # noqa: F811
    tmp_path: Path,
    campaign: Campaign,
) -> None:
    topic = "soak-s3-executors"
    extraction = IntoS3(kafka_zk_cluster, tmp_path, topic, s3, spark_cluster.master, **SMALL_EXECUTORS)
    campaign.run(extraction, [EXECUTOR, DRIVER])


@pytest.mark.parametrize("table", [IntoDelta, IntoIceberg])
def test_executors_into_a_table(
    kafka_zk_cluster: EmbeddedCluster,
    tables_cluster: StandaloneCluster,
    tmp_path: Path,
    table: type[IntoTable],
    campaign: Campaign,
) -> None:
    topic = f"soak-{table.format}-executors"
    extraction = table(kafka_zk_cluster, tmp_path, topic, tables_cluster.master, **SMALL_EXECUTORS)
    campaign.run(extraction, [EXECUTOR, DRIVER])


def test_nothing_is_seen_in_s3_of_what_is_not_committed(
    kafka_zk_cluster: EmbeddedCluster, s3: S3, tmp_path: Path  # noqa: F811
) -> None:
    extraction = IntoS3(kafka_zk_cluster, tmp_path, "uncommitted-in-s3", s3)
    extraction.write(20)
    extraction.kill(Point(Step.COMMIT, Phase.BEGIN.value), DRIVER)
    assert extraction.keys() == [] and extraction.hidden()
    extraction.recover()
    extraction.check()
