"""Random scripts of two clients on a small tree. The clients must see the same on the simulator's ZooKeeper and on a
real server.

Each script stays below its own root, so that one server can run many. Scripts have sequential names, versions and
stats, multis, the order of watch events, the end of a session with its ephemerals, and requests that are too large.

``python -m tests.registry.client.zookeeper_scripts --scripts 0-9999`` plays many on a server that it starts, and
records them.
"""

import argparse
import random
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.registry.client.client import (
    Check,
    Create,
    Delete,
    Operation,
    RegistryClient,
    SetData,
    WatchedEvent,
    ZnodeStat,
)
from kafka_zk.registry.client.errors import MultiFailed, RegistryError
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.sim.machine.scheduler import Scheduler
from kafka_zk.sim.zookeeper.zookeeper import SimZooKeeper
from tests.sim import played

KIND = "ZooKeeper scripts, one server"
STEPS = 14
REOPENS = 0.02
"""Probability that a step ends the client's session and starts a new one."""
SESSION_TIMEOUT_MS = 10_000
_NAMES = ("a", "b", "c")
_CLIENTS = 2
_PER_SERVER = 500

Watcher = Callable[[WatchedEvent], None]
Call = Callable[[RegistryClient, Watcher], Awaitable[Any]]
Step = tuple[int, Call | None]
"""The client and its operation; None ends the client's session and starts a new one."""
OpenClient = Callable[[int], Awaitable[RegistryClient]]


def _path(rng: random.Random, root: str) -> str:
    return root + "".join(f"/{rng.choice(_NAMES)}" for _ in range(rng.choice([1, 1, 2, 2, 3])))


def _data(rng: random.Random) -> bytes | None:
    return rng.choice([None, b"", rng.randbytes(3), rng.randbytes(3)])


def operation(rng: random.Random, root: str) -> Operation:
    version = rng.choice([-1, -1, 0, 1, 2])
    choices: list[Operation] = [
        Create(_path(rng, root), _data(rng), rng.random() < 0.2, rng.random() < 0.2),
        Create(_path(rng, root), _data(rng), rng.random() < 0.2),
        SetData(_path(rng, root), rng.randbytes(5), version),
        Delete(_path(rng, root), version),
        Check(_path(rng, root), version),
    ]
    return rng.choice(choices)


def step(rng: random.Random, root: str) -> Step:
    """The next call of one client; reads often set a watch."""
    who, where, kind, watching = rng.randrange(_CLIENTS), _path(rng, root), rng.randrange(10), rng.random() < 0.7
    one, many = operation(rng, root), [operation(rng, root) for _ in range(rng.randrange(1, 5))]
    if rng.random() < REOPENS:
        return who, None

    def call(client: RegistryClient, watch: Watcher) -> Awaitable[Any]:
        left = watch if watching else None
        if kind == 0 and not watching:
            return client.get_all([where, *(each.path for each in many)])
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


def script(number: int, length: int = STEPS) -> list[Step]:
    """The script with this number. It first creates its root and, in most scripts, some znodes."""
    rng = random.Random(f"{number} script")
    root = f"/s{number}"
    paths = [root, *(f"{root}/{name}" for name in _NAMES if rng.random() < 0.6)]
    made: list[Step] = [(0, lambda client, watch, path=path: client.create(path, b"")) for path in paths]  # type: ignore[misc]
    return made + [step(rng, root) for _ in range(length)]


class _Ears:
    """The watch events of a session, in order."""

    def __init__(self) -> None:
        self.events: list[WatchedEvent] = []
        self.listening = True

    def hear(self, event: WatchedEvent) -> None:
        if self.listening:
            self.events.append(event)


class Played:
    """What the clients saw during one script. Zxids and times are replaced by values that are equal on two servers."""

    def __init__(self, clients: list[RegistryClient]) -> None:
        self._clients = clients
        self._entries: list[Any] = []
        self._ears = [_Ears() for _ in clients]
        self._events: list[list[WatchedEvent]] = []

    async def run(self, steps: Sequence[Step], open_client: OpenClient) -> None:
        for who, call in steps:
            client = self._clients[who]
            if call is None:
                await self._close(who)
                self._clients[who], self._ears[who] = await open_client(who), _Ears()
                continue
            try:
                self._entries.append(self._plain(await call(client, self._ears[who].hear)))
            except MultiFailed as failed:
                self._entries.append((failed.index, type(failed.cause)))
            except RegistryError as error:
                self._entries.append(type(error))
        for who in range(len(self._clients)):
            await self._stop_listening(who)

    async def _close(self, who: int) -> None:
        """Close a session. Its ephemerals are deleted together; no rule defines the order in which other clients are
        notified.
        """
        await self._stop_listening(who)
        others = [each for each in range(len(self._clients)) if each != who]
        heard = [await self._heard(other) for other in others]
        await self._clients[who].close()
        for other, before in zip(others, heard, strict=True):
            await self._heard(other)
            events = self._ears[other].events
            events[before:] = sorted(events[before:], key=str)

    async def _heard(self, who: int) -> int:
        """Wait for all earlier events; returns the number of events that a client has received."""
        await self._clients[who].exists("/")
        return len(self._ears[who].events)

    async def _stop_listening(self, who: int) -> None:
        """Stop recording events: those about the end of the client's own session may or may not arrive in time, so they
        are not compared.
        """
        await self._heard(who)
        self._ears[who].listening = False
        self._events.append(self._ears[who].events)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, ZnodeStat):
            owners = [client.session_id for client in self._clients]
            owner = owners.index(value.ephemeral_owner) if value.ephemeral_owner else None
            return [
                *("zxids", value.czxid, value.mzxid, value.pzxid),
                *(value.version, value.cversion, value.aversion, owner, value.data_length, value.num_children),
            ]
        if isinstance(value, list | tuple):
            return [self._plain(entry) for entry in value]
        return value

    def comparable(self) -> Any:
        """Replace zxids by their rank, because servers start from different numbers and sessions also consume zxids."""
        zxids: set[int] = set()

        def walk(value: Any, visit: Callable[[list[Any]], Any]) -> Any:
            if isinstance(value, list):
                if value and value[0] == "zxids":
                    return visit(value)
                return [walk(entry, visit) for entry in value]
            return value

        def ranked(value: list[Any]) -> list[Any]:
            return [*(order.index(zxid) for zxid in value[1:4]), *value[4:]]

        walk(self._entries, lambda value: zxids.update(value[1:4]))
        order = sorted(zxids)
        return walk(self._entries, ranked), self._events


async def _play(numbers: Sequence[int], length: int, open_client: OpenClient) -> list[Any]:
    clients = [await open_client(who) for who in range(_CLIENTS)]
    seen = []
    for number in numbers:
        one = Played(clients)
        await one.run(script(number, length), open_client)
        seen.append(one.comparable())
    for client in clients:
        await client.close()
    return seen


def on_real_server(connect_string: str, numbers: Sequence[int], length: int = STEPS) -> list[Any]:
    """The observations of each script."""

    async def open_client(who: int) -> RegistryClient:
        client = KazooBlockingClient(connect_string, SESSION_TIMEOUT_MS)
        client.start()
        return client

    seen: list[Any] = run_blocking(_play(numbers, length, open_client))
    return seen


def on_simulator(numbers: Sequence[int], length: int = STEPS) -> list[Any]:
    """The observations of each script."""
    scheduler = Scheduler(numbers[0])
    server = SimZooKeeper(scheduler.clock, numbers[0])

    async def open_client(who: int) -> RegistryClient:
        return server.client(f"client-{who}", session_timeout_ms=SESSION_TIMEOUT_MS)

    return scheduler.run(_play(numbers, length, open_client), limit_ms=1e9)


def differences(connect_string: str, numbers: Sequence[int], length: int = STEPS) -> list[str]:
    """The differences of the scripts with these numbers, in words."""
    pairs = zip(numbers, on_real_server(connect_string, numbers, length), on_simulator(numbers, length), strict=True)
    return [f"script {number}: {_first_difference(*seen)}" for number, *seen in pairs if seen[0] != seen[1]]


def _first_difference(real: Any, simulated: Any) -> str:
    for what, here, there in zip(("step", "session"), real, simulated, strict=True):
        for number, (one, other) in enumerate(zip(here, there, strict=True)):
            if one != other:
                return f"{what} {number}: the server says {one}, the simulator {other}"
    raise AssertionError("there is none")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.registry.client.zookeeper_scripts", description=__doc__)
    parser.add_argument("--scripts", metavar="A-B", default="0-999")
    first, last = map(int, parser.parse_args(arguments).scripts.split("-"))
    failed = 0
    for start in range(first, last + 1, _PER_SERVER):
        numbers = range(start, min(start + _PER_SERVER, last + 1))
        with TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder), force_sync=False) as server:
            found = differences(server.connect_string, numbers)
        for difference in found:
            print(difference)
        failed += len(found)
        played.record(KIND, numbers[0], numbers[-1], len(found))
    print(f"{last + 1 - first} scripts, {failed} differ; {played.total(KIND)} played on all commits")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
