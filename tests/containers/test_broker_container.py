"""``KafkaZkContainer``: alone, and with a secured ZooKeeper."""

from typing import cast

import pytest
from testcontainers.core.network import Network

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.embedded.fault_client import FaultRefused
from kafka_zk.testing.broker_container import ContainerCluster, KafkaZkContainer
from kafka_zk.testing.variants import Variant
from kafka_zk.testing.zookeeper_container import ZooKeeperContainer
from tests.integration.brokers.acls import ALL, READ, znode_acls
from tests.integration.processes import wait_for

pytestmark = pytest.mark.containers


def test_alone_it_brings_its_zookeeper_and_keeps_its_data(zookeeper_image: str, broker_image: str) -> None:
    with KafkaZkContainer(broker_image, zookeeper_image=zookeeper_image) as kafka:
        with BlockingProducer(bootstrap_servers=kafka.bootstrap) as producer:
            written = producer.send("kept", b"value", partition=0).result()
        assert kafka.stop() == 0, "a clean end"
        kafka.start()
        wait_for(lambda: (view := kafka.view()) and view.controller_id == 0, "the broker's return")
        with BlockingReader(bootstrap_servers=kafka.bootstrap) as reader:
            reader.assign({TopicPartition("kept", 0): written.offset})
            assert wait_for(lambda: reader.poll(1_000), "the record")[0].value == b"value"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("variant", ["sasl", "mtls"])
def test_brokers_in_containers_are_let_in_and_protect_their_znodes(
    variant: Variant, zookeeper_image: str, broker_image: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Their key files are copied into the containers; zookeeper.set.acl applies to the znodes that they create."""
    with (
        Network() as network,
        ZooKeeperContainer(zookeeper_image, variant=variant, network=network) as zookeeper,
        ContainerCluster(
            tmp_path_factory.mktemp("cluster"), image=broker_image, network=network, container=zookeeper, broker_count=2
        ) as cluster,
    ):
        assert cluster.controller_id() in (0, 1)
        acls = znode_acls(zookeeper.connect_string, zookeeper.client_properties)
        [creator] = acls["/brokers/ids/1"] - {("world", "anyone", READ)}
        assert (creator[0], creator[2]) == ({"sasl": "sasl", "mtls": "x509"}[variant], ALL)


def test_faults_act_in_containers_and_only_this_machine_reaches_their_api(
    zookeeper_image: str, broker_image: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with (
        Network() as network,
        ZooKeeperContainer(zookeeper_image, network=network) as zookeeper,
        ContainerCluster(
            tmp_path_factory.mktemp("cluster"), image=broker_image, network=network, container=zookeeper, broker_count=2
        ) as cluster,
        BlockingProducer(bootstrap_servers=cluster.bootstrap) as producer,
    ):
        producer.send("t", b"a", partition=0).result()
        with cluster.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", topic="t") as fault:
            producer.send("t", b"b", partition=0).result()
            assert fault.fired == 1
        with cluster.faults.leader_moves("t"):
            assert producer.send("t", b"c", partition=0).result().offset == 2
        with pytest.raises(FaultRefused, match="no function can be reached"):
            cluster.faults.intercept(lambda exchange: None)
        with cluster.brokers[1].paused(), pytest.raises(FaultRefused, match="broker 1, which is paused"):
            cluster.faults.throttle(1)
        broker = cast(KafkaZkContainer, cluster.brokers[0])
        [published] = broker.get_wrapped_container().attrs["NetworkSettings"]["Ports"]["9600/tcp"]
        assert published["HostIp"] == "127.0.0.1"


def test_a_broker_that_ends_is_told_with_its_last_words(zookeeper_image: str, broker_image: str) -> None:
    wrong = KafkaZkContainer(broker_image, zookeeper_image=zookeeper_image, properties={"num.partitions": "none"})
    with pytest.raises(ProcessFailed, match=r"broker 0 ended with exit code 1.*num\.partitions=none"), wrong:
        pass
