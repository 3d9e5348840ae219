"""A broker's thousand partitions are created, listed, written to and deleted, across a restart and a crash, with few
descriptors.
"""

import time
from collections.abc import Sequence

import pytest

from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from tests.bench.measure import descriptor_count
from tests.bench.partition_wire import Wire
from tests.integration.processes import wait_for
from tests.soak.brokers import crashed_broker_returns

pytestmark = pytest.mark.integration

TOPIC = "many"
ALL = range(1000)
WRITTEN = range(0, 1000, 50)
TIMEOUT_S = 120
OWN_DESCRIPTORS = 40
"""The descriptors of a broker without partitions: sockets, epoll, standard streams, the lock of its folder, and a
reserve.
"""


def all_answer(cluster: EmbeddedCluster, partitions: Sequence[int] = ALL) -> dict[int, int]:
    """The log end of every partition, as soon as all have leaders."""
    with Wire(cluster.brokers[0].port, TIMEOUT_S) as wire:
        wait_for(lambda: not wire.unanswered(TOPIC, partitions), "an answer for every partition", TIMEOUT_S)
        return wire.end_offsets(TOPIC, partitions)


def test_a_thousand_partitions(make_cluster) -> None:  # type: ignore[no-untyped-def]
    cluster: EmbeddedCluster = make_cluster(1)
    (broker,) = cluster.brokers
    with Wire(broker.port, TIMEOUT_S) as wire:
        wire.send_create([TOPIC], len(ALL), TIMEOUT_S * 1000)
        wire.receive_create()
    assert all_answer(cluster) == dict.fromkeys(ALL, 0)
    assert descriptor_count(broker.pid) < OWN_DESCRIPTORS
    with BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        assert len(admin.describe_cluster().topics[TOPIC].available) == len(ALL)

    builder = RecordBatchBuilder()
    builder.append(time.time_ns() // 1_000_000, None, b"value")
    with Wire(broker.port, TIMEOUT_S) as wire:
        wire.produce(TOPIC, WRITTEN, bytes(builder.build()))
    written = dict.fromkeys(ALL, 0) | dict.fromkeys(WRITTEN, 1)
    assert all_answer(cluster) == written
    assert descriptor_count(broker.pid) < OWN_DESCRIPTORS + len(WRITTEN)

    assert broker.stop() == 0
    cluster.restart_broker(0)
    assert all_answer(cluster) == written
    assert descriptor_count(broker.pid) < OWN_DESCRIPTORS

    crashed_broker_returns(cluster)
    assert all_answer(cluster) == written
    assert descriptor_count(broker.pid) < OWN_DESCRIPTORS

    with Wire(broker.port, TIMEOUT_S) as wire:
        wait_for(lambda: TOPIC.encode() in wire.metadata(), "the topic in the broker's metadata", TIMEOUT_S)
        wire.delete(TOPIC, TIMEOUT_S * 1000)
        assert TOPIC.encode() not in wire.metadata()
    left = f"{TOPIC}-*[0-9]"  # folders that are not yet renamed for their deletion
    wait_for(lambda: not list(broker.log_dir.glob(left)), "the deletion of all folders", TIMEOUT_S)


@pytest.mark.long
def test_long_work_never_looks_like_a_freeze(make_cluster, make_zk_client) -> None:  # type: ignore[no-untyped-def]
    """5,000 partitions are created, written to and deleted, across a restart and a kill, in a session of 6 s.

    No turn of the reactor takes a second, so the watchdog logs nothing, and the session is never in danger.
    """
    cluster: EmbeddedCluster = make_cluster(1, {"zookeeper.session.timeout.ms": "6000"})
    client: RegistryClient = make_zk_client(cluster.zookeeper_connect)
    (broker,) = cluster.brokers
    partitions = range(5000)

    def session() -> int:
        async def look() -> int:
            stat = await client.exists("/brokers/ids/0")
            return stat.ephemeral_owner if stat else 0

        return run_blocking(look())

    def nothing_was_told() -> None:
        told = [line for line in broker.process.output().splitlines() if "kafka_zk.broker.metrics.watchdog" in line]
        assert not told, "\n".join(told)

    first = session()
    with Wire(broker.port, TIMEOUT_S) as wire:
        wire.send_create([TOPIC], len(partitions), TIMEOUT_S * 1000)
        wire.receive_create()
    all_answer(cluster, partitions)
    builder = RecordBatchBuilder()
    builder.append(time.time_ns() // 1_000_000, None, b"value")
    with Wire(broker.port, TIMEOUT_S) as wire:
        for number in partitions[::500]:
            wire.produce(TOPIC, partitions[number : number + 500], bytes(builder.build()))
    assert session() == first
    assert broker.stop(TIMEOUT_S) == 0
    nothing_was_told()

    cluster.restart_broker(0)
    assert set(all_answer(cluster, partitions).values()) == {1}
    nothing_was_told()

    crashed_broker_returns(cluster)
    second = session()
    assert set(all_answer(cluster, partitions).values()) == {1}
    with Wire(broker.port, TIMEOUT_S) as wire:
        wait_for(lambda: TOPIC.encode() in wire.metadata(), "the topic in the broker's metadata", TIMEOUT_S)
        wire.delete(TOPIC, TIMEOUT_S * 1000)
    left = f"{TOPIC}-*[0-9]"
    wait_for(lambda: not list(broker.log_dir.glob(left)), "the deletion of all folders", TIMEOUT_S)
    assert session() == second
    nothing_was_told()
