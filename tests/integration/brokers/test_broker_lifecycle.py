"""Brokers are killed, paused, restarted and started twice, on a real ZooKeeper.

The tests check the effect on registry, controller and clients. The registrations of brokers and the controller's znode
are ephemeral.
"""

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import ConnectionLoss, NoNode
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.testing.plugin import MakeCluster, MakeTopic, MakeZkClient, MakeZooKeeper
from kafka_zk.testing.timings import SESSION_TIMEOUT_MS
from kafka_zk.testing.zookeeper import Chroot, quick_cluster
from tests.integration.processes import wait_for

pytestmark = pytest.mark.integration


class Registration(NamedTuple):
    """A broker's znode: its epoch and the session that owns it."""

    epoch: int
    session_id: int


class Watched(NamedTuple):
    """A cluster, and a client of its ZooKeeper."""

    cluster: EmbeddedCluster
    client: RegistryClient

    def registration(self, broker_id: int) -> Registration | None:
        async def look() -> Registration | None:
            stat = await self.client.exists(f"/brokers/ids/{broker_id}")
            return Registration(stat.czxid, stat.ephemeral_owner) if stat else None

        return run_blocking(look())

    def controller(self) -> int | None:
        async def look() -> int | None:
            try:
                data, _ = await self.client.get("/controller")
            except NoNode:
                return None
            broker_id: int = json.loads(data or b"{}")["brokerid"]
            return broker_id

        return run_blocking(look())

    def controller_epoch(self) -> int:
        async def look() -> int:
            return int((await self.client.get("/controller_epoch"))[0] or b"0")

        return run_blocking(look())

    def other_than_controller(self) -> int:
        return next(broker.broker_id for broker in self.cluster.brokers if broker.broker_id != self.controller())


@pytest.fixture
def watch(make_zk_client: MakeZkClient) -> Callable[[EmbeddedCluster], Watched]:
    return lambda cluster: Watched(cluster, make_zk_client(cluster.zookeeper_connect))


@pytest.fixture
def one(make_cluster: MakeCluster, watch: Callable[[EmbeddedCluster], Watched]) -> Watched:
    return watch(make_cluster(broker_count=1))


@pytest.fixture
def two(make_cluster: MakeCluster, watch: Callable[[EmbeddedCluster], Watched]) -> Watched:
    return watch(make_cluster(broker_count=2))


def test_a_killed_controller_is_replaced_within_its_session_and_comes_back_as_a_broker(two: Watched) -> None:
    killed = two.controller()
    assert killed is not None
    survivor, epoch = 1 - killed, two.controller_epoch()
    two.cluster.brokers[killed].kill()
    started_s = time.monotonic()
    wait_for(lambda: two.controller() == survivor, "the election")
    assert time.monotonic() - started_s < SESSION_TIMEOUT_MS / 1000 + 3
    assert two.controller_epoch() == epoch + 1
    wait_for(lambda: _knows(two.cluster.brokers[survivor], {survivor}, survivor), "the survivor's view")
    two.cluster.restart_broker(killed)
    assert two.controller() == survivor


@pytest.mark.embedded
def test_a_restart_faster_than_the_session_waits_for_the_old_registration_to_vanish(
    zookeeper: Chroot, tmp_path: Path, watch: Callable[[EmbeddedCluster], Watched]
) -> None:
    """No supervisor closes the session of the dead broker."""
    with quick_cluster(tmp_path, 1, zookeeper.connect_string, supervised=False) as cluster:
        _restart_within_the_session(watch(cluster))


def _restart_within_the_session(one: Watched) -> None:
    before = one.registration(0)
    one.cluster.brokers[0].kill()
    assert one.registration(0) == before, "the session did not outlive the process"
    one.cluster.restart_broker(0)
    after = one.registration(0)
    assert before and after
    assert after.epoch > before.epoch
    assert after.session_id != before.session_id


def test_a_clean_stop_leaves_the_registry_at_once(one: Watched) -> None:
    assert one.cluster.brokers[0].stop() == 0
    assert one.registration(0) is None
    assert one.controller() is None


def test_a_broker_paused_beyond_its_session_registers_again_and_serves(two: Watched, make_topic: MakeTopic) -> None:
    paused = two.other_than_controller()
    broker, controller = two.cluster.brokers[paused], two.controller()
    before = two.registration(paused)
    topic = make_topic(partitions=4, cluster=two.cluster)
    with broker.paused():
        wait_for(lambda: two.registration(paused) is None, "the end of the session")
    wait_for(lambda: two.registration(paused) is not None, "the new registration")
    after = two.registration(paused)
    assert before and after and after.epoch > before.epoch
    two.cluster.wait_ready()
    assert two.controller() == controller
    _write_and_read(two.cluster, topic, partitions=4)


def test_a_paused_controller_finds_itself_replaced(two: Watched, make_topic: MakeTopic) -> None:
    paused = two.controller()
    assert paused is not None
    with two.cluster.brokers[paused].paused():
        wait_for(lambda: two.controller() == 1 - paused, "the election")
        epoch = two.controller_epoch()
    wait_for(lambda: _knows(two.cluster.brokers[paused], {0, 1}, 1 - paused), "the old controller's view")
    assert two.controller() == 1 - paused
    assert two.controller_epoch() == epoch, "another election took place when it woke up"
    _write_and_read(two.cluster, make_topic(partitions=4, cluster=two.cluster), partitions=4)


@pytest.mark.embedded
def test_a_second_broker_with_the_same_id_is_refused_and_the_first_goes_on(one: Watched, make_topic: MakeTopic) -> None:
    first = one.cluster.brokers[0]
    topic = make_topic(cluster=one.cluster)
    before = one.registration(0)
    folder = one.cluster.data_dir / "twin"
    properties = {"zookeeper.session.timeout.ms": "2000"}
    twin = BrokerProcess(folder, 0, 0, one.cluster.zookeeper_connect, properties)
    twin.start()
    wait_for(lambda: not twin.alive, "the refusal")
    assert twin.process.exit_code == 1
    refusal = f"broker id 0 is already registered by a live broker at 127.0.0.1:{first.port}"
    assert refusal in twin.process.recent_output()
    assert one.registration(0) == before
    _write_and_read(one.cluster, topic, partitions=1)


def test_a_killed_broker_comes_back_with_what_it_acknowledged(two: Watched, make_topic: MakeTopic) -> None:
    """The other broker stays usable. Afterwards, every record is there once, in order."""
    killed = two.other_than_controller()
    topic = make_topic(partitions=2, cluster=two.cluster)
    partition = _partition_led_by(two.cluster, topic, killed)
    values = [b"%d" % number for number in range(500)]
    with BlockingProducer(bootstrap_servers=two.cluster.bootstrap) as producer:
        for value in values:
            producer.send(topic, value, partition=partition)
    two.cluster.brokers[killed].kill()
    wait_for(lambda: two.registration(killed) is None, "the end of the session")
    survivor = two.cluster.brokers[1 - killed].bootstrap
    with BlockingProducer(bootstrap_servers=survivor) as producer:
        producer.send(topic, b"meanwhile", partition=1 - partition).result(20)
    two.cluster.restart_broker(killed)
    tp = TopicPartition(topic, partition)
    with BlockingReader(bootstrap_servers=two.cluster.bootstrap) as reader:
        reader.assign({tp: "earliest"})
        read = [record.value for batch in reader.batches(reader.end_offsets([tp])) for record in batch]
    assert read == values


def test_a_second_broker_on_the_same_folder_is_refused(one: Watched, make_topic: MakeTopic) -> None:
    """The lock of the log directory refuses the second process, whatever its broker id."""
    topic = make_topic(cluster=one.cluster)
    folder = one.cluster.data_dir / "squatter"
    properties = {"log.dirs": str(one.cluster.brokers[0].log_dir)}
    squatter = BrokerProcess(folder, 7, 0, one.cluster.zookeeper_connect, properties)
    squatter.start()
    wait_for(lambda: not squatter.alive, "the refusal")
    assert squatter.process.exit_code == 1
    assert "in use by another process" in squatter.process.recent_output()
    _write_and_read(one.cluster, topic, partitions=1)


@pytest.mark.embedded
def test_a_zookeeper_that_restarts_is_no_outage(
    make_cluster: MakeCluster, make_zookeeper: MakeZooKeeper, watch: Callable[[EmbeddedCluster], Watched],
    make_topic: MakeTopic,
) -> None:  # fmt: skip
    zookeeper = make_zookeeper()
    watched = watch(make_cluster(broker_count=1, zookeeper=zookeeper))
    topic = make_topic(cluster=watched.cluster)
    _write_and_read(watched.cluster, topic, partitions=1)  # from here on, the broker has a block of producer ids
    before = watched.registration(0)
    zookeeper.stop()
    _write_and_read(watched.cluster, topic, partitions=1)
    zookeeper.start()
    watched.cluster.wait_ready()
    with contextlib.suppress(ConnectionLoss):  # this test's client may not have noticed the restart yet
        watched.registration(0)
    assert watched.registration(0) == before
    later = make_topic(cluster=watched.cluster)
    _write_and_read(watched.cluster, later, partitions=1)


def test_an_expired_session_is_answered_by_a_new_registration_without_an_outage(
    one: Watched, expire_session: Callable[[int], None], make_topic: MakeTopic
) -> None:
    topic = make_topic(cluster=one.cluster)
    before = one.registration(0)
    assert before
    expire_session(before.session_id)
    _write_and_read(one.cluster, topic, partitions=1)
    wait_for(lambda: one.registration(0) is not None, "the new registration")
    after = one.registration(0)
    assert after and after.epoch > before.epoch
    one.cluster.wait_ready()
    _write_and_read(one.cluster, make_topic(cluster=one.cluster), partitions=1)


def _partition_led_by(cluster: EmbeddedCluster, topic: str, broker_id: int) -> int:
    with BlockingReader(bootstrap_servers=cluster.bootstrap) as reader:
        return next(each.partition for each in reader.partitions_for(topic).partitions if each.leader == broker_id)


def _knows(broker: BrokerProcess, broker_ids: set[int], controller_id: int) -> bool:
    view = broker.view()
    return view is not None and view.broker_ids == broker_ids and view.controller_id == controller_id


def _write_and_read(cluster: EmbeddedCluster, topic: str, partitions: int) -> None:
    """Check that every partition accepts a record and returns it."""
    with BlockingProducer(bootstrap_servers=cluster.bootstrap) as producer:
        futures = [producer.send(topic, b"alive", partition=number) for number in range(partitions)]
        written = [future.result(20) for future in futures]
    with BlockingReader(bootstrap_servers=cluster.bootstrap) as reader:
        for each in written:
            reader.assign({TopicPartition(topic, each.partition): each.offset})
            assert reader.poll(20_000)[0].value == b"alive"
