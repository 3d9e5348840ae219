"""ZooKeeper loses its data under running brokers: a broker does not register in the empty cluster, logs an error
repeatedly, and registers again when the data are back.
"""

import shutil
from pathlib import Path

import pytest

from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import NoNode
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.testing.plugin import MakeCluster, MakeTopic, MakeZkClient, MakeZooKeeper
from tests.integration.processes import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.embedded]


def children(client: RegistryClient, path: str) -> list[str]:
    async def look() -> list[str]:
        try:
            return (await client.children(path))[0]
        except NoNode:
            return []

    return run_blocking(look())


@pytest.mark.long
def test_brokers_wait_for_their_own_data(
    make_cluster: MakeCluster,
    make_zookeeper: MakeZooKeeper,
    make_zk_client: MakeZkClient,
    make_topic: MakeTopic,
    tmp_path: Path,
) -> None:
    zookeeper = make_zookeeper()
    cluster = make_cluster(broker_count=1, zookeeper=zookeeper)
    (broker,) = cluster.brokers
    topic = make_topic(cluster=cluster)
    with BlockingProducer(bootstrap_servers=cluster.bootstrap) as producer:
        assert producer.send(topic, b"before").result(20).offset == 0

        zookeeper.stop()
        data = zookeeper.data_dir / "data"
        shutil.move(data, tmp_path / "kept")
        zookeeper.start()
        wait_for(lambda: broker.process.output().count("no cluster id") >= 2, "the second telling")
        line = next(line for line in broker.process.output().splitlines() if "no cluster id" in line)
        assert " ERROR " in line and "Restore ZooKeeper's data" in line and "Traceback" not in broker.process.output()
        assert children(make_zk_client(zookeeper.connect_string), "/") == ["zookeeper"]
        assert producer.send(topic, b"meanwhile").result(20).offset == 1

        zookeeper.stop()
        shutil.rmtree(data)
        shutil.move(tmp_path / "kept", data)
        zookeeper.start()
        wait_for(lambda: "registered again" in broker.process.output(), "the new registration")
        assert producer.send(topic, b"after").result(20).offset == 2
    assert children(make_zk_client(zookeeper.connect_string), "/brokers/ids") == ["0"]
    cluster.wait_ready()
    make_topic(cluster=cluster)
