"""ISRs that a leader writes to ZooKeeper itself."""

import uuid
from typing import Any

import pytest

from kafka_zk.base.turns import after
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.alter_partition_manager import Answer, IsrChange
from kafka_zk.broker.replica.isr_state import WrittenIsr
from kafka_zk.broker.replica.zk_alter_partition_manager import LINGER_S, ZkAlterPartitionManager
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.client.client import Create
from kafka_zk.registry.client.pipeline import create_with_parents
from kafka_zk.registry.znodes.isr import ISR_CHANGES, decode_isr_change
from kafka_zk.registry.znodes.topics import LeaderIsrAndControllerEpoch, decode_state, encode_state, state_path
from kafka_zk.sim.machine.scheduler import Scheduler
from kafka_zk.sim.zookeeper.zookeeper import SimZooKeeper

T = TopicPartition("t", 0)
PATH = state_path("t", 0)


class World:
    """Broker 1 leads t-0 in leader epoch 3, in ZooKeeper with version 0."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(7)
        self.zookeeper = SimZooKeeper(self.scheduler.clock, 7)
        self.client = self.zookeeper.client("broker-1")
        self.manager = ZkAlterPartitionManager(1, self.client, self.scheduler.clock)
        self.answers: list[Answer] = []
        self.run(create_with_parents(self.client, Create(PATH, encode_state(state([1, 2, 3])))))

    def run(self, story: Any) -> Any:
        return self.scheduler.run(story)

    def submit(self, isr: tuple[int, ...] = (1, 2), version: int = 0) -> None:
        self.manager.submit(IsrChange(T, uuid.UUID(int=7), 3, version, isr, 9), self.answers.append)
        self.pass_time(1)

    def pass_time(self, seconds: float) -> None:
        async def story() -> None:
            await after(self.scheduler.clock, seconds)

        self.run(story())

    def stored(self) -> LeaderIsrAndControllerEpoch:
        data, stat = self.run(self.client.get(PATH))
        return decode_state("t", 0, data, stat.version)

    def told(self) -> list[set[TopicPartition]]:
        async def story() -> list[set[TopicPartition]]:
            if await self.client.exists(ISR_CHANGES) is None:
                return []
            names, _ = await self.client.children(ISR_CHANGES)
            paths = [f"{ISR_CHANGES}/{name}" for name in sorted(names)]
            return [decode_isr_change(path, (await self.client.get(path))[0]) for path in paths]

        found: list[set[TopicPartition]] = self.run(story())
        return found


def state(isr: list[int], leader: int = 1, leader_epoch: int = 3) -> LeaderIsrAndControllerEpoch:
    return LeaderIsrAndControllerEpoch(leader, isr, leader_epoch, 9)


@pytest.fixture
def world() -> World:
    return World()


def test_the_state_znode_gets_the_isr_and_the_leader_its_version(world: World) -> None:
    world.submit()
    assert world.answers == [WrittenIsr(3, (1, 2), 1)]
    stored = world.stored()
    assert (stored.leader, stored.isr, stored.leader_epoch, stored.controller_epoch) == (1, [1, 2], 3, 9)


def test_a_state_that_somebody_else_wrote_stays(world: World) -> None:
    """The leader then waits for LeaderAndIsr."""
    world.run(world.client.set(PATH, encode_state(state([2, 3], leader=2, leader_epoch=4))))
    world.submit()
    assert world.answers == [ErrorCode.INVALID_UPDATE_VERSION] and world.stored().leader == 2


def test_a_topic_that_is_gone_is_not_written(world: World) -> None:
    world.run(world.client.delete(PATH))
    world.submit()
    assert world.answers == [ErrorCode.INVALID_UPDATE_VERSION]


@pytest.mark.parametrize("applied", [True, False])
def test_a_connection_that_breaks_over_the_write_leaves_it_written_once(world: World, applied: bool) -> None:
    """The write may have been applied or not."""
    world.client.lose_request(applied=applied)
    world.submit()
    world.pass_time(5)
    assert world.answers == [WrittenIsr(3, (1, 2), 1)] and world.stored().zk_version == 1


def test_the_controller_is_told_when_it_is_quiet(world: World) -> None:
    """One notification covers everything that changed."""
    world.submit()
    world.submit((1,), version=1)
    world.run(world.manager.propagate())
    assert world.told() == []
    world.pass_time(LINGER_S)
    world.run(world.manager.propagate())
    world.run(world.manager.propagate())
    assert world.told() == [{T}]


def test_a_closed_manager_answers_no_more(world: World) -> None:
    world.manager.close()
    world.submit()
    assert world.answers == []


def test_an_error_of_ours_is_told_and_the_change_is_answered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a response the partition would never propose another ISR."""
    def mistake(*args: object) -> None:
        raise KeyError("a mistake of ours")

    world = World()
    monkeypatch.setattr("kafka_zk.broker.replica.zk_alter_partition_manager.encode_state", mistake)
    world.submit()
    assert world.answers == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert "KeyError" in caplog.text
