"""Random scripts of two clients while a leader dies, on an ensemble of three servers and on the simulator: the clients
see only what the rules allow.

``python -m tests.registry.client.broken_scripts --scripts 0-499`` plays many on an ensemble that it starts, and records
them.
"""

import argparse
import random
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kafka_zk.registry.client.client import Create, RegistryClient
from kafka_zk.registry.client.errors import ConnectionLoss, ConnectionTimeout, RegistryError, SessionLost
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.sim.machine.scheduler import Scheduler
from kafka_zk.sim.zookeeper.zookeeper import SimZooKeeper
from tests.registry.client.possible_trees import PossibleTrees, failure, plain
from tests.registry.client.zookeeper_scripts import operation
from tests.sim import played
from tests.soak.zookeeper_ensemble import ZooKeeperEnsemble

KIND = "ZooKeeper scripts, leader changes in an ensemble of three"
STEPS = 60
SESSION_TIMEOUT_MS = 10_000
BREAK_WITHIN_S = 0.1
_CLIENTS = 2
_ATTEMPTS = 200


class Script:
    """One script below its own root. ``run`` returns a description of the first violation of the rules, or None."""

    def __init__(self, number: int, clients: Sequence[RegistryClient]) -> None:
        self._random = random.Random(f"{number} broken script")
        self._root = f"/b{number}"
        self._clients = clients
        self._trees = PossibleTrees()
        self.lost = 0

    async def run(self, break_soon: Callable[[float], None]) -> str | None:
        """Run the script. ``break_soon`` is called in the middle of it and schedules the leader's death after the given
        number of seconds.
        """
        at = self._random.randrange(5, 20)
        for number in range(STEPS):
            if number == at:
                break_soon(self._random.uniform(0, BREAK_WITHIN_S))
            who = self._random.randrange(_CLIENTS)
            if number == 0:
                said = await self._write(who, [Create(self._root, b"")])
            elif self._random.random() < 0.3:
                said = await self._read(who, str(operation(self._random, self._root).path))
            else:
                many = [operation(self._random, self._root) for _ in range(self._random.choice((1, 1, 1, 2, 3)))]
                said = await self._write(who, many)
            if said is not None:
                return f"step {number}: {said}, which none of these trees gives:\n{self._trees}"
        return None

    async def _write(self, who: int, operations: Sequence[Any]) -> str | None:
        session = who + 1
        before = str(self._trees)
        try:
            answer = plain(await self._clients[who].multi(operations), self._owners())
        except (ConnectionLoss, ConnectionTimeout, SessionLost):
            self.lost += 1
            await self._synced(who)
            self._trees.lost(operations, session)
            return None
        except RegistryError as error:
            answer = failure(error)
        if self._trees.answered(operations, session, answer):
            return None
        return f"client {who} had {answer} to {operations} after {before}"

    async def _read(self, who: int, path: str) -> str | None:
        """Sync first, because a follower may lag behind the leader."""
        for _ in range(_ATTEMPTS):
            await self._synced(who)
            try:
                stat = await self._clients[who].exists(path)
                data = (await self._clients[who].get(path))[0] if stat is not None else None
            except (ConnectionLoss, ConnectionTimeout):
                continue
            answer = None if stat is None else (data, plain(stat, self._owners()))
            return None if self._trees.read(path, answer) else f"client {who} read {answer} of {path}"
        raise TimeoutError("no connection")

    def _owners(self) -> dict[int, int]:
        return {client.session_id or 0: number for number, client in enumerate(self._clients, 1)}

    async def _synced(self, who: int) -> None:
        for _ in range(_ATTEMPTS):
            try:
                await self._clients[who].connected()
                await self._clients[who].sync()
                return
            except (ConnectionLoss, ConnectionTimeout):
                continue
        raise TimeoutError("no connection")


def on_simulator(number: int) -> str | None:
    """Stop the server for some time. Of the requests in flight, those up to a random one are applied."""
    scheduler = Scheduler(number)
    server = SimZooKeeper(scheduler.clock, number, delay_ms=(1, 10))

    def break_soon(delay_s: float) -> None:
        scheduler.clock.callLater(delay_s, server.stop)
        scheduler.clock.callLater(delay_s + 0.5, server.start)

    clients = [server.client(f"client-{who}", session_timeout_ms=SESSION_TIMEOUT_MS) for who in range(_CLIENTS)]
    return scheduler.run(Script(number, clients).run(break_soon), limit_ms=1e9)


def on_ensemble(ensemble: ZooKeeperEnsemble, number: int) -> tuple[str | None, int]:
    """Kill the leader and restart it. Returns the violation, if any, and the number of lost responses."""
    leader = ensemble.leader()
    assert leader is not None
    killed: list[threading.Timer] = []

    def break_soon(delay_s: float) -> None:
        killed.append(threading.Timer(delay_s, ensemble.kill, [leader]))
        killed[0].start()

    clients = [KazooBlockingClient(ensemble.connect_string, SESSION_TIMEOUT_MS) for _ in range(_CLIENTS)]
    try:
        for client in clients:
            client.start()
        script = Script(number, clients)
        return run_blocking(script.run(break_soon)), script.lost
    finally:
        for timer in killed:
            timer.join()
        for client in clients:
            client.close()
        ensemble.start(leader)
        ensemble.wait_until_whole()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.registry.client.broken_scripts", description=__doc__)
    parser.add_argument("--scripts", metavar="A-B", default="0-49")
    first, last = map(int, parser.parse_args(arguments).scripts.split("-"))
    failed = lost = 0
    with TemporaryDirectory() as folder, ZooKeeperEnsemble(Path(folder)) as ensemble:
        for number in range(first, last + 1):
            said, count = on_ensemble(ensemble, number)
            lost += count
            if said is not None:
                failed += 1
                print(f"script {number}: {said}", flush=True)
            played.record(KIND, number, number, int(said is not None))
    print(f"{last + 1 - first} scripts, {lost} answers lost, {failed} broke the rules; {played.total(KIND)} in all")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
