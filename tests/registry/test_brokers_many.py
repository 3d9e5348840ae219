"""Thousands of registrations are read a few at a time, both to list brokers and to watch them."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafka_zk.registry.brokers import READ_AT_ONCE, BrokerRegistry, LiveBrokers
from kafka_zk.registry.client.client import Create, Delete
from kafka_zk.registry.znodes import brokers as znodes
from tests.registry.world import World, broker_info

COUNT = 3 * READ_AT_ONCE + 7


class Reads:
    """Counts a client's reads of registrations that wait for their response."""

    def __init__(self, get: Callable[..., Awaitable[Any]]) -> None:
        self._get = get
        self.waiting = 0
        self.most = 0

    async def __call__(self, path: str, *arguments: Any, **named: Any) -> Any:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            return await self._get(path, *arguments, **named)
        finally:
            self.waiting -= 1


@pytest.fixture
def world() -> World:
    world = World()
    registry = BrokerRegistry(world.clients[1], world.clock)
    world.scheduler.run(registry.register(broker_info(0)))
    creations = [Create(znodes.broker_path(n), znodes.encode(broker_info(n))) for n in range(1, COUNT)]
    world.scheduler.run(world.clients[1].multi(creations))
    return world


@pytest.fixture
def reads(world: World, monkeypatch: pytest.MonkeyPatch) -> Reads:
    client = world.clients[0]
    reads = Reads(client.get)
    monkeypatch.setattr(client, "get", reads)
    return reads


def test_the_list(world: World, reads: Reads) -> None:
    live = world.scheduler.run(BrokerRegistry(world.clients[0], world.clock).live())
    assert list(live) == list(range(COUNT)) and 0 < reads.most <= READ_AT_ONCE


def test_the_watch(world: World, reads: Reads) -> None:
    """The watcher reports nothing before it has read all registrations, and continues if brokers leave during the
    reads.
    """
    seen: list[LiveBrokers] = []
    watcher = BrokerRegistry(world.clients[0], world.clock).watch(seen.append)
    world.scheduler.run_for(1000)
    assert [sorted(live) for live in seen] == [list(range(COUNT))] and 0 < reads.most <= READ_AT_ONCE
    world.scheduler.run(world.clients[1].multi([Delete(znodes.broker_path(n)) for n in range(1, COUNT)]))
    world.scheduler.run_for(1000)
    assert list(seen[-1]) == [0]
    watcher.close()
