"""The in-memory ZooKeeper and the real one give the same answers, stats and watch events to the same operations."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafka_zk.registry.client import (
    Check,
    Create,
    Delete,
    Operation,
    RegistryClient,
    SetData,
    WatchedEvent,
    ZnodeStat,
)
from kafka_zk.registry.errors import MultiFailed, RegistryError
from kafka_zk.registry.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.sim.scheduler import Scheduler
from kafka_zk.sim.zookeeper import SimZooKeeper
from kafka_zk.testing.zookeeper import Chroot

pytestmark = pytest.mark.integration

OPERATION_COUNT = 300
NAMES = ("a", "b", "c")

Step = tuple[int, Callable[[RegistryClient, Callable[[WatchedEvent], None]], Awaitable[Any]]]


def path(rng: random.Random) -> str:
    return "".join(f"/{rng.choice(NAMES)}" for _ in range(rng.choice([1, 1, 2, 2, 3])))


def data(rng: random.Random) -> bytes | None:
    return rng.choice([None, b"", rng.randbytes(3), rng.randbytes(3)])


def operation(rng: random.Random) -> Operation:
    version = rng.choice([-1, -1, 0, 1, 2])
    choices: list[Operation] = [
        Create(path(rng), data(rng), rng.random() < 0.2, rng.random() < 0.2),
        Create(path(rng), data(rng), rng.random() < 0.2),
        SetData(path(rng), rng.randbytes(5), version),
        Delete(path(rng), version),
        Check(path(rng), version),
    ]
    return rng.choice(choices)


def step(rng: random.Random) -> Step:
    """One client's next call; reads often leave a watch."""
    who, where, kind, watching = rng.randrange(2), path(rng), rng.randrange(10), rng.random() < 0.7
    one, many = operation(rng), [operation(rng) for _ in range(rng.randrange(1, 5))]

    def call(client: RegistryClient, watch: Callable[[WatchedEvent], None]) -> Awaitable[Any]:
        left = watch if watching else None
        if kind == 0:
            return client.get(where, left)
        if kind == 1:
            return client.exists(where, left)
        if kind == 2:
            return client.children(where, left)
        if kind <= 4:
            return client.multi(many)
        match one:
            case Create(target, content, ephemeral, sequential):
                return client.create(target, content, ephemeral=ephemeral, sequential=sequential)
            case SetData(target, content, version):
                return client.set(target, content, version)
            case Delete(target, version):
                return client.delete(target, version)
            case Check():
                return client.multi([one])

    return who, call


class History:
    """What the clients saw, with zxids and times replaced by what the two servers have in common."""

    def __init__(self, clients: list[RegistryClient]) -> None:
        self.clients = clients
        self.entries: list[Any] = []
        self.events: list[list[WatchedEvent]] = [[], []]

    async def run(self, steps: list[Step]) -> None:
        for who, call in steps:
            try:
                self.entries.append(self.plain(await call(self.clients[who], self.events[who].append)))
            except MultiFailed as failed:
                self.entries.append((failed.index, type(failed.cause)))
            except RegistryError as error:
                self.entries.append(type(error))
        for client in self.clients:
            await client.exists("/")  # whatever fired before has come now

    def plain(self, value: Any) -> Any:
        if isinstance(value, ZnodeStat):
            owners = [client.session_id for client in self.clients]
            owner = owners.index(value.ephemeral_owner) if value.ephemeral_owner else None
            return [
                *("zxids", value.czxid, value.mzxid, value.pzxid),
                *(value.version, value.cversion, value.aversion, owner, value.data_length, value.num_children),
            ]
        if isinstance(value, list | tuple):
            return [self.plain(entry) for entry in value]
        return value

    def comparable(self) -> Any:
        """Zxids by rank: the servers count from different numbers, and sessions use some up."""
        zxids: set[int] = set()

        def walk(value: Any, visit: Callable[[list[Any]], Any]) -> Any:
            if isinstance(value, list):
                if value and value[0] == "zxids":
                    return visit(value)
                return [walk(entry, visit) for entry in value]
            return value

        def ranked(value: list[Any]) -> list[Any]:
            return [*(order.index(zxid) for zxid in value[1:4]), *value[4:]]

        walk(self.entries, lambda value: zxids.update(value[1:4]))
        order = sorted(zxids)
        return walk(self.entries, ranked), self.events


def test_the_same_operations_have_the_same_outcomes(zookeeper: Chroot, campaign_seed: int) -> None:
    """300 random operations of two clients on a small tree, each with its answer; then all watch events in order."""
    rng = random.Random(campaign_seed)
    steps = [step(rng) for _ in range(OPERATION_COUNT)]

    with (
        KazooBlockingClient(zookeeper.connect_string, 4000) as first,
        KazooBlockingClient(zookeeper.connect_string, 4000) as second,
    ):
        real = History([first, second])
        run_blocking(real.run(steps))

    scheduler = Scheduler(campaign_seed)
    simulated_server = SimZooKeeper(scheduler.clock, campaign_seed)
    simulated = History([simulated_server.client(name, chroot="/test") for name in "ab"])
    scheduler.run(simulated.run(steps))

    assert simulated.comparable() == real.comparable()
