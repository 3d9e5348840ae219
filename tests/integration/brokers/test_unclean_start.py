"""The controller's machine loses power, and the broker is back before its session ends, so that no controller sees it
leave.

A copy of its data directory from before the last records represents the state after the power loss.
"""

import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_zk.base.types import TopicPartition
from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.ports import LOCALHOST
from kafka_zk.embedded.session_expiry import expire_session
from kafka_zk.registry.client.client import ZnodeStat
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.registry.unclean_starts import read_unclean_starts
from kafka_zk.registry.znodes import controller
from kafka_zk.registry.znodes.brokers import broker_path
from kafka_zk.registry.znodes.topics import LeaderIsrAndControllerEpoch
from kafka_zk.testing.clients import blocking_client
from tests.integration.brokers.test_replication import records, wait_for_equal_replicas
from tests.integration.processes import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

TP = TopicPartition("t", 0)
RECORDS = 100


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """Three brokers whose sessions do not expire by themselves."""
    properties = {
        "zookeeper.session.timeout.ms": "40000",
        "min.insync.replicas": "2",
        "replica.fetch.backoff.ms": "200",
    }
    with EmbeddedCluster(tmp_path, broker_count=3, properties=properties, force_sync=False, supervised=False) as made:
        yield made


@pytest.fixture
def client(cluster: EmbeddedCluster) -> Iterator[KazooBlockingClient]:
    with blocking_client(cluster.zookeeper_connect) as made:
        yield made


def registration(client: KazooBlockingClient, broker_id: int) -> ZnodeStat | None:
    async def look() -> ZnodeStat | None:
        return await client.exists(broker_path(broker_id))

    return run_blocking(look())


def state(client: KazooBlockingClient) -> LeaderIsrAndControllerEpoch:
    return run_blocking(TopicRegistry(client).states([TP]))[TP]


def controller_id(client: KazooBlockingClient) -> int:
    async def look() -> int:
        return controller.decode((await client.get(controller.CONTROLLER))[0]).broker_id

    return run_blocking(look())


def send(cluster: EmbeddedCluster, first: int) -> dict[int, bytes]:
    """Send numbered records with acks=all; return the acknowledged ones by offset."""
    acknowledged: dict[int, bytes] = {}

    def delivered(error: object, message: Any) -> None:
        assert error is None, error
        acknowledged[message.offset()] = message.value()

    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "log_level": 0, "acks": "all", "enable.idempotence": True}
    )
    for number in range(first, first + RECORDS):
        producer.produce(TP.topic, str(number).encode(), partition=TP.partition, on_delivery=delivered)
    assert producer.flush(60) == 0
    return acknowledged


def wait_until_it_listens(broker: BrokerProcess) -> None:
    """Once the broker listens, its logs are open, and it is about to register."""

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((LOCALHOST, broker.port)) == 0

    wait_for(listens, "a broker that listens", 60)


def test_a_leader_that_lost_its_page_cache_unnoticed_leads_no_more(
    cluster: EmbeddedCluster, client: KazooBlockingClient, tmp_path: Path
) -> None:
    victim = controller_id(client)
    others = [broker for broker in cluster.brokers if broker.broker_id != victim]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    assignment = [[victim, *(broker.broker_id for broker in others)]]
    for created in admin.create_topics([NewTopic(TP.topic, 1, replica_assignment=assignment)]).values():
        created.result(30)
    acknowledged = send(cluster, 0)
    broker, copy = cluster.brokers[victim], tmp_path / "copy"
    shutil.copytree(broker.log_dir, copy)
    acknowledged |= send(cluster, RECORDS)
    before, ghost = state(client), registration(client, victim)
    assert (before.leader, sorted(before.isr)) == (victim, [0, 1, 2])
    assert ghost is not None

    broker.kill()
    shutil.rmtree(broker.log_dir)
    copy.rename(broker.log_dir)
    broker.start()
    wait_until_it_listens(broker)
    assert registration(client, victim) == ghost  # no controller has seen it leave

    def is_back() -> bool:
        stat = registration(client, victim)
        return stat is not None and stat.czxid > ghost.czxid

    with ExitStack() as paused:
        for other in others:
            paused.enter_context(other.paused())
        assert cluster.zookeeper is not None
        expire_session(LOCALHOST, cluster.zookeeper.port, ghost.ephemeral_owner)
        wait_for(is_back, "the registration of the broker", 60)  # before any other controller is elected

    wait_for(lambda: state(client).leader_epoch > before.leader_epoch, "a new leader", 60)
    assert state(client).leader != victim
    acknowledged |= send(cluster, 2 * RECORDS)
    wait_for(lambda: sorted(state(client).isr) == [0, 1, 2], "the broker in the ISR again", 60)
    wait_for_equal_replicas(cluster, TP.topic)
    assert len(acknowledged) == 3 * RECORDS
    assert records(broker, *TP) == acknowledged
    wait_for(lambda: run_blocking(read_unclean_starts(client)) == {}, "no unclean start that matters", 20)
