"""The cost of one join for ZooKeeper: requests and notifications, for groups of many members on many partitions.

All members share one process, the topic has no records, and sessions are long, so that the counts contain little but
the rebalance; the requests of the idle group in an equal time (pings) are subtracted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.pipeline import found
from kafka_zk.registry.znodes import consumers
from tests.bench.rebalance.methods import Group, Method
from tests.bench.rebalance.processes import MemberProcess
from tests.bench.rebalance.zookeeper_counters import Counters, read, session_count
from tests.peers.processes import wait_until
from tests.peers.targets import Target

_SESSION_TIMEOUT_MS = 10_000
#: Much shorter than a quiet time, so that a group's first commits do not count for the next join.
_COMMIT_INTERVAL_MS = 1000
#: Longer than the back-off of Kafka's consumer between two attempts.
_QUIET_S = 3.0
_POLL_INTERVAL_S = 0.25
_TIMEOUT_S = 240


@dataclass(frozen=True)
class Herd:
    """One join into a group that then has ``members`` members.

    ``owned``: partitions with an owner afterwards; ``expired``: sessions that expired because the machine is too slow.
    """

    method: str
    members: int
    partitions: int
    requests: int
    writes: int
    notifications: int
    seconds: float
    owned: int
    expired: int

    @property
    def settled(self) -> bool:
        """Whether the figures are those of one complete join."""
        return self.owned == self.partitions and not self.expired


class NeverQuiet(Exception):
    """A group keeps writing to ZooKeeper."""


def run(
    cluster: Target, folder: Path, method: Method, members: int, partitions: int, progress: Callable[[str], None]
) -> Herd:
    """Form a group with one member fewer on an existing topic, and let one member join. Raises: NeverQuiet,
    MemberFailed.
    """
    name = f"herd-{method.name}-{members}-{partitions}"
    folder.mkdir(parents=True, exist_ok=True)
    group = Group(name, topic(partitions), cluster, None, _SESSION_TIMEOUT_MS, _COMMIT_INTERVAL_MS)
    port = zookeeper_port(cluster)
    sessions_before = session_count(port)
    process = MemberProcess(method.command(group), folder / f"{name}.log")
    names = [f"m{number:03}" for number in range(members)]
    try:
        process.tell("join", names[:-1])
        process.done("join")
        formed = _quiet(port, name)
        process.tell("join", names[-1:])
        process.done("join")
        done = _quiet(port, name)
        cost, seconds = done.end.since(formed.end), done.end_s - formed.end_s
        pings = round(formed.requests_a_second * seconds)
        result = Herd(
            method.name, members, partitions, cost.requests - pings, cost.writes, cost.notifications,
            seconds - _QUIET_S, _owned(group, partitions), cost.expired_sessions,
        )  # fmt: skip
    finally:
        process.kill()
    # Sessions that expire are writes: they must not be counted with the next group's join.
    wait_until(lambda: session_count(port) <= sessions_before, _TIMEOUT_S, f"{name}: its sessions end")
    progress(
        f"{name}: {result.requests} requests, {result.notifications} notifications, {result.owned} owned, "
        f"{result.expired} sessions expired"
    )
    return result


def topic(partitions: int) -> str:
    """The name of the empty topic with this number of partitions."""
    return f"herd-{partitions}"


def zookeeper_port(cluster: Target) -> int:
    return int(cluster.zookeeper.partition("/")[0].rpartition(":")[2])


class _Quiet(NamedTuple):
    """A time without writes and notifications: the counters at its end, and the rate of requests during it."""

    end: Counters
    end_s: float
    requests_a_second: float


def _quiet(port: int, what: str) -> _Quiet:
    """Wait for a quiet time. Raises: NeverQuiet."""
    deadline_s = time.monotonic() + _TIMEOUT_S
    first, first_s = read(port), time.monotonic()
    while True:
        time.sleep(_POLL_INTERVAL_S)
        now, now_s = read(port), time.monotonic()
        during = now.since(first)
        if during.writes or during.notifications:
            first, first_s = now, now_s
        elif now_s - first_s >= _QUIET_S:
            return _Quiet(now, now_s, during.requests / (now_s - first_s))
        if now_s > deadline_s:
            raise NeverQuiet(f"{what} is not quiet after {_TIMEOUT_S} s")


def _owned(group: Group, partitions: int) -> int:
    with KazooBlockingClient(group.cluster.zookeeper) as client:
        return run_blocking(_count_owners(client, group, partitions))


async def _count_owners(client: KazooBlockingClient, group: Group, partitions: int) -> int:
    paths = [consumers.owner_path(group.name, group.topic, number) for number in range(partitions)]
    return sum(each is not None for each in await found(client.get(path) for path in paths))
