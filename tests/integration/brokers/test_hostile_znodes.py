"""Garbage in ZooKeeper under real brokers: what the brokers log, what they serve, and what ``ready`` promises.

The campaign with many more mutations is ``tests/fuzz/test_znodes.py``.
"""

import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.registry.znodes.controller import CONTROLLER, CONTROLLER_EPOCH
from kafka_zk.testing.clients import create_topic
from kafka_zk.testing.plugin import MakeCluster, MakeZkClient
from tests.fuzz.znodes import VICTIMS, Mutation, ZnodeSource
from tests.integration.processes import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

BIG = Mutation("/brokers/topics/big", json.dumps({"version": 1, "partitions": {"3000000000": [0], "0": [1]}}).encode())
MUTATIONS = 40


def run(work: Awaitable[Any]) -> Any:
    async def story() -> Any:
        return await work

    return run_blocking(story())


def can_write(cluster: EmbeddedCluster, topic: str, partitions: int = 1) -> None:
    """Write without a producer id: while their znode holds garbage, no producer gets an id, as in Kafka."""
    with BlockingProducer(bootstrap_servers=cluster.bootstrap, enable_idempotence=False) as producer:
        for sent in [producer.send(topic, b"x", partition=number) for number in range(partitions)]:
            sent.result(20)


def log_of(cluster: EmbeddedCluster) -> str:
    return "".join((broker.folder / "broker.log").read_text(errors="replace") for broker in cluster.brokers)


def restart(cluster: EmbeddedCluster) -> None:
    """Restart all brokers, and wait until the cluster is ready."""
    for broker in cluster.brokers:
        assert broker.stop() == 0
    for broker in cluster.brokers:
        broker.start()
    cluster.wait_ready()


@pytest.fixture
def look(make_zk_client: MakeZkClient) -> Callable[[EmbeddedCluster], RegistryClient]:
    return lambda cluster: make_zk_client(cluster.zookeeper_connect)


def test_a_partition_id_beyond_32_bits_harms_no_other_topic(
    make_cluster: MakeCluster, look: Callable[[EmbeddedCluster], RegistryClient]
) -> None:
    cluster = make_cluster(2)
    run(BIG.apply(look(cluster)))
    create_topic(cluster.bootstrap, "later", 2, {})
    can_write(cluster, "later", 2)
    can_write(cluster, "big")
    assert "'3000000000' in 'partitions' is not a partition number" in log_of(cluster)


def test_ready_after_a_restart_means_that_old_topics_are_served(
    make_cluster: MakeCluster, look: Callable[[EmbeddedCluster], RegistryClient]
) -> None:
    """Each broker reports all partitions as available at once."""
    cluster = make_cluster(2)
    create_topic(cluster.bootstrap, "old", 4, {})
    run(BIG.apply(look(cluster)))
    restart(cluster)
    for broker in cluster.brokers:
        with BlockingAdmin(bootstrap_servers=broker.bootstrap) as admin:
            topic = admin.describe_cluster().topics.get("old")
        assert topic is not None and topic.available == (0, 1, 2, 3)
    can_write(cluster, "old", 4)


def test_ready_waits_for_the_leaders(
    make_cluster: MakeCluster, look: Callable[[EmbeddedCluster], RegistryClient]
) -> None:
    """While no controller can be elected, no topic is served, and the cluster is not ready."""
    cluster = make_cluster(1)
    create_topic(cluster.bootstrap, "old", 2, {})
    client = look(cluster)
    (broker,) = cluster.brokers
    assert broker.stop() == 0
    run(client.set(CONTROLLER_EPOCH, b"garbage"))
    run(client.create(CONTROLLER, b'{"version":1,"brokerid":0,"timestamp":"1"}'))  # so that a controller is known
    broker.start()
    with pytest.raises(Exception, match=r"was not ready|had no leader"):
        cluster.wait_ready(timeout_s=8)
    run(client.set(CONTROLLER_EPOCH, b"3"))
    run(client.delete(CONTROLLER))
    cluster.wait_ready()
    can_write(cluster, "old", 2)
    assert log_of(cluster).count("/controller_epoch: b'garbage' is not a number") <= 1


def test_garbage_in_the_controller_epoch_heals_when_it_is_mended(
    make_cluster: MakeCluster, look: Callable[[EmbeddedCluster], RegistryClient]
) -> None:
    cluster = make_cluster(1)
    client = look(cluster)
    run(client.set(CONTROLLER_EPOCH, b"garbage"))
    run(client.delete(CONTROLLER))
    wait_for(lambda: "/controller_epoch: b'garbage' is not a number" in log_of(cluster), "the ERROR")
    run(client.set(CONTROLLER_EPOCH, b"5"))
    wait_for(lambda: run(client.exists(CONTROLLER)), "an election")
    create_topic(cluster.bootstrap, "later", 1, {})
    can_write(cluster, "later")
    assert log_of(cluster).count("is not a number") == 1


@pytest.mark.parametrize("garbage", [b"?", b'{"version":1}', b'{"version":1,"config":{"retention.ms":7}}'])
def test_garbage_in_a_topics_config_is_told_once_and_the_topic_goes_on(
    make_cluster: MakeCluster, look: Callable[[EmbeddedCluster], RegistryClient], garbage: bytes
) -> None:
    cluster = make_cluster(1)
    create_topic(cluster.bootstrap, "t", 2, {"retention.ms": "100000000"})
    client = look(cluster)
    run(client.set("/config/topics/t", garbage))
    run(ConfigRegistry(client).notify("topics", "t"))
    wait_for(lambda: "/config/topics/t" in log_of(cluster), "the ERROR")
    can_write(cluster, "t", 2)
    restart(cluster)
    can_write(cluster, "t", 2)
    errors = [line for line in log_of(cluster).splitlines() if "ERROR" in line and "/config/topics/t" in line]
    assert len(errors) == 2  # each of the two processes logs one


@pytest.mark.long
def test_real_brokers_under_hostile_znodes(
    make_cluster: MakeCluster, look: Callable[[EmbeddedCluster], RegistryClient], process_campaign_seed: int
) -> None:
    cluster = make_cluster(2)
    for topic in ("old", *VICTIMS):
        create_topic(cluster.bootstrap, topic, 2, {})
    client = look(cluster)
    source = ZnodeSource(random.Random(process_campaign_seed), [0, 1])
    cluster_id, epoch = run(client.get("/cluster/id"))[0], run(client.get(CONTROLLER_EPOCH))[0]
    applied = []
    for _ in range(MUTATIONS):
        mutation = source.next()
        if not mutation.path.startswith("/brokers/ids/"):  # brokers write these only when they register
            applied.append(mutation)
            run(mutation.apply(client))
    run(Mutation(CONTROLLER, delete=True).apply(client))
    run(Mutation(CONTROLLER_EPOCH, b"%d" % (int(epoch) + MUTATIONS)).apply(client))
    run(Mutation("/cluster/id", cluster_id).apply(client))  # without this znode, brokers refuse to start, as in Kafka
    create_topic(cluster.bootstrap, "later", 2, {})
    can_write(cluster, "later", 2)
    restart(cluster)
    can_write(cluster, "old", 2)
    run(Mutation("/latest_producer_id_block", delete=True).apply(client))
    create_topic(cluster.bootstrap, "latest", 1, {})
    with BlockingProducer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send("latest", b"x").result(20)
    assert "Traceback" not in log_of(cluster), applied
