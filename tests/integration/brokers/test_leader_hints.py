"""A partition moves, and our producer and reader follow it without a metadata request, because the broker that gets
their request names the new leader (KIP-951).
"""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.admin import NewTopic
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.plugin import MakeCluster
from tests.peers.processes import wait_until

pytestmark = pytest.mark.integration

_TP = TopicPartition("moving", 0)
_MOVE_TIMEOUT_S = 30


@pytest.fixture
def cluster(make_cluster: MakeCluster) -> EmbeddedCluster:
    """Two brokers: broker 0 leads the topic's only partition, and broker 1 follows."""
    made = make_cluster(2)
    with BlockingAdmin(bootstrap_servers=made.bootstrap) as admin:
        admin.create_topics([NewTopic(_TP.topic, assignment={0: [0, 1]})])
    return made


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[Cluster]:
    """The metadata that clients in this process fetch, one entry for each fetch."""
    fetches: list[Cluster] = []
    fetch: Callable[[Cluster], Any] = Cluster._fetch

    async def counted(self: Cluster) -> None:
        fetches.append(self)
        await fetch(self)

    monkeypatch.setattr(Cluster, "_fetch", counted)
    return fetches


def _move(cluster: EmbeddedCluster) -> None:
    """Make broker 1 the leader, and wait until both brokers have learned it."""
    with BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.alter_reassignments({_TP: [1, 0]})
        wait_until(lambda: not admin.list_reassignments(), _MOVE_TIMEOUT_S, "the new order of the replicas")
        assert set(admin.elect_leaders([_TP]).values()) == {None}
    wait_until(lambda: set(map(_leader, cluster.brokers)) == {1}, _MOVE_TIMEOUT_S, "the new leader")


def _leader(broker: BrokerProcess) -> int:
    """The leader in this broker's metadata, which decides where a client's first request goes."""
    with BlockingAdmin(bootstrap_servers=broker.bootstrap) as admin:
        return admin.describe_topics([_TP.topic])[_TP.topic].partitions[0].leader


def test_a_producer_and_a_reader_follow(cluster: EmbeddedCluster, fetched: list[Cluster]) -> None:
    """Neither client sends a request during the move, when a broker could name a leader that does not lead yet."""
    with (
        BlockingProducer(bootstrap_servers=cluster.bootstrap) as producer,
        BlockingReader(bootstrap_servers=cluster.bootstrap) as reader,
    ):
        assert producer.send(_TP.topic, b"1", partition=0).result(30).offset == 0
        reader.assign({_TP: 0})
        assert [record.value for record in reader.poll(10_000)] == [b"1"]
        reader.assign({})
        _move(cluster)
        del fetched[:]
        assert producer.send(_TP.topic, b"2", partition=0).result(30).offset == 1
        reader.assign({_TP: 1})
        assert [record.value for record in reader.poll(10_000)] == [b"2"]
        assert fetched == []
