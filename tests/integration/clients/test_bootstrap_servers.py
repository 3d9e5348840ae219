"""Bootstrap lists with a leading listener name, spaces, and a trailing comma: the command line, our clients and the
client of Spark's executors accept them.
"""

import os
import subprocess
import sys

import pytest

from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.source.cluster_client import ClientSettings, ClusterClient

pytestmark = pytest.mark.integration

_TOPIC = "prefixed"


@pytest.fixture(scope="module")
def servers(group_cluster: EmbeddedCluster) -> str:
    """The cluster's address as listeners and Terraform providers write it; the topic exists and has one record."""
    given = f" PLAINTEXT://{group_cluster.bootstrap} ,"
    with BlockingAdmin(bootstrap_servers=given) as admin:
        admin.create_topic(_TOPIC, 2, 1)
    with BlockingProducer(bootstrap_servers=given) as producer:
        producer.send(_TOPIC, b"value", partition=0).result(30)
    return given


@pytest.mark.parametrize("by_variable", [False, True])
def test_commands(servers: str, by_variable: bool) -> None:
    command = [sys.executable, "-m", "kafka_zk", "topics", "list"]
    environ = dict(os.environ)
    if by_variable:
        environ["KAFKA_ZK_BOOTSTRAP"] = servers
    else:
        command += ["--bootstrap-server", servers]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert _TOPIC in done.stdout.split(), done.stderr


def test_a_reader(servers: str) -> None:
    with BlockingReader(bootstrap_servers=servers) as reader:
        assert len(reader.partitions_for(_TOPIC).partitions) == 2


def test_the_client_of_spark(servers: str) -> None:
    with ClusterClient(ClientSettings(servers)) as client:
        assert client.partition_counts([_TOPIC]) == {_TOPIC: 2}
