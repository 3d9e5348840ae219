"""Each process of Spark is killed three times at every point of the extraction's protocol, with real Spark and real
brokers."""

import re
from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from tests.integration.spark.extraction_process import DRIVER, EXECUTOR, JAVA, WORKER
from tests.integration.spark.killed_extraction import (
    KILL_POINTS,
    ONE_ATTEMPT,
    READING,
    THREE_ATTEMPTS,
    KilledExtraction,
    Point,
)
from tests.integration.spark.spark_cluster import SMALL_EXECUTORS, StandaloneCluster, spark_cluster  # noqa: F401

pytestmark = [pytest.mark.integration, pytest.mark.soak]

TIMES = 3


def killed_and_recovered(extraction: KilledExtraction, point: Point, victim: str) -> None:
    for _ in range(TIMES):
        extraction.write(20)
        extraction.kill(point, victim)
    extraction.recover()
    extraction.check()


@pytest.mark.parametrize("victim", [DRIVER, JAVA])
@pytest.mark.parametrize("point", KILL_POINTS, ids=str)
def test_the_driver(kafka_zk_cluster: EmbeddedCluster, tmp_path: Path, point: Point, victim: str) -> None:
    """The master is local, so the driver's Java is also the executor."""
    extraction = KilledExtraction(kafka_zk_cluster, tmp_path, f"killed-{point}-{victim}")
    killed_and_recovered(extraction, point, victim)


@pytest.mark.parametrize("master", [ONE_ATTEMPT, THREE_ATTEMPTS], ids=["one-attempt", "three-attempts"])
def test_a_worker(kafka_zk_cluster: EmbeddedCluster, tmp_path: Path, master: str) -> None:
    topic = f"killed-worker-{re.sub('[^0-9]', '-', master)}"
    extraction = KilledExtraction(kafka_zk_cluster, tmp_path, topic, master)
    killed_and_recovered(extraction, READING, WORKER)


@pytest.mark.parametrize("victim", [DRIVER, EXECUTOR])
@pytest.mark.parametrize("point", KILL_POINTS, ids=str)
def test_on_a_cluster(
    kafka_zk_cluster: EmbeddedCluster,
    spark_cluster: StandaloneCluster,  # noqa: F811
    tmp_path: Path,
    point: Point,
    victim: str,
) -> None:
    topic = f"killed-{point}-{victim}-on-a-cluster"
    extraction = KilledExtraction(kafka_zk_cluster, tmp_path, topic, spark_cluster.master, **SMALL_EXECUTORS)
    killed_and_recovered(extraction, point, victim)
