"""A thousand partitions on one broker: made, listed, written to, restarted, killed, deleted, and few descriptors."""

import time

import pytest

from kafka_zk.client.blocking_admin import BlockingAdmin
from kafka_zk.embedded.cluster import EmbeddedCluster
from storage.record_batch import RecordBatchBuilder
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
"""A broker's without partitions: sockets, epoll, standard streams, the lock of its folder, and some to spare."""


def all_answer(cluster: EmbeddedCluster) -> dict[int, int]:
    """The log end of every partition, as soon as all of them are led."""
    with Wire(cluster.brokers[0].port, TIMEOUT_S) as wire:
        wait_for(lambda: not wire.unanswered(TOPIC, ALL), "an answer for every partition", TIMEOUT_S)
        return wire.end_offsets(TOPIC, ALL)


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
    left = f"{TOPIC}-*[0-9]"  # not yet renamed for their deletion
    wait_for(lambda: not list(broker.log_dir.glob(left)), "the deletion of all folders", TIMEOUT_S)
