"""Which operations wait for a broker that does not respond, and which requests a controller still sends after its
term."""

from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.channels import Channels
from kafka_zk.broker.controller.config import ControllerConfig
from kafka_zk.broker.controller.context import LeadershipInfo
from kafka_zk.broker.controller.control_requests import (
    PARTITIONS_AT_ONCE,
    ClusterUpdate,
    PartitionMetadata,
    Sender,
    UpdateMetadataRequest,
)
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.znodes.brokers import BrokerInfo, EndPoint
from kafka_zk.registry.znodes.topics import topic_path
from tests.kafka_zk.broker.controller.world import Cluster

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


def update_of(partitions: range, leader_epoch: int) -> ClusterUpdate:
    news = PartitionMetadata(LeadershipInfo(1, [1], leader_epoch, 1), (1,), ())
    return ClusterUpdate({TopicPartition("t", p): news for p in partitions}, {}, (INFO,))


@pytest.mark.parametrize(
    ("older", "newer", "count"),
    [
        (range(600), range(600), 600),
        (range(900), range(900, PARTITIONS_AT_ONCE + 1), None),
        (range(PARTITIONS_AT_ONCE + 1), range(1), None),
        (range(1), range(PARTITIONS_AT_ONCE + 1), PARTITIONS_AT_ONCE + 1),
        (range(3), range(2, 5), 5),
    ],
)
def test_updates_are_merged_unless_the_message_grew_too_big(older: range, newer: range, count: int | None) -> None:
    merged = update_of(older, 1).merged(update_of(newer, 2))
    if count is None:
        assert merged is None
    else:
        assert merged is not None and len(merged.partitions) == count
        epochs = {tp.partition: news.info.leader_epoch for tp, news in merged.partitions.items()}
        assert epochs == {p: 2 if p in newer else 1 for p in {*older, *newer}}


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
    from kafka_zk.broker.controller.store import ControllerStore

    cluster = Cluster(3)
    cluster.create("t", {0: [1, 2]})
    cluster.settle()
    cluster.kill(2)
    cluster.settle(10_000)
    read, over = ControllerStore.brokers, list[Deferred[None]]()

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


def test_a_deletion_that_waits_for_a_dead_broker_is_not_tried_meanwhile() -> None:
    cluster = Cluster(3)
    cluster.create("t", {0: [1, 2]})
    cluster.settle()
    cluster.kill(2)
    cluster.settle(10_000)
    cluster.delete("t")
    cluster.settle(2000)
    before = len(cluster.brokers[1].requests)
    cluster.settle(60_000)
    assert len(cluster.brokers[1].requests) == before
