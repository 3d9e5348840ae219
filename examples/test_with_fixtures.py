"""Tests of your own with the pytest plugin: pytest examples/test_with_fixtures.py (no Docker, no ports to choose)."""

import time
from collections.abc import Callable

from kafka_zk import BlockingProducer, BlockingReader, EmbeddedCluster, TopicPartition
from kafka_zk.registry import BrokerRegistry, run_blocking
from kafka_zk.testing import MakeCluster, MakeTopic, MakeZkClient


def test_records_come_back(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=1)
    with BlockingProducer(bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:
        producer.send(topic, b"hello")
    with BlockingReader(bootstrap_servers=kafka_zk_cluster.bootstrap) as reader:
        reader.assign({TopicPartition(topic, 0): "earliest"})
        assert [record.value for record in reader.poll(10_000)] == [b"hello"]


def test_acknowledged_records_survive_a_crash(make_cluster: MakeCluster, make_topic: MakeTopic) -> None:
    cluster = make_cluster(broker_count=1)
    topic = make_topic(cluster=cluster)
    with BlockingProducer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send(topic, b"kept").result(10)
    cluster.brokers[0].kill()
    cluster.restart_broker(0)
    with BlockingReader(bootstrap_servers=cluster.bootstrap) as reader:
        reader.assign({TopicPartition(topic, 0): 0})
        assert reader.poll(10_000)[0].value == b"kept"


def test_a_broker_registers_again_when_its_session_expired(
    make_cluster: MakeCluster, make_zk_client: MakeZkClient, expire_session: Callable[[int], None]
) -> None:
    cluster = make_cluster(broker_count=1)
    client = make_zk_client(cluster.zookeeper_connect)

    async def epoch_and_session() -> tuple[int, int]:
        stat = await client.exists("/brokers/ids/0")
        return (stat.czxid, stat.ephemeral_owner) if stat else (0, 0)

    old_epoch, session_id = run_blocking(epoch_and_session())
    expire_session(session_id)
    cluster.wait_ready()
    while run_blocking(epoch_and_session())[0] in (0, old_epoch):
        time.sleep(0.05)
    assert 0 in run_blocking(BrokerRegistry(client).live())
