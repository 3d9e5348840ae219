"""A group of three under a steady load: members join, leave and are killed, and the records show the cost."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.rebalance.deliveries import Change, RecordReader, change, settled
from tests.bench.rebalance.membership import Membership
from tests.bench.rebalance.methods import Group, Method
from tests.bench.rebalance.processes import MemberProcess, SteadyProducer
from tests.peers.targets import Target

#: The oldest member leaves or is killed; there are three before and after a round. A restarted member is killed and
#: joins again at once, under its old name if the group is static: this is timed from the kill, other changes from the
#: moment when they are visible.
ROUND = ("join", "leave", "join", "kill", "restart")
_MEMBERS = 3
_POLL_INTERVAL_S = 0.25
_RECENT_S = 2.0
_QUIET_S = 3.0
_SETTLE_TIMEOUT_S = 90


@dataclass(frozen=True)
class Sample:
    """One change of one group."""

    method: str
    partitions: int
    kind: str
    round: int
    change: Change


class NeverSettled(Exception):
    """A group did not get all its partitions delivered in time."""


def run(
    cluster: Target, folder: Path, method: Method, partitions: int, rounds: int, rate: int,
    progress: Callable[[str], None],
) -> Iterator[Sample]:  # fmt: skip
    """All rounds of one method on a topic of its own. Raises: NeverSettled, MemberFailed."""
    name = f"{method.name}-{partitions}"
    records = folder / name / "records"
    records.mkdir(parents=True)
    cluster.create_topic(name, partitions=partitions)
    producer = SteadyProducer(cluster.bootstrap, name, partitions, rate)
    trial = _Trial(method, Group(name, name, cluster, records), partitions, records)
    try:
        trial.start()
        for number, kind in itertools.product(range(rounds), ROUND):
            found = trial.change(kind)
            progress(f"{name} round {number + 1}/{rounds} {kind}: settled in {found.settled_ms:.0f} ms")
            yield Sample(method.name, partitions, kind, number, found)
    finally:
        trial.stop()
        producer.stop()


class _Trial:
    """One group and its members, oldest first; each has a process of its own, which starts before it joins."""

    def __init__(self, method: Method, group: Group, partitions: int, records: Path) -> None:
        self._method = method
        self._group = group
        self._partitions = partitions
        self._reader = RecordReader(records)
        self._members: dict[str, MemberProcess] = {}
        self._numbers = itertools.count()
        self._spare: MemberProcess | None = None
        self._membership: Membership | None = None

    def start(self) -> None:
        for _ in range(_MEMBERS):
            self._spare = self._process()
            self._join().done("join")
        self._membership = self._method.membership(self._group)
        self._settle(time.monotonic_ns())

    def change(self, kind: str) -> Change:
        """Make one change, wait until all is quiet again, and read its effects."""
        assert self._membership is not None
        if kind in ("join", "restart"):
            self._spare = self._process()
        time.sleep(_QUIET_S)
        oldest = next(iter(self._members))
        act = {"join": self._join, "leave": self._leave, "kill": self._kill, "restart": self._restart}[kind]
        begun_ns = time.monotonic_ns()
        pending = act()
        visible_ns = begun_ns if kind == "restart" else self._membership.changed_ns(begun_ns)
        end_ns = self._settle(begun_ns)
        if kind != "kill":
            pending.done(kind)
        if kind == "leave":
            pending.kill()
        restarted = oldest if kind == "restart" else None
        found = change(self._reader.read(), begun_ns, visible_ns, end_ns, restarted)
        self._reader.forget(end_ns)
        return found

    def stop(self) -> None:
        if self._membership is not None:
            self._membership.close()
        for process in [*self._members.values(), self._spare]:
            if process is not None:
                process.kill()

    def _join(self, name: str | None = None) -> MemberProcess:
        process, self._spare = self._spare, None
        assert process is not None
        name = name or f"m{next(self._numbers):03}"
        self._members[name] = process
        process.tell("join", [name])
        return process

    def _leave(self) -> MemberProcess:
        name, process = self._oldest()
        process.tell("leave", [name])
        return process

    def _kill(self) -> MemberProcess:
        _, process = self._oldest()
        process.kill()
        return process

    def _restart(self) -> MemberProcess:
        name, process = self._oldest()
        process.kill()
        return self._join(name if self._method.is_static else None)

    def _oldest(self) -> tuple[str, MemberProcess]:
        name = next(iter(self._members))
        return name, self._members.pop(name)

    def _process(self) -> MemberProcess:
        assert self._group.folder is not None
        return MemberProcess(self._method.command(self._group), self._group.folder.parent / "members.log")

    def _settle(self, begun_ns: int) -> int:
        """Wait until each partition has had only one delivering member for a while, and every member delivers.

        Deliveries before ``begun_ns`` do not count, because a restarted member may have the name of its predecessor.
        """
        deadline = time.monotonic() + _SETTLE_TIMEOUT_S
        while True:
            time.sleep(_POLL_INTERVAL_S)
            deliveries = self._reader.read()
            now_ns = time.monotonic_ns()  # after the read: otherwise, records since the read would count
            since_ns = now_ns - int(_RECENT_S * 1e9)
            if since_ns >= begun_ns and settled(deliveries, self._partitions, since_ns, set(self._members)):
                return now_ns
            if time.monotonic() > deadline:
                raise NeverSettled(f"{self._group.name}: not all partitions are delivered after {_SETTLE_TIMEOUT_S} s")
