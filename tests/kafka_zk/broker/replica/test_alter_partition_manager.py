"""Changes of ISRs, sent to a controller that responds late, with an error, or not at all."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.alter_partition_manager import RETRY_BACKOFF_S, AlterPartitionManager, Answer, IsrChange
from kafka_zk.broker.replica.isr_state import WrittenIsr
from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.sim.machine.scheduler import VirtualClock

T_ID, U_ID = uuid.UUID(int=7), uuid.UUID(int=8)
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
IDS = {"t": T_ID, "u": U_ID}


class Controller:
    """A connection whose other end is the test; all messages pass through the codec."""

    def __init__(self, highest_version: int) -> None:
        self.versions = {int(ApiKey.ALTER_PARTITION): (0, highest_version)}
        self.requests: list[tuple[int, Any]] = []
        self._waiting: list[Deferred[Any]] = []

    def request(self, api_key: int, message: Any, *, version: int) -> "Deferred[Any]":
        assert api_key == ApiKey.ALTER_PARTITION
        body = codec.encode_body(message, api_key, version)
        self.requests.append((version, codec.decode_request(ApiKey.ALTER_PARTITION, version, memoryview(bytes(body)))))
        self._waiting.append(Deferred())
        return self._waiting[-1]

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    def answer(self, *codes: int, error_code: int = 0, left_out: int = 0) -> None:
        """Respond to the waiting request in the order of its partitions; those without a code are written as proposed.
        """
        version, request = self.requests[-1]
        response = codec.response(ApiKey.ALTER_PARTITION)
        left = list(codes)
        topics = []
        for topic in request.topics[left_out:]:
            partitions = []
            for asked in topic.partitions:
                code = left.pop(0) if left else 0
                isr = [b.broker_id for b in asked.new_isr_with_epochs] if version >= 3 else list(asked.new_isr)
                partitions.append(
                    response.TopicData.PartitionData(
                        partition_index=asked.partition_index, error_code=code, leader_id=1,
                        leader_epoch=asked.leader_epoch, isr=isr, leader_recovery_state=0,
                        partition_epoch=asked.partition_epoch + 1,
                    )
                )  # fmt: skip
            named = {"topic_id": topic.topic_id} if version >= 2 else {"topic_name": topic.topic_name}
            topics.append(response.TopicData(partitions=partitions, **named))
        body = response(throttle_time_ms=0, error_code=error_code, topics=[] if error_code else topics)
        encoded = codec.encode_body(body, ApiKey.ALTER_PARTITION, version)
        decoded = codec.decode_response(ApiKey.ALTER_PARTITION, version, memoryview(bytes(encoded)))
        self._waiting.pop().callback(decoded)

    def lose(self) -> None:
        self._waiting.pop().errback(ConnectionError("lost"))


class World:
    def __init__(self, offered: int = 3, allowed: int = 3) -> None:
        self.clock = VirtualClock()
        self.controller = Controller(offered)
        self.connect_error: Exception | None = None
        self.broker_epoch = 25
        self.manager = AlterPartitionManager(1, lambda: self.broker_epoch, self.clock, self._connected, allowed)
        self.answers: list[tuple[TopicPartition, Answer]] = []

    async def _connected(self) -> Controller:
        if self.connect_error is not None:
            raise self.connect_error
        return self.controller

    def submit(self, tp: TopicPartition, isr: tuple[int, ...] = (1, 2), topic_id: uuid.UUID | None = None) -> None:
        change = IsrChange(tp, IDS[tp.topic] if topic_id is None else topic_id, 3, 5, isr, 9)
        self.manager.submit(change, self._answered(tp))

    def _answered(self, tp: TopicPartition) -> Callable[[Answer], None]:
        return lambda answer: self.answers.append((tp, answer))

    def asked(self) -> list[tuple[str, list[int]]]:
        """The topics and partitions of the last request."""
        version, request = self.controller.requests[-1]
        names = {topic_id: name for name, topic_id in IDS.items()}
        return [
            (names[topic.topic_id] if version >= 2 else topic.topic_name, [p.partition_index for p in topic.partitions])
            for topic in request.topics
        ]

    def back_off(self) -> None:
        assert self.controller.in_flight == 0
        self.clock.advance(RETRY_BACKOFF_S)


def test_a_request_has_the_fields_of_kafka_3_9() -> None:
    """With ZooKeeper, the broker epochs of ISR members are unknown."""
    world = World()
    world.submit(T0, (1, 4, 3))
    [(version, request)] = world.controller.requests
    assert (version, request.broker_id, request.broker_epoch) == (3, 1, 25)
    [topic] = request.topics
    [asked] = topic.partitions
    assert (topic.topic_id, asked.partition_index, asked.leader_epoch, asked.partition_epoch) == (T_ID, 0, 3, 5)
    members = [(member.broker_id, member.broker_epoch) for member in asked.new_isr_with_epochs]
    assert members == [(1, -1), (4, -1), (3, -1)]
    assert asked.leader_recovery_state == 0
    world.controller.answer()
    assert world.answers == [(T0, WrittenIsr(3, (1, 4, 3), 6))]
    assert world.manager.waiting_count == 0


@pytest.mark.parametrize(
    ("offered", "allowed", "topic_id", "version"),
    [(3, 3, T_ID, 3), (2, 3, T_ID, 2), (0, 3, T_ID, 0), (3, 1, T_ID, 1), (3, 3, uuids.ZERO, 1)],
)
def test_the_version_is_the_newest_that_can_name_the_topics(
    offered: int, allowed: int, topic_id: uuid.UUID, version: int
) -> None:
    """Up to version 1, requests name topics by name: the controller, the protocol version or the topic has no ids."""
    world = World(offered, allowed)
    world.submit(T0, topic_id=topic_id)
    assert [used for used, _ in world.controller.requests] == [version]
    world.controller.answer()
    assert world.answers == [(T0, WrittenIsr(3, (1, 2), 6))]


def test_one_request_is_under_way_and_the_next_has_all_that_waits() -> None:
    world = World()
    for tp in (T0, T1, U0):
        world.submit(tp)
    assert world.asked() == [("t", [0])]
    world.controller.answer()
    assert world.asked() == [("t", [1]), ("u", [0])]
    world.controller.answer()
    assert [tp for tp, _ in world.answers] == [T0, T1, U0] and world.controller.in_flight == 0


def test_a_partition_has_one_change_at_a_time() -> None:
    world = World()
    world.submit(T0)
    world.submit(T0)
    assert world.answers == [(T0, ErrorCode.OPERATION_NOT_ATTEMPTED)]
    world.controller.answer()
    world.submit(T0)
    assert world.controller.in_flight == 1


def test_a_partitions_error_is_told_and_the_others_are_written() -> None:
    """The remaining changes follow after a pause, because the leader may propose its refused change again
    immediately.
    """
    world = World()
    world.submit(U0)
    world.submit(T0)
    world.submit(T1)
    world.controller.answer()
    world.controller.answer(ErrorCode.INELIGIBLE_REPLICA)
    assert world.answers[1:] == [(T0, ErrorCode.INELIGIBLE_REPLICA), (T1, WrittenIsr(3, (1, 2), 6))]
    world.submit(T0)
    world.back_off()
    assert world.asked() == [("t", [0])]


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR]
)
def test_an_error_of_the_whole_request_is_met_by_asking_again(code: ErrorCode) -> None:
    """The next request has the current broker epoch, and contains what was submitted in between."""
    world = World()
    world.submit(T0)
    world.controller.answer(error_code=code)
    assert world.answers == []
    world.broker_epoch = 26
    world.submit(T1)
    world.back_off()
    assert world.controller.requests[-1][1].broker_epoch == 26 and world.asked() == [("t", [0, 1])]


def test_a_lost_connection_is_met_by_asking_again() -> None:
    """The same holds for a connection that cannot be established."""
    world = World()
    world.submit(T0)
    world.connect_error = ConnectionError("refused")
    world.controller.lose()
    for _ in range(3):
        world.back_off()
    assert len(world.controller.requests) == 1
    world.connect_error = None
    world.back_off()
    world.controller.answer()
    assert world.answers == [(T0, WrittenIsr(3, (1, 2), 6))]


def test_what_an_answer_leaves_out_is_asked_again() -> None:
    world = World()
    world.submit(T0)
    world.controller.answer(left_out=1)
    assert world.answers == []
    world.back_off()
    assert world.asked() == [("t", [0])]


def test_a_controller_without_the_api_is_asked_again() -> None:
    """Another controller may be elected in the meantime."""
    world = World()
    world.controller.versions.clear()
    world.submit(T0)
    assert world.controller.requests == []
    world.controller.versions[int(ApiKey.ALTER_PARTITION)] = (0, 3)
    world.back_off()
    assert world.asked() == [("t", [0])]


def test_a_closed_manager_asks_for_nothing() -> None:
    world = World()
    world.submit(T0)
    world.manager.close()
    world.controller.lose()
    world.submit(T1)
    world.back_off()
    assert len(world.controller.requests) == 1
    assert world.answers == [(T1, ErrorCode.OPERATION_NOT_ATTEMPTED)]
