"""What waits for a broker that does not answer, and what a controller that is over still sends."""

from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from kafka_zk.controller.channels import Channels
from kafka_zk.controller.config import ControllerConfig
from kafka_zk.controller.context import LeadershipInfo
from kafka_zk.controller.control_requests import ClusterUpdate, PartitionMetadata, Sender, UpdateMetadataRequest
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.znodes.brokers import BrokerInfo, EndPoint
from kafka_zk.registry.znodes.topics import topic_path
from kafka_zk.storage.types import TopicPartition
from tests.kafka_zk.controller.world import Cluster

INFO = BrokerInfo.of(1, (EndPoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9001),))


def channels(connect: Any) -> Channels:
    return Channels(Clock(), connect, lambda *_: None, lambda *_: None, ControllerConfig().versions)


def test_the_queue_of_a_silent_broker_does_not_grow_with_news_of_the_same_partitions() -> None:
    async def connect(_: BrokerInfo) -> Any:
        return await Deferred()

    made = channels(connect)
    made.add(INFO)
    for number in range(100):
        news = PartitionMetadata(LeadershipInfo(1, [1], number, 1), (1,), ())
        update = ClusterUpdate({TopicPartition("t", p): news for p in range(600)}, {}, (INFO,))
        made.send(1, UpdateMetadataRequest(Sender(0, 1, 1), update))
    assert made.queued()[1] <= 3


def test_channels_that_are_closed_open_no_more() -> None:
    asked = []

    async def connect(info: BrokerInfo) -> Any:
        asked.append(info)
        return await Deferred()

    made = channels(connect)
    made.close()
    made.add(INFO)
    made.send(1, UpdateMetadataRequest(Sender(0, 1, 1), ClusterUpdate({}, {}, (INFO,))))
    assert not asked


def test_a_controller_that_resigns_while_it_hears_of_a_broker_sends_nothing_afterwards(monkeypatch: Any) -> None:
    from kafka_zk.controller.store import ControllerStore

    cluster = Cluster(3)
    cluster.create("t", {0: [1, 2]})
    cluster.settle()
    cluster.kill(2)
    cluster.settle(10_000)
    read, over = ControllerStore.brokers, []

    async def brokers(self: ControllerStore) -> Any:
        found = await read(self)
        if 2 in found and not over:
            over.append(ensureDeferred(cluster.brokers[0].controller.shutdown()))
        return found

    monkeypatch.setattr(ControllerStore, "brokers", brokers)
    broker = cluster.restart(2)
    cluster.settle(2000)
    assert over and [r.controller_epoch for _, r in broker.requests if r.controller_epoch == 1] == []


def test_a_deletion_that_a_broker_refused_once_is_tried_again() -> None:
    cluster = Cluster(3)
    cluster.create("t", {0: [1, 2]})
    cluster.settle()
    cluster.brokers[1].refusals[TopicPartition("t", 0)] = ErrorCode.UNKNOWN_SERVER_ERROR
    cluster.delete("t")
    cluster.settle(2000)
    cluster.brokers[1].refusals.clear()
    cluster.settle(60_000)
    assert cluster.paths(topic_path("t")) == []
