"""The faults of a run: a plan that is generated from the seed, or read from text and replayed.

A line of a plan is ``12000 kill broker-1 3000``: time (ms of virtual time), fault, target, duration (ms).
"""

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from kafka_zk.base.clock import Clock
from kafka_zk.sim.campaign.faults import COMPOSED, KINDS, OF_THE_STORE, STORE

PEACE = "peace"
_LINE = re.compile(r"(\d{1,9}) (\S+) (\S+) (\d{1,9})")
_OF_MEMBERS = ("kill-member", "pause-member", "leave", "delete-claim")
_OF_ZOOKEEPER = ("expire", "disconnect", "lose-request", "cut-zookeeper")
_OF_THE_NETWORK = ("break", "cut", "slow")
_AT_ONCE = ("delete-claim", "expire", "disconnect", "lose-request", "break", "clock", *COMPOSED)


class Fault(NamedTuple):
    """``duration_ms``: time until the fault is undone (a killed process is restarted); 0 if nothing is undone."""

    at_ms: int
    kind: str
    target: str
    duration_ms: int

    def __str__(self) -> str:
        return f"{self.at_ms} {self.kind} {self.target} {self.duration_ms}"

    @staticmethod
    def parse(line: str) -> "Fault":
        """Raises ValueError if the line is invalid."""
        found = _LINE.fullmatch(line.strip())
        if found is None:
            wanted = "when (ms), fault, target, duration (ms)"
            raise ValueError(f'"{line}" is not a fault such as "12000 kill broker-1 3000": {wanted}')
        at_ms, kind, target, duration_ms = found.groups()
        if kind not in KINDS:
            raise ValueError(f"{kind} is not a fault; there are: {', '.join(KINDS)}")
        return Fault(int(at_ms), kind, target, int(duration_ms))


class FaultsInForce:
    """Each fault is undone once: at its end, or when peace begins."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def begin(self, clock: Clock, fault: Fault, undo: Callable[[], None]) -> None:
        """``undo`` is called when the fault ends, if it has a duration."""
        self._undo.append(undo)
        if fault.duration_ms:
            clock.callLater(fault.duration_ms / 1000, self._end, undo)

    def _end(self, undo: Callable[[], None]) -> None:
        if undo in self._undo:
            self._undo.remove(undo)
            undo()

    def end_all(self) -> None:
        ending, self._undo = self._undo, []
        for undo in ending:
            undo()


def drawn(
    random: Random,
    brokers: Sequence[str],
    members: Sequence[str],
    broker_members: Sequence[str],
    end_ms: int,
    kinds: Sequence[str],
) -> list[Fault]:
    """Three to ten faults before ``end_ms``, sorted. ``broker_members``: members of the broker group."""
    everybody = [*brokers, *members, *broker_members]
    targets_of: dict[str, Sequence[str]] = dict.fromkeys(KINDS, brokers)
    targets_of |= dict.fromkeys(_OF_MEMBERS, everybody[len(brokers) :])
    targets_of |= dict.fromkeys(_OF_ZOOKEEPER, everybody[: len(brokers) + len(members)])
    targets_of |= dict.fromkeys(_OF_THE_NETWORK, everybody)
    targets_of |= {kind: [*brokers, STORE] for kind in OF_THE_STORE}
    targets_of["stop-zookeeper"] = ["zookeeper"]
    plan = []
    for _ in range(random.randint(3, 10)):
        kind = random.choice(kinds)
        target = random.choice(targets_of[kind])
        duration_ms = 0 if kind in _AT_ONCE else random.choice((200, 1_000, 3_000, 7_000, 12_000))
        plan.append(Fault(random.randint(1_000, end_ms), kind, target, duration_ms))
    return sorted(plan)
