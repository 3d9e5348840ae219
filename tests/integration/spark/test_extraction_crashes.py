"""``kafka-zk extract`` with a real Spark whose processes are killed: a slice of tests/soak/test_extraction_kill.py."""

import json
import random
from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from tests.integration.spark.extraction_process import DRIVER, JAVA, WORKER
from tests.integration.spark.killed_extraction import KILL_POINTS, READING, THREE_ATTEMPTS, KilledExtraction, ended

pytestmark = [pytest.mark.integration, pytest.mark.spark]

EXTRACTED, GROUP_IS_BUSY = 0, 3


def test_driver_java_and_worker_are_killed_one_run_after_the_other(
    kafka_zk_cluster: EmbeddedCluster, tmp_path: Path, process_campaign_seed: int
) -> None:
    """The driver is killed at a random point, then its Java while it reads. Spark replaces a worker that dies there."""
    rng = random.Random(process_campaign_seed)
    topic = f"crashes-{process_campaign_seed}"
    extraction = KilledExtraction(kafka_zk_cluster, tmp_path, topic, THREE_ATTEMPTS)
    extraction.write(20)
    extraction.kill(rng.choice(KILL_POINTS), DRIVER)
    extraction.write(20)
    extraction.kill(READING, JAVA)
    extraction.kill(READING, WORKER)
    extraction.check()


def test_of_two_jobs_at_once_one_publishes_each_range(kafka_zk_cluster: EmbeddedCluster, tmp_path: Path) -> None:
    extraction = KilledExtraction(kafka_zk_cluster, tmp_path, "two-at-once")
    extraction.write(20)
    runs = [extraction.start(), extraction.start()]
    done = [ended(run) for run in runs]
    assert all(each.returncode in (EXTRACTED, GROUP_IS_BUSY) for each in done), [each.stderr for each in done]
    extracted = [json.loads(each.stdout.splitlines()[-1]) for each in done if each.returncode == EXTRACTED]
    assert sum(each["records"] for each in extracted) == 20
    extraction.check()
