"""Runs a test on two ZooKeepers: the simulator's in-memory one, and a real one through blocking clients."""

import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from twisted.internet import task

from kafka_zk.base.clock import Timers
from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.client import Create, RegistryClient, SessionState, SetData, ZnodeStat
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.pipeline import create_with_parents
from kafka_zk.registry.owners import Claim
from kafka_zk.registry.znodes.consumers import thread_id
from kafka_zk.testing.zookeeper import Chroot
from tests.registry.world import World

T = TypeVar("T")
LIMIT_S = 30
GROUP = "g"


class GroupLab(Protocol):
    """Some clients with a session each."""

    clients: Sequence[RegistryClient]
    clock: Timers

    def run(self, work: Coroutine[Any, Any, T]) -> T: ...

    def run_until(self, condition: Callable[[], object]) -> None: ...

    def expire(self, client: RegistryClient) -> None:
        """End the client's session; it has a new one when this returns."""


class SimulatedLab:
    def __init__(self, world: World) -> None:
        self.world = world
        self.clients: Sequence[RegistryClient] = world.clients
        self.clock: Timers = world.clock

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.world.scheduler.run(work)

    def run_until(self, condition: Callable[[], object]) -> None:
        self.world.scheduler.run_until(condition)

    def expire(self, client: RegistryClient) -> None:
        before = client.session_id
        assert before is not None
        self.world.zookeeper.expire(before)
        self.run_until(lambda: client.state is SessionState.CONNECTED and client.session_id != before)


class RealLab:
    def __init__(self, zookeeper: Chroot, clients: Sequence[KazooBlockingClient]) -> None:
        self.zookeeper = zookeeper
        self.clients: Sequence[RegistryClient] = clients
        self.clock: Timers = task.Clock()  # no test needs blocking clients to wait for a session to expire
        self._process = [client.process for client in clients]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return run_blocking(work)

    def run_until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < deadline, "the condition never became true"
            for process in self._process:
                process(5)

    def expire(self, client: RegistryClient) -> None:
        before = client.session_id
        assert before is not None
        self.zookeeper.expire_session(before)
        self.run_until(lambda: client.state is SessionState.CONNECTED and client.session_id != before)


def tp(partition: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, partition)


def claims(consumer_id: str, *partitions: int) -> list[Claim]:
    return [Claim(tp(partition), thread_id(consumer_id, 0)) for partition in partitions]


async def get_znode(client: RegistryClient, path: str) -> tuple[bytes | None, ZnodeStat]:
    return await client.get(path)


async def create_znode(client: RegistryClient, operation: Create) -> None:
    await create_with_parents(client, operation)


async def set_znode(client: RegistryClient, operation: SetData) -> None:
    await client.set(*operation)


async def delete_znode(client: RegistryClient, path: str) -> None:
    await client.delete(path)
