"""Extractions into S3, files and an Iceberg table, by workers that share no folder with each other or with the driver;
an executor dies while it reads.

The standalone cluster has two workers, each in its own network namespace, which does not see the test's folders.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.ports import free_port
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.testing.zookeeper import Chroot
from tests.integration.spark.extraction_process import EXECUTOR
from tests.integration.spark.killed_extraction import READING
from tests.integration.spark.spark_cluster import SMALL_EXECUTORS, WORKERS, Place, StandaloneCluster
from tests.peers import jars
from tests.peers.spark import spark_versions
from tests.peers.spark.network_namespaces import machines
from tests.peers.spark.s3 import S3, s3_server
from tests.peers.spark.s3_extraction import BUCKET, IntoIcebergOnS3, IntoS3

pytestmark = pytest.mark.peers
SPARK = spark_versions.WITH_TABLES


class Lake:
    """A cluster of brokers, a Spark cluster, and an S3, at addresses that all machines can reach."""

    def __init__(self, brokers: EmbeddedCluster, spark: StandaloneCluster, s3: S3, address: str) -> None:
        self.brokers = brokers
        self.s3 = s3
        self.master = spark.master
        self.environ = {**spark_versions.environ(SPARK), "SPARK_LOCAL_IP": address}
        self.conf = {**SMALL_EXECUTORS, "spark.driver.host": address, **s3.conf(jars.SPARK_4_1_S3, jars.SPARK_ICEBERG)}


@pytest.fixture(scope="module")
def lake(zookeeper_server: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder, connect = tmp_path_factory.mktemp("workers"), Chroot(zookeeper_server, "/workers").connect_string
    with machines(WORKERS, tmp_path_factory.getbasetemp()) as (address, others):
        for each in others:
            listed = subprocess.run([*each.before, "ls", "-A", folder.parent], capture_output=True, check=True)
            assert listed.stdout == b"", "the folder is its own"
        port = free_port()
        listeners = {"listeners": f"PLAINTEXT://0.0.0.0:{port}", "advertised.listeners": f"PLAINTEXT://{address}:{port}"}
        brokers = EmbeddedCluster(folder, broker_count=1, port=port, zookeeper=connect, properties=listeners)
        places = [Place(each.address, each.before) for each in others]
        spark = StandaloneCluster(folder, address, places, spark_versions.environ(SPARK))
        with s3_server(folder / "s3.log", address) as s3, brokers, spark:
            s3.client.create_bucket(Bucket=BUCKET)
            yield Lake(brokers, spark, s3, address)


@pytest.mark.soak  # test_spark_stores kills extractions into folders of S3, too
def test_files(lake: Lake) -> None:
    with tempfile.TemporaryDirectory() as shared:  # contains only the note that an executor was killed
        extraction = IntoS3(lake.brokers, Path(shared), "into-s3", lake.s3, lake.master, **lake.conf)
        extraction.environ = lake.environ
        extraction.write(20)
        extraction.kill(READING, EXECUTOR)
        extraction.check()
        assert extraction.hidden() == []


def test_an_iceberg_table(lake: Lake) -> None:
    with tempfile.TemporaryDirectory() as shared:
        extraction = IntoIcebergOnS3(lake.brokers, Path(shared), "into-iceberg", lake.s3, lake.master, **lake.conf)
        extraction.environ = lake.environ
        extraction.write(20)
        extraction.kill(READING, EXECUTOR)
        extraction.check()
