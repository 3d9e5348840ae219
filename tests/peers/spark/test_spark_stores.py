"""Extractions into S3 and HDFS by Spark's own clients are killed between the steps, and pyarrow reads the results back.

moto's server is the S3, Hadoop's mini cluster the HDFS. More kills: tests/soak/test_lake_kill.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from tests.integration.spark.extraction_process import DRIVER
from tests.integration.spark.killed_extraction import Point
from tests.peers.spark.hdfs import Hdfs
from tests.peers.spark.hdfs_extraction import IntoHdfs, hdfs  # noqa: F401
from tests.peers.spark.s3 import S3
from tests.peers.spark.s3_extraction import BETWEEN_FILES, IntoS3, s3  # noqa: F401

pytestmark = pytest.mark.peers


def test_driver_is_killed_between_two_files(
    kafka_zk_cluster: EmbeddedCluster, s3: S3, tmp_path: Path  # noqa: F811
) -> None:
    extraction = IntoS3(kafka_zk_cluster, tmp_path, "into-s3", s3)
    extraction.write(20)
    extraction.kill(BETWEEN_FILES, DRIVER)
    assert len(extraction.keys()) == 1, "one file of two"
    extraction.write(20)
    extraction.recover()
    extraction.check()
    assert extraction.hidden() == [], "nothing is left of the staging"


@pytest.mark.weekly
def test_driver_is_killed_before_the_rename_in_hdfs(
    kafka_zk_cluster: EmbeddedCluster, hdfs: Hdfs, tmp_path: Path  # noqa: F811
) -> None:
    extraction = IntoHdfs(kafka_zk_cluster, tmp_path, "into-hdfs", hdfs)
    extraction.write(20)
    extraction.kill(Point(Step.COMMIT, Phase.END.value), DRIVER)
    assert extraction.staged() and extraction.shown() == [], "the offsets have moved, the folder has not"
    extraction.write(20)
    assert extraction.recover() == ["its folder is published", "nothing"]
    extraction.check()
    assert extraction.staged() == [], "nothing is left of the staging"
