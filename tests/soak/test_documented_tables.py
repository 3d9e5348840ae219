"""The commands of docs/spark.md for S3, Delta and Iceberg, as they stand there; other programs read back what is there.

Spark fetches the jars from Maven Central, 650 MB for S3.
"""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_zk.client.blocking_admin import BlockingAdmin
from kafka_zk.embedded.cluster import EmbeddedCluster
from tests.integration.spark import LOCAL, SMALL
from tests.integration.test_spark_docs import started
from tests.integration.test_spark_extraction import write
from tests.peers import jars, spark_versions
from tests.peers.s3 import KEYS, REGION, S3
from tests.peers.s3_extraction import s3  # noqa: F401
from tests.peers.table_extraction import read_delta, read_iceberg

pytestmark = [pytest.mark.integration, pytest.mark.soak]

TIMEOUT_S = 1800
RECORDS = 10


def run(name: str, cluster: EmbeddedCluster, folder: Path, endpoint: str = "", **environ: str) -> None:
    with BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        if "flights" not in admin.list_topics():
            admin.create_topic("flights", partitions=2)
            write(cluster, "flights", [b"%d" % number for number in range(RECORDS)])
    conf = {**SMALL, "spark.jars.ivy": str(jars.CACHE / "ivy")}
    if endpoint:
        conf["spark.hadoop.fs.s3a.endpoint"] = endpoint
    more = " ".join(f"--conf {key}={value}" for key, value in conf.items())
    running = started(name, cluster, folder, more=f"{more} --master 'local[1]'", **LOCAL, **environ)
    _, told = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 0, told


def check(table: pa.Table) -> None:
    assert sorted(map(int, table["value"].to_pylist())) == list(range(RECORDS))


def test_delta(kafka_zk_cluster: EmbeddedCluster, tmp_path: Path) -> None:
    run("spark-delta", kafka_zk_cluster, tmp_path, **spark_versions.environ(spark_versions.WITH_TABLES))
    check(read_delta(tmp_path / "flights"))


def test_iceberg(kafka_zk_cluster: EmbeddedCluster, tmp_path: Path) -> None:
    run("spark-iceberg", kafka_zk_cluster, tmp_path, **spark_versions.environ(spark_versions.WITH_TABLES))
    check(read_iceberg(tmp_path / "warehouse" / "db" / "flights"))


def test_s3(kafka_zk_cluster: EmbeddedCluster, s3: S3, tmp_path: Path) -> None:  # noqa: F811
    """Keys and region as Amazon's own clients find them; an address is no host that has buckets before its name."""
    s3.client.create_bucket(Bucket="bucket")
    keys = {name.upper(): value for name, value in KEYS.items()}
    run("spark-s3", kafka_zk_cluster, tmp_path, s3.endpoint, AWS_REGION=REGION, **keys)
    files = [key for key in s3.keys("bucket", "lake/range=") if key.endswith(".parquet")]
    check(pa.concat_tables(pq.read_table(io.BytesIO(s3.read("bucket", key))) for key in files))
