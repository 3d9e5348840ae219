"""Brokers are killed one after the other, while producers with acks=all and programs with transactions write.

The campaign measures the longest time between two acknowledgements of a partition, and the time of each program from a
kill to its next committed record. The report says which part of each came after every partition had a leader again,
because the client caused that part.
"""

import time
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.peers.processes import wait_until
from tests.soak import transaction_rounds
from tests.soak.client_thread import ClientThread
from tests.soak.readers import OurSource
from tests.soak.replicated_cluster import START_S
from tests.soak.replication_rounds import KILL, PARTITIONS, REPLICAS, Fault, ReplicationRounds
from tests.soak.transaction_client import now_ns
from tests.soak.transaction_programs import READ_COMMITTED, Program, TransactionReader

SESSION_TIMEOUT_MS = 4_000
MOST_S = 10.0
"""Maximum time between two acknowledgements of a partition, on a quiet machine."""

PROPERTIES: Mapping[str, str] = MappingProxyType(
    {**transaction_rounds.PROPERTIES, "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS)}
)

_TOPIC = "transactions"
_COMMITTED_S = 60.0
_LOOK_S = 0.05


class Wait(NamedTuple):
    """A program's wait between two lines of its journal."""

    seconds: float
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s from {self.before} to {self.after}"


def longest_wait(events: Sequence[Mapping[str, Any]], since_ns: int) -> Wait | None:
    """The longest time between two lines of a journal, the later one after ``since_ns``; None without such lines."""
    waits = [
        Wait((after["at"] - before["at"]) / 1e9, before["event"], after["event"])
        for before, after in pairwise(events)
        if after["at"] > since_ns
    ]
    return max(waits, default=None)


def starting_s(events: Sequence[Mapping[str, Any]], since_ns: int) -> float:
    """Seconds after ``since_ns`` during which a program had ended because it was fenced, and its successor had not
    started yet.
    """
    starting_ns: int = sum(
        after["at"] - max(before["at"], since_ns)
        for before, after in pairwise(events)
        if before["event"] == "failed" and after["at"] > since_ns
    )
    return starting_ns / 1e9


class _Successors(ClientThread):
    """Starts a successor of each program that has ended: a kill fences programs whose transactions time out soon."""

    name = "successors"

    def __init__(self, programs: Sequence[Program]) -> None:
        self._programs = programs
        super().__init__()

    def _run(self) -> None:
        while not self._ends.wait(_LOOK_S):
            for program in self._programs:
                program.revive()


class KillRounds(ReplicationRounds):
    """The campaign. Each round kills a broker that leads, coordinates or is the controller.

    ``most_s``: maximum duration of a gap. ``gaps_s``: the longest gap of each round.
    """

    kind = "kills beside transactions"
    actions = (KILL,)
    roles = ("leader", "controller", "coordinator")
    most_s = MOST_S

    def _make_clients(self) -> None:
        super()._make_clients()
        self.gaps_s: list[float] = []
        bootstrap = self._cluster.bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        for created in admin.create_topics([NewTopic(_TOPIC, PARTITIONS, REPLICAS)]).values():
            created.result(START_S)
        folder = self._cluster.folder / "clients"
        self._programs = [
            Program(folder, bootstrap, _TOPIC, PARTITIONS, producer, library)
            for producer, library in transaction_rounds.PRODUCERS.items()
        ]
        self._committed = TransactionReader(OurSource(bootstrap, _TOPIC, PARTITIONS, READ_COMMITTED))
        self._successors = _Successors(self._programs)
        self.clients += [self._committed, self._successors]

    def _choose(self) -> list[Fault]:
        victim = self._victim(self._random.choice(self.roles), [])
        other = next(each for each in self._cluster.brokers if each is not victim)
        return [self.fault(KILL, victim, other, self._cluster, 0.0)]

    def play(self, chosen: Sequence[Fault], *, at_once: bool = False) -> None:
        """Also measure how long the kill interrupts the clients."""
        for sender in self.senders:
            sender.longest_gap = None
        seen, begun_s = len(self._committed.observed), time.monotonic()
        super().play(chosen, at_once=at_once)
        led_s = begun_s + self.led_s[-1]
        self._measure_transactions(seen, begun_s, led_s)
        self._measure_gap(led_s)

    def _measure_gap(self, led_s: float) -> None:
        gaps = [sender.longest_gap for sender in self.senders if sender.longest_gap is not None]
        gap = max(gaps, key=lambda gap: gap.seconds)
        self.gaps_s.append(gap.seconds)
        told = f"no acknowledgement of partition {gap.partition} to {gap.sender} for {gap.seconds:.1f} s"
        told += f", {gap.seconds_after(led_s):.1f} s of it after everything was led"
        self._say(f"    {told}")
        if gap.seconds > self.most_s:
            self.late.append(told)

    def _measure_transactions(self, seen: int, begun_s: float, led_s: float) -> None:
        """Wait until a reader received a record that each program wrote after all partitions had leaders."""
        committed_s: dict[str, float] = {}

        def have_all_committed() -> bool:
            for each in self._committed.observed[seen:]:
                if each.at_ns > led_s * 1e9:
                    committed_s.setdefault(each.value[:2], each.at_ns / 1e9)
            return len(committed_s) == len(self._programs)

        try:
            wait_until(have_all_committed, _COMMITTED_S, "a transaction of every program", interval_s=_LOOK_S)
        except TimeoutError:
            stalled = ", ".join(sorted({program.producer for program in self._programs} - committed_s.keys()))
            self.late.append(f"{stalled} committed nothing within {time.monotonic() - begun_s:.0f} s of a kill")
        last_s = max(committed_s.values(), default=led_s)
        self._say(f"    every program committed {last_s - led_s:.1f} s after everything was led; longest waits:")
        now = {"event": "now", "at": now_ns()}
        for program in self._programs:
            events = [*chain.from_iterable(program.journals().values()), now]  # of all its processes
            wait, starts_s = longest_wait(events, int(begun_s * 1e9)), starting_s(events, int(begun_s * 1e9))
            self._say(f"        {program.producer}: {wait}; its successors started for {starts_s:.1f} s")

    def close(self) -> None:
        """End the clients."""
        super().close()
        self._successors.stop()
        for program in self._programs:
            program.kill_all()
