"""Three ZooKeepers and three brokers in containers: the ensemble's leader is killed while a group reads the load."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.testing.broker_container import ContainerCluster
from kafka_zk.testing.clients import create_topic
from kafka_zk.testing.zookeeper_container import ZooKeeperContainer, ZooKeeperEnsemble
from tests.integration.groups.members import Member, settled
from tests.integration.processes import wait_for

pytestmark = pytest.mark.containers

PARTITIONS = 6
SESSION_TIMEOUT_MS = 10_000
PAUSE_S = 0.005
STEP = 100  # records that must be acknowledged at each stage before the test continues
TIMEOUT_S = 120


class Load:
    """Writes numbered records, key by key, until ``end``, and records which of them were acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self.acknowledged: dict[bytes, tuple[int, int]] = {}
        self.failures: list[Exception] = []

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ending.set()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with BlockingProducer(bootstrap_servers=self._bootstrap, delivery_timeout_ms=TIMEOUT_S * 1000) as producer:
            number = 0
            while not self._ending.wait(PAUSE_S):
                value = b"%d" % number
                try:
                    written = producer.send(self._topic, value, partition=number % PARTITIONS).result()
                except KafkaError as error:
                    self.failures.append(error)
                    return
                self.acknowledged[value] = (written.partition, written.offset)
                number += 1


def more_acknowledged(load: Load) -> Callable[[], bool]:
    target = len(load.acknowledged) + STEP
    return lambda: len(load.acknowledged) >= target or bool(load.failures)


def new_leader(ensemble: ZooKeeperEnsemble, old: ZooKeeperContainer) -> Callable[[], bool]:
    return lambda: (leader := ensemble.leader()) is not None and leader is not old


@pytest.fixture
def ensemble(zookeeper_image: str) -> Iterator[ZooKeeperEnsemble]:
    """Sessions last 10 s, because an election takes some time on a busy machine."""
    with ZooKeeperEnsemble(zookeeper_image, tick_time_ms=500) as ensemble:
        yield ensemble


@pytest.fixture
def cluster(ensemble: ZooKeeperEnsemble, broker_image: str, tmp_path: Path) -> Iterator[ContainerCluster]:
    with ContainerCluster(
        tmp_path,
        image=broker_image,
        network=ensemble.network,
        container=ensemble,
        chroot="/kafka",
        properties={"zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS)},
    ) as cluster:
        create_topic(cluster.bootstrap, "load", PARTITIONS, {})
        yield cluster


@pytest.fixture
def group(cluster: ContainerCluster) -> Iterator[list[Member]]:
    """Two members of a group, which share the partitions."""
    with ExitStack() as members:
        made = []
        for _ in range(2):
            member = Member(
                ["load"],
                group_id="readers",
                zookeeper_connect=cluster.zookeeper_connect,
                zookeeper_session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_max_retries=100,  # until the ensemble has a leader again
            )
            members.callback(member.close)
            made.append(member)
        settled(*made, partitions=PARTITIONS)
        yield made


def test_a_killed_zookeeper_leader_under_load_costs_nothing(
    ensemble: ZooKeeperEnsemble, cluster: ContainerCluster, group: list[Member]
) -> None:
    """Every acknowledged record exists once, in order, and was delivered; brokers, controller and group survive, and
    topics can be created in the meantime.
    """
    load = Load(cluster.bootstrap, "load")
    load.start()
    try:
        wait_for(more_acknowledged(load), "records before the kill", TIMEOUT_S)
        old = ensemble.leader()
        assert old is not None
        old.kill()
        wait_for(new_leader(ensemble, old), "a new leader", TIMEOUT_S)
        wait_for(more_acknowledged(load), "records after the kill", TIMEOUT_S)
        cluster.wait_ready()  # each of the three brokers knows all brokers and a controller
        create_topic(cluster.bootstrap, "made-meanwhile", 3, {})
        old.start()
        wait_for(lambda: old.report().mode == "follower", "the killed server as a follower", TIMEOUT_S)
        wait_for(more_acknowledged(load), "records after the return", TIMEOUT_S)
    finally:
        load.end()
    assert load.failures == []
    assert read_all(cluster.bootstrap, len(load.acknowledged)) == load.acknowledged
    wait_for(lambda: delivered(group) >= set(load.acknowledged.values()), "the delivery of every record", TIMEOUT_S)
    settled(*group, partitions=PARTITIONS)


def delivered(group: list[Member]) -> set[tuple[int, int]]:
    """(partition, offset) of every record that some member was given."""
    return {
        (tp.partition, offset) for member in group for tp, offsets in list(member.offsets.items()) for offset in offsets
    }


def read_all(bootstrap: str, count: int) -> dict[bytes, tuple[int, int]]:
    """Every record of the topic with its place; the numbers must grow within a partition, so no record exists twice."""
    found: dict[bytes, tuple[int, int]] = {}
    last = [-1] * PARTITIONS
    deadline_s = time.monotonic() + TIMEOUT_S
    with BlockingReader(bootstrap_servers=bootstrap) as reader:
        reader.assign({TopicPartition("load", partition): 0 for partition in range(PARTITIONS)})
        while len(found) < count and time.monotonic() < deadline_s:
            for record in reader.poll(1_000):
                assert record.value is not None
                assert int(record.value) > last[record.partition]
                last[record.partition] = int(record.value)
                found[record.value] = (record.partition, record.offset)
    return found
