"""Extractions into S3, HDFS, Delta, Iceberg and a folder, killed at every step; other programs read the results.

Each target gets a tenth of ``--rounds``: 50 with ``make soak``. ``--seed`` chooses the order of the steps; all steps
are used before any is repeated. In nine of ten rounds, the driver's Python is killed, and the Java process that all
drivers share continues what was begun. In the tenth, the driver has its own Java, which is killed with it, or alone.
After each kill, no record may be there twice; after the last one, every record is there once. 50 rounds of one kind,
and a line in tests/sim/played.txt:

    KAFKA_ZK_RECORD_ROUNDS=1 python -m pytest -s -m soak tests/soak/test_lake_kill.py -k test_into_s3 --rounds 500
"""

import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from tests.integration.spark.extraction_process import DRIVER, EXECUTOR, JAVA, WORKER
from tests.integration.spark.killed_extraction import (
    KILL_POINTS,
    READING,
    THREE_ATTEMPTS,
    Deck,
    IntoParquet,
    KilledExtraction,
    Point,
)
from tests.integration.spark.spark_cluster import SMALL_EXECUTORS, StandaloneCluster, spark_cluster  # noqa: F401
from tests.peers.spark.hdfs import Hdfs
from tests.peers.spark.hdfs_extraction import IntoHdfs, hdfs  # noqa: F401
from tests.peers.spark.s3 import S3
from tests.peers.spark.s3_extraction import BETWEEN_FILES, IntoS3, s3  # noqa: F401
from tests.peers.spark.table_extraction import IntoDelta, IntoIceberg, IntoTable, tables_cluster  # noqa: F401
from tests.sim import played

pytestmark = [pytest.mark.integration, pytest.mark.soak]

OWN_JAVA_EVERY = 10


class Campaign:
    """``name``: the campaign's name in the record of rounds."""

    def __init__(self, name: str, rounds: int, seed: int) -> None:
        self.rounds = rounds
        self.seed = seed
        self._kind = f"kills of extractions, {name}, {rounds} rounds of real processes a seed"

    def run(self, extraction: KilledExtraction, *more: Point, own_java: bool = True, victims: str = DRIVER) -> None:
        """``victims``: the processes that are killed in every other round with a shared Java; in the others, the driver
        is."""
        with played.campaign(self._kind, self.seed):
            self._play(extraction, (*KILL_POINTS, *more), own_java, victims)

    def _play(self, extraction: KilledExtraction, points: Sequence[Point], own_java: bool, victims: str) -> None:
        chance = random.Random(self.seed)
        shared, own = Deck(points, chance), Deck(points, chance)
        others = [number for number in range(self.rounds) if own_java and number % OWN_JAVA_EVERY == OWN_JAVA_EVERY - 1]
        for number in others:
            self._round(extraction, number, own.draw(), chance.choice([DRIVER, JAVA]))
        with extraction.java_is_shared():
            for number in sorted(set(range(self.rounds)) - set(others)):
                self._round(extraction, number, shared.draw(), chance.choice([DRIVER, victims]))
            extraction.recover()
        extraction.check()
        print(f"all records are there once, and the offsets at their end, {extraction.format}", flush=True)

    def _round(self, extraction: KilledExtraction, number: int, point: Point, victim: str) -> None:
        started_s = time.monotonic()
        extraction.write(20)
        extraction.kill(point, victim)
        extraction.check_nothing_twice()
        took = f"{time.monotonic() - started_s:.1f} s"
        print(f"round {number + 1} of {self.rounds}, seed {self.seed}: {victim} at {point}, {took}", flush=True)


@pytest.fixture
def campaign(request: pytest.FixtureRequest) -> Campaign:
    rounds: int = request.config.getoption("rounds")
    name = request.node.name.removeprefix("test_").replace("_", " ")
    return Campaign(name, max(1, rounds // 10), request.config.getoption("seed"))


def test_into_a_folder(kafka_zk_cluster: EmbeddedCluster, tmp_path: Path, campaign: Campaign) -> None:
    campaign.run(IntoParquet(kafka_zk_cluster, tmp_path, "soak-folder"))


def test_into_s3(
    kafka_zk_cluster: EmbeddedCluster, s3: S3, tmp_path: Path, campaign: Campaign  # noqa: F811
) -> None:
    campaign.run(IntoS3(kafka_zk_cluster, tmp_path, "soak-s3", s3), BETWEEN_FILES)


def test_into_hdfs(
    kafka_zk_cluster: EmbeddedCluster, hdfs: Hdfs, tmp_path: Path, campaign: Campaign  # noqa: F811
) -> None:
    campaign.run(IntoHdfs(kafka_zk_cluster, tmp_path, "soak-hdfs", hdfs))


@pytest.mark.parametrize("table", [IntoDelta, IntoIceberg])
def test_into_a_table(
    kafka_zk_cluster: EmbeddedCluster, tmp_path: Path, table: type[IntoTable], campaign: Campaign
) -> None:
    campaign.run(table(kafka_zk_cluster, tmp_path, f"soak-{table.format}"))


def test_executors_into_s3(
    kafka_zk_cluster: EmbeddedCluster,
    spark_cluster: StandaloneCluster,  # noqa: F811
    s3: S3,  # noqa: F811
    tmp_path: Path,
    campaign: Campaign,
) -> None:
    topic = "soak-s3-executors"
    extraction = IntoS3(kafka_zk_cluster, tmp_path, topic, s3, spark_cluster.master, **SMALL_EXECUTORS)
    campaign.run(extraction, own_java=False, victims=EXECUTOR)


def test_executors_into_hdfs(
    kafka_zk_cluster: EmbeddedCluster,
    spark_cluster: StandaloneCluster,  # noqa: F811
    hdfs: Hdfs,  # noqa: F811
    tmp_path: Path,
    campaign: Campaign,
) -> None:
    topic = "soak-hdfs-executors"
    extraction = IntoHdfs(kafka_zk_cluster, tmp_path, topic, hdfs, spark_cluster.master, **SMALL_EXECUTORS)
    campaign.run(extraction, own_java=False, victims=EXECUTOR)


@pytest.mark.parametrize("table", [IntoDelta, IntoIceberg])
def test_executors_into_a_table(
    kafka_zk_cluster: EmbeddedCluster,
    tables_cluster: StandaloneCluster,  # noqa: F811
    tmp_path: Path,
    table: type[IntoTable],
    campaign: Campaign,
) -> None:
    topic = f"soak-{table.format}-executors"
    extraction = table(kafka_zk_cluster, tmp_path, topic, tables_cluster.master, **SMALL_EXECUTORS)
    campaign.run(extraction, own_java=False, victims=EXECUTOR)


def two_attempts(extraction: KilledExtraction, victim: str) -> None:
    with extraction.java_is_shared():
        for _ in range(2):
            extraction.write(20)
            extraction.kill(READING, victim)
            extraction.check()


def test_a_task_is_tried_again_into_s3(
    kafka_zk_cluster: EmbeddedCluster, s3: S3, tmp_path: Path  # noqa: F811
) -> None:
    two_attempts(IntoS3(kafka_zk_cluster, tmp_path, "again-s3", s3, THREE_ATTEMPTS), WORKER)


@pytest.mark.parametrize("table", [IntoDelta, IntoIceberg])
def test_a_task_is_tried_again_into_a_table(
    kafka_zk_cluster: EmbeddedCluster, tmp_path: Path, table: type[IntoTable]
) -> None:
    two_attempts(table(kafka_zk_cluster, tmp_path, f"again-{table.format}", THREE_ATTEMPTS), WORKER)


def test_nothing_is_seen_in_s3_of_what_is_not_committed(
    kafka_zk_cluster: EmbeddedCluster, s3: S3, tmp_path: Path  # noqa: F811
) -> None:
    extraction = IntoS3(kafka_zk_cluster, tmp_path, "uncommitted-in-s3", s3)
    extraction.write(20)
    extraction.kill(Point(Step.COMMIT, Phase.BEGIN.value), DRIVER)
    assert extraction.keys() == [] and extraction.hidden()
    extraction.recover()
    extraction.check()
