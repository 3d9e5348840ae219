"""Judges one cell of the table: a client, a fault, and the trace of what the client promised. Pure.

A client is fed numbers, in order, in one partition. A producer writes them; a member of a group reads them and commits
its offsets. The judge compares the trace with the truth: the log as a ``read_committed`` consumer reads it, and the
group's committed offset.

=============== =====================================================================================
acknowledged    the client said that these values are written (transactions: committed)
aborted         the client said that the transaction has no effect
refused         the client raised an error, and the outcome is unknown
read, committed a member received the values, and its offsets after them were committed
fed             the values were given to a producer, or written for a member to read
began, ended    of the fault
replaced        the application gave up this client and started another one
stuck           no answer came in time, or the program did not end
=============== =====================================================================================
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

DONE = frozenset({"acknowledged", "committed"})
REFUSED = frozenset({"refused", "aborted"})


class Event(NamedTuple):
    """``at_s``: on the monotonic clock."""

    at_s: float
    kind: str
    values: tuple[int, ...] = ()
    error: str = ""


class Truth(NamedTuple):
    """``log``: the values that a ``read_committed`` consumer reads, in order. ``group_offset``: the group's committed
    offset, which counts values too, because value n has offset n where groups are judged; None if no group was used."""

    log: tuple[int, ...]
    group_offset: int | None = None


class Verdict(NamedTuple):
    """``acknowledged``: number of values. ``refused``: number of errors that the application saw. ``leaked``: values of
    aborted transactions that can be read. ``recovered_s``: the longest time from a value to the next success while
    the fault lasted and directly afterwards; None if there was no success."""

    acknowledged: int
    lost: tuple[int, ...]
    doubled: tuple[int, ...]
    leaked: tuple[int, ...]
    refused: int
    replaced: int
    stuck: int
    recovered_s: float | None

    def objections(self, allowed: Collection[str]) -> list[str]:
        """The names of the findings that the fault does not excuse, such as ``lost``."""
        found = {
            name: getattr(self, name) for name in ("lost", "doubled", "leaked", "refused", "replaced", "stuck")
        } | {"stuck": self.stuck or self.recovered_s is None}
        return [name for name, finding in found.items() if finding and name not in allowed]


def judge(trace: Sequence[Event], truth: Truth, *, reads: bool) -> Verdict:
    """``reads``: the client is a member that reads; otherwise it is a producer."""
    acknowledged = values_of(trace, "committed" if reads else "acknowledged")
    missing = _skipped(trace) if reads else acknowledged - set(truth.log)
    if truth.group_offset is not None:
        missing |= {value for value in acknowledged if value >= truth.group_offset}
    return Verdict(
        acknowledged=len(acknowledged),
        lost=tuple(sorted(missing)),
        doubled=tuple(sorted(set(_read_again(trace) if reads else _written_twice(truth.log)))),
        leaked=tuple(sorted(values_of(trace, "aborted") & set(truth.log))),
        refused=sum(event.kind in REFUSED for event in trace),
        replaced=sum(event.kind == "replaced" for event in trace),
        stuck=sum(event.kind == "stuck" for event in trace),
        recovered_s=_recovered_s(trace),
    )


def values_of(trace: Sequence[Event], kind: str) -> set[int]:
    """All values of the events of one kind."""
    return {value for event in trace if event.kind == kind for value in event.values}


def _skipped(trace: Sequence[Event]) -> set[int]:
    """Values that a member never read, although it read or committed later ones."""
    read, passed = values_of(trace, "read"), values_of(trace, "read") | values_of(trace, "committed")
    return {value for value in values_of(trace, "fed") - read if value < max(passed, default=-1)}


def _read_again(trace: Sequence[Event]) -> Iterator[int]:
    """Values that a member read after their offset had been committed."""
    committed = -1
    for event in trace:
        if event.kind == "committed":
            committed = max(committed, *event.values)
        elif event.kind == "read":
            yield from (value for value in event.values if value <= committed)


def _written_twice(log: Sequence[int]) -> Iterator[int]:
    return (value for value, count in Counter(log).items() if count > 1)


def _recovered_s(trace: Sequence[Event]) -> float | None:
    waiting_since_s, longest_s = None, None
    began = ended = False
    for event in trace:
        began, ended = began or event.kind == "began", ended or event.kind == "ended"
        if event.kind == "fed" and waiting_since_s is None:
            waiting_since_s = event.at_s
        elif event.kind in DONE and waiting_since_s is not None:
            if began:
                longest_s = max(longest_s or 0.0, event.at_s - waiting_since_s)
            waiting_since_s = None
            if ended:
                break
    return None if waiting_since_s is not None else longest_s
