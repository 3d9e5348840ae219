"""One broker's queue: order, retries, merging, shutdown."""

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kafka_zk.broker.config.inter_broker_protocol import control_versions
from kafka_zk.broker.controller.channels import BrokerChannel, Channels, ConnectPace, UnsupportedPeer
from kafka_zk.broker.controller.control_requests import (
    Answer,
    ClusterUpdate,
    ControlRequest,
    PartitionMetadata,
    Sender,
    StopPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafka_zk.protocol import codec
from kafka_zk.protocol.primitives import Buffer
from kafka_zk.registry.znodes.brokers import BrokerInfo
from tests.kafka_zk.broker.controller.test_machines import T0, T1, broker, info
from tests.kafka_zk.broker.controller.world import OUR_VERSIONS

SENDER = Sender(0, 1, 101)


class Peer:
    """A broker that responds only when the test calls ``answer``."""

    def __init__(self, protocol: str = "3.9") -> None:
        self.clock = Clock()
        self.versions = dict(OUR_VERSIONS)
        self.asked: list[tuple[int, Any]] = []
        self.asked_in: list[int] = []  # versions
        self.waiting: list[Deferred[Any]] = []
        self.connections = 0
        self.disconnected = 0
        self.refuse = False
        self.answers: list[tuple[ControlRequest, Answer]] = []
        self.failures: list[Exception] = []
        self.channel = BrokerChannel(
            broker(1).info,
            self.clock,
            self.connect,
            lambda broker_id, request, answer: self.answers.append((request, answer)),
            lambda broker_id, request, error: self.failures.append(error),
            control_versions(protocol),
            ConnectPace(self.clock),
        )

    async def connect(self, info: BrokerInfo) -> "Peer":
        self.connections += 1
        if self.refuse:
            raise ConnectionRefusedError
        return self

    def request_encoded(self, api_key: int, version: int, body: Buffer) -> "Deferred[Any]":
        self.asked_in.append(version)
        self.asked.append((api_key, codec.decode_request(api_key, version, memoryview(body))))
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def disconnect(self) -> None:
        self.disconnected += 1
        for waiting in self.waiting:
            if not waiting.called:
                waiting.errback(ConnectionError("closed"))

    def answer(self) -> None:
        api_key = self.asked[-1][0]
        self.waiting[-1].callback(codec.response(api_key)(error_code=0))


@pytest.fixture
def peer() -> Peer:
    return Peer()


def update(leader: int, partition: Any = T0) -> UpdateMetadataRequest:
    metadata = PartitionMetadata(info(leader, [leader]), (1, 2), ())
    return UpdateMetadataRequest(SENDER, ClusterUpdate({partition: metadata}, {}, (broker(1).info,)))


STOP = StopReplicaRequest(SENDER, {T0: StopPartition(1, False)})


def test_requests_go_one_by_one_in_order(peer: Peer) -> None:
    peer.channel.send(update(1))
    peer.channel.send(STOP)
    assert len(peer.asked) == 1 and peer.channel.queued == 2
    peer.answer()
    assert [api for api, _ in peer.asked] == [6, 5]
    peer.answer()
    assert peer.channel.queued == 0 and len(peer.answers) == 2 and peer.connections == 1


def test_waiting_updates_become_one(peer: Peer) -> None:
    peer.channel.send(update(1))
    peer.channel.send(update(2))
    peer.channel.send(update(3))
    peer.channel.send(update(1, T1))
    assert peer.channel.queued == 2
    peer.answer()
    (topic,) = peer.asked[-1][1].topic_states
    assert [(state.partition_index, state.leader) for state in topic.partition_states] == [(0, 3), (1, 1)]


def test_an_update_does_not_overtake_another_request(peer: Peer) -> None:
    for request in (update(1), update(2), STOP, update(3)):
        peer.channel.send(request)
    assert peer.channel.queued == 4


def test_a_request_is_repeated_over_a_new_connection_until_answered(peer: Peer) -> None:
    peer.channel.send(STOP)
    peer.waiting[0].errback(ConnectionError("lost"))
    assert len(peer.failures) == 1 and len(peer.asked) == 1
    peer.refuse = True
    peer.clock.advance(0.11)
    peer.refuse = False
    peer.clock.advance(0.11)
    assert (peer.connections, len(peer.asked), len(peer.failures)) == (3, 2, 2)
    peer.answer()
    assert len(peer.answers) == 1 and peer.channel.queued == 0


def test_after_close_nothing_is_sent_and_no_answer_counts(peer: Peer) -> None:
    peer.channel.send(STOP)
    peer.channel.send(STOP)
    peer.channel.close()
    peer.channel.send(STOP)
    peer.clock.advance(1)
    assert (len(peer.asked), peer.answers, peer.failures, peer.disconnected) == (1, [], [], 1)


def test_a_connection_made_after_close_is_dropped() -> None:
    peer = Peer()
    connecting: Deferred[Peer] = Deferred()
    channel = BrokerChannel(
        broker(1).info,
        peer.clock,
        lambda _: connecting,
        lambda *_: None,
        lambda *_: None,
        control_versions("3.9"),
        ConnectPace(peer.clock),
    )
    channel.send(STOP)
    channel.close()
    connecting.callback(peer)
    assert peer.disconnected == 1 and peer.asked == []


def test_a_peer_without_a_common_version_is_reported(peer: Peer) -> None:
    peer.versions[5] = (5, 6)
    peer.channel.send(STOP)
    assert isinstance(peer.failures[0], UnsupportedPeer) and "STOP_REPLICA" in str(peer.failures[0])


def test_a_peer_that_does_not_offer_a_request_is_not_sent_it(peer: Peer) -> None:
    """The channel does not fall back to version 0 of the request."""
    del peer.versions[5]
    peer.channel.send(STOP)
    assert isinstance(peer.failures[0], UnsupportedPeer) and peer.asked == []


def test_channels_by_broker(peer: Peer) -> None:
    channels = Channels(peer.clock, peer.connect, lambda *_: None, lambda *_: None, control_versions("3.9"))
    channels.add(broker(1).info)
    channels.add(broker(1).info)
    channels.send(1, STOP)
    channels.send(2, STOP)
    assert channels.queued() == {1: 1} and len(peer.asked) == 1
    channels.remove(1)
    channels.remove(1)
    channels.send(1, STOP)
    assert channels.queued() == {} and len(peer.asked) == 1


def test_a_listener_that_fails_does_not_stop_the_channel(peer: Peer) -> None:
    """Whether the listener raises on a response or on a failure, the next request is still sent."""

    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    peer.channel._on_answer = peer.channel._on_failure = fail
    peer.channel.send(update(1))
    peer.channel.send(update(2, T1))
    peer.answer()
    assert len(peer.asked) == 2
    peer.waiting[-1].errback(ConnectionError("closed"))
    peer.clock.advance(1)
    assert len(peer.asked) == 3
    peer.answer()
    assert peer.channel.queued == 0
    peer.channel.send(update(3))
    assert len(peer.asked) == 4


def test_a_connection_that_cannot_even_be_closed_does_not_stop_the_channel(peer: Peer) -> None:
    def fail() -> None:
        peer.disconnected += 1
        raise ZeroDivisionError

    peer.disconnect = fail  # type: ignore[method-assign]
    peer.channel.send(STOP)
    peer.waiting[-1].errback(ConnectionError("lost"))
    assert peer.disconnected == 1 and len(peer.failures) == 1
    peer.clock.advance(1)
    assert (peer.connections, len(peer.asked)) == (2, 2)
    peer.answer()
    assert peer.channel.queued == 0


def test_the_version_is_that_of_the_inter_broker_protocol() -> None:
    """A broker may support more; the channel uses a lower version only if the broker does not support this one, as in
    Kafka.
    """
    peer = Peer("2.6")
    peer.channel.send(update(1))
    peer.answer()
    peer.channel.send(StopReplicaRequest(SENDER, {T0: StopPartition(3, False)}))
    peer.answer()
    peer.versions[6] = (0, 5)
    peer.channel.send(update(2))
    assert peer.asked_in == [6, 3, 5]


def test_retries_to_many_brokers_are_paced() -> None:
    """300 brokers that do not exist would cause 3,000 connection attempts a second, so the channels try only a few
    every 100 ms.
    """
    for count, retries in [(10, (50, 110)), (300, (50, 150))]:
        peer = Peer()
        peer.refuse = True
        channels = Channels(peer.clock, peer.connect, lambda *_: None, lambda *_: None, control_versions("3.9"))
        for broker_id in range(count):
            channels.add(broker(broker_id).info)
            channels.send(broker_id, STOP)
        peer.clock.pump([0.1] * 10)
        peer.connections = 0
        peer.clock.pump([0.05] * 20)
        assert retries[0] <= peer.connections <= retries[1]
        for broker_id in range(1, count):
            channels.remove(broker_id)
        peer.clock.advance(60)
        peer.connections = 0
        peer.clock.pump([0.05] * 20)
        assert 5 <= peer.connections <= 11


def test_brokers_that_appear_at_once_are_connected_in_turns() -> None:
    """Without turns, 3,000 stale registrations would delay clients for as long as 3,000 refused connections take."""
    peer = Peer()
    peer.refuse = True
    channels = Channels(peer.clock, peer.connect, lambda *_: None, lambda *_: None, control_versions("3.9"))
    for broker_id in range(1_000):
        channels.add(broker(broker_id).info)
        channels.send(broker_id, STOP)
    assert peer.connections <= 200
    in_10_ms = []
    for _ in range(2_000):
        before = peer.connections
        peer.clock.advance(0.01)
        in_10_ms.append(peer.connections - before)
    assert max(in_10_ms) <= 20, "first connections and retries"
    assert sum(in_10_ms) >= 2_000, "every broker is tried more than once"


def test_registrations_that_are_gone_before_their_turn_delay_no_broker() -> None:
    """If each stale registration took a turn of 10 ms, a broker would be without its partitions for 28 s."""
    peer = Peer()
    peer.refuse = True
    channels = Channels(peer.clock, peer.connect, lambda *_: None, lambda *_: None, control_versions("3.9"))
    for broker_id in range(1_000, 4_000):
        channels.add(broker(broker_id).info)
        channels.send(broker_id, STOP)
        channels.remove(broker_id)
    peer.connections = 0
    channels.add(broker(1).info)
    channels.send(1, STOP)
    peer.clock.advance(0.02)
    assert peer.connections == 1


def test_known_brokers_do_not_wait_for_registrations_without_a_broker() -> None:
    """A known broker holds replicas or has responded to this controller."""
    peer = Peer()
    answering = {3_000, 3_001}
    connected: list[int] = []

    async def connect(info: BrokerInfo) -> Peer:
        if info.broker_id not in answering:
            raise ConnectionRefusedError
        connected.append(info.broker_id)
        return peer

    channels = Channels(peer.clock, connect, lambda *_: None, lambda *_: None, control_versions("3.9"))
    channels.know([3_000])
    channels.add(broker(3_001).info)
    channels.send(3_001, STOP)
    peer.answer()
    channels.remove(3_001)
    for broker_id in range(3_002):
        channels.add(broker(broker_id).info)
        channels.send(broker_id, STOP)
    assert connected == [3_001, 3_000, 3_001]


def test_a_known_broker_that_failed_is_retried_at_once() -> None:
    """The other 1,000 brokers, which fail as well, are tried every 10 s."""
    peer = Peer()
    tried: list[int] = []

    async def connect(info: BrokerInfo) -> Peer:
        tried.append(info.broker_id)
        raise ConnectionRefusedError

    channels = Channels(peer.clock, connect, lambda *_: None, lambda *_: None, control_versions("3.9"))
    channels.know([1_000])
    for broker_id in range(1_001):
        channels.add(broker(broker_id).info)
        channels.send(broker_id, STOP)
    peer.clock.pump([0.1] * 200)
    tried.clear()
    peer.clock.pump([0.1] * 10)
    assert tried.count(1_000) == 10


def test_retries_to_many_known_brokers_are_paced() -> None:
    """A topic's znode may list thousands of replicas. Without pacing, 300 brokers would cause 3,000 connection attempts
    a second.
    """
    peer = Peer()
    peer.refuse = True
    channels = Channels(peer.clock, peer.connect, lambda *_: None, lambda *_: None, control_versions("3.9"))
    channels.know(range(300))
    for broker_id in range(300):
        channels.add(broker(broker_id).info)
        channels.send(broker_id, STOP)
    peer.clock.pump([0.1] * 40)
    peer.connections = 0
    peer.clock.pump([0.1] * 30)
    assert 200 <= peer.connections <= 400
    for broker_id in range(10, 300):
        channels.remove(broker_id)
    peer.clock.pump([0.1] * 40)
    peer.connections = 0
    peer.clock.pump([0.1] * 10)
    assert peer.connections == 100
