"""The commands of docs/how-to/spark.md for S3, Delta, Iceberg, and a standalone cluster with HDFS, run unchanged; other
programs read the results.

Spark fetches the jars from Maven Central, 650 MB for S3.
"""

import io
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.embedded.cluster import EmbeddedCluster
from tests.integration.spark.sessions import LOCAL, SMALL
from tests.integration.spark.spark_cluster import SMALL_EXECUTORS, StandaloneCluster, spark_cluster  # noqa: F401
from tests.integration.spark.test_spark_docs import started
from tests.integration.spark.test_spark_extraction import write
from tests.peers import jars
from tests.peers.spark import spark_versions
from tests.peers.spark.hdfs import Hdfs
from tests.peers.spark.hdfs_extraction import hdfs  # noqa: F401
from tests.peers.spark.s3 import KEYS, REGION, S3
from tests.peers.spark.s3_extraction import s3  # noqa: F401
from tests.peers.spark.table_extraction import read_delta, read_iceberg

pytestmark = [pytest.mark.integration, pytest.mark.soak]

TIMEOUT_S = 1800
RECORDS = 10
ONE_THREAD = "--master 'local[1]'"
NO_CONF: Mapping[str, str] = {}


def run(
    name: str, cluster: EmbeddedCluster, folder: Path, more: str = ONE_THREAD, conf: Mapping[str, str] = NO_CONF,
    environ: Mapping[str, str] = NO_CONF,
) -> None:  # fmt: skip
    """``more``: options that replace documented ones."""
    with BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        if "flights" not in admin.list_topics():
            admin.create_topic("flights", partitions=2)
            write(cluster, "flights", [b"%d" % number for number in range(RECORDS)])
    conf = {**SMALL, "spark.jars.ivy": str(jars.CACHE / "ivy"), **conf}
    confs = " ".join(f"--conf '{key}={value}'" for key, value in conf.items())
    running = started(name, cluster, folder, more=f"{confs} {more}", **LOCAL, **environ)
    _, told = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 0, told


def check(table: pa.Table) -> None:
    assert sorted(map(int, table["value"].to_pylist())) == list(range(RECORDS))


@pytest.mark.parametrize("name", ["spark-delta", "spark-brokers"])
def test_delta(kafka_zk_cluster: EmbeddedCluster, tmp_path: Path, name: str) -> None:
    run(name, kafka_zk_cluster, tmp_path, environ=spark_versions.environ(spark_versions.WITH_TABLES))
    check(read_delta(tmp_path / "flights"))


def test_iceberg(kafka_zk_cluster: EmbeddedCluster, tmp_path: Path) -> None:
    run("spark-iceberg", kafka_zk_cluster, tmp_path, environ=spark_versions.environ(spark_versions.WITH_TABLES))
    check(read_iceberg(tmp_path / "warehouse" / "db" / "flights"))


def test_s3(kafka_zk_cluster: EmbeddedCluster, s3: S3, tmp_path: Path) -> None:  # noqa: F811
    """Keys and region are found as Amazon's own clients find them. An IP address cannot be prefixed with a bucket's
    name.
    """
    s3.client.create_bucket(Bucket="bucket")
    keys = {name.upper(): value for name, value in KEYS.items()}
    endpoint = {"spark.hadoop.fs.s3a.endpoint": s3.endpoint}
    run("spark-s3", kafka_zk_cluster, tmp_path, conf=endpoint, environ={"AWS_REGION": REGION, **keys})
    files = [key for key in s3.keys("bucket", "lake/range=") if key.endswith(".parquet")]
    check(pa.concat_tables(pq.read_table(io.BytesIO(s3.read("bucket", key))) for key in files))


def test_a_standalone_cluster(
    kafka_zk_cluster: EmbeddedCluster, spark_cluster: StandaloneCluster, hdfs: Hdfs, tmp_path: Path  # noqa: F811
) -> None:
    here = f"--master {spark_cluster.master} --to {hdfs.uri}/lake"
    run("spark-standalone", kafka_zk_cluster, tmp_path, here, SMALL_EXECUTORS)
    files = [path for path in hdfs.files("/lake") if path.endswith(".parquet")]
    check(pa.concat_tables(pq.read_table(io.BytesIO(hdfs.read(path))) for path in files))
