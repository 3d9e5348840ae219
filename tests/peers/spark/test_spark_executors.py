"""Extractions into HDFS and a Delta table by a Spark cluster, of which an executor dies while it reads.

Into S3 and Iceberg: test_spark_workers.py; at every step: tests/soak/test_lake_kill.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from tests.integration.spark.extraction_process import EXECUTOR
from tests.integration.spark.killed_extraction import READING, KilledExtraction
from tests.integration.spark.spark_cluster import SMALL_EXECUTORS, StandaloneCluster, spark_cluster  # noqa: F401
from tests.peers.spark.hdfs import Hdfs
from tests.peers.spark.hdfs_extraction import IntoHdfs, hdfs  # noqa: F401
from tests.peers.spark.table_extraction import IntoDelta, tables_cluster  # noqa: F401

pytestmark = pytest.mark.peers


def killed_while_reading(extraction: KilledExtraction) -> None:
    extraction.write(20)
    extraction.kill(READING, EXECUTOR)
    extraction.check()


def test_into_hdfs(
    kafka_zk_cluster: EmbeddedCluster, spark_cluster: StandaloneCluster, hdfs: Hdfs, tmp_path: Path  # noqa: F811
) -> None:
    topic = "hdfs-by-executors"
    killed_while_reading(IntoHdfs(kafka_zk_cluster, tmp_path, topic, hdfs, spark_cluster.master, **SMALL_EXECUTORS))


@pytest.mark.soak  # the death of an executor is the same for every target
def test_into_delta(
    kafka_zk_cluster: EmbeddedCluster, tables_cluster: StandaloneCluster, tmp_path: Path  # noqa: F811
) -> None:
    topic = "delta-by-executors"
    killed_while_reading(IntoDelta(kafka_zk_cluster, tmp_path, topic, tables_cluster.master, **SMALL_EXECUTORS))
