"""Faults of a run: a plan drawn from the seed. A plan can be written down and played.

A line of a plan is ``12000 kill broker-1 3000``: when (ms of virtual time), what, to whom, for how long.
"""

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from kafka_zk.base.clock import Clock
from kafka_zk.sim.campaign.faults import COMPOSED, KINDS

PEACE = "peace"
_LINE = re.compile(r"(\d{1,9}) (\S+) (\S+) (\d{1,9})")
_OF_MEMBERS = ("kill-member", "pause-member", "leave", "delete-claim")
_OF_ZOOKEEPER = ("expire", "disconnect", "lose-request", "cut-zookeeper")
_OF_THE_NETWORK = ("break", "cut", "slow")
_AT_ONCE = ("delete-claim", "expire", "disconnect", "lose-request", "break", "clock", *COMPOSED)


class Fault(NamedTuple):
    """``duration_ms``: until it is undone (a killed process started again); 0 for what is over at once."""

    at_ms: int
    kind: str
    target: str
    duration_ms: int

    def __str__(self) -> str:
        return f"{self.at_ms} {self.kind} {self.target} {self.duration_ms}"

    @staticmethod
    def parse(line: str) -> "Fault":
        """Raises: ValueError for what is no line of a plan."""
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise ValueError(f'"{line}" is no fault; one is "12000 kill broker-1 3000": when (ms), what, who, how long')
        at_ms, kind, target, duration_ms = found.groups()
        if kind not in KINDS:
            raise ValueError(f"{kind} is no fault; there are: {', '.join(KINDS)}")
        return Fault(int(at_ms), kind, target, int(duration_ms))


class FaultsInForce:
    """What undoes the faults that last; each is undone once, at its time or by the peace."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def begin(self, clock: Clock, fault: Fault, undo: Callable[[], None]) -> None:
        """``undo`` is called when the fault's time is over, if it has one."""
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
    """Three to ten faults before ``end_ms``, in order of time. ``broker_members``: of the group of the broker."""
    everybody = [*brokers, *members, *broker_members]
    targets_of: dict[str, Sequence[str]] = dict.fromkeys(KINDS, brokers)
    targets_of |= dict.fromkeys(_OF_MEMBERS, everybody[len(brokers) :])
    targets_of |= dict.fromkeys(_OF_ZOOKEEPER, everybody[: len(brokers) + len(members)])
    targets_of |= dict.fromkeys(_OF_THE_NETWORK, everybody)
    targets_of["stop-zookeeper"] = ["zookeeper"]
    plan = []
    for _ in range(random.randint(3, 10)):
        kind = random.choice(kinds)
        target = random.choice(targets_of[kind])
        duration_ms = 0 if kind in _AT_ONCE else random.choice((200, 1_000, 3_000, 7_000, 12_000))
        plan.append(Fault(random.randint(1_000, end_ms), kind, target, duration_ms))
    return sorted(plan)
