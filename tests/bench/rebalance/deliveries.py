"""The members' record files, evaluated for one change of a group: who delivers, and who is silent for how long.

All times are nanoseconds of the machine's monotonic clock, which is the same in every process.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

#: A partition that stays has stopped if it was silent for longer than this many times its longest gap in quiet times,
#: and if the silence began before all moved partitions were delivered again, or soon after: others have another cause.
STOPPED_FACTOR = 1.5
_REACTION_NS = 250_000_000
_NS_PER_MS = 1e6


class Delivery(NamedTuple):
    """One delivered record."""

    time_ns: int
    member: str
    offset: int


#: Partition -> its deliveries in order of time.
Deliveries = Mapping[int, Sequence[Delivery]]


@dataclass(frozen=True)
class Change:
    """One change of membership. Silences are in ms, by partition.

    ``moved``: the partitions that have a different owner. ``returned``: the partitions that a restarted member has
    again. ``stayed``: the partitions that kept their owner throughout.
    """

    #: From the moment that the change was visible until every partition was delivered by its (new) owner again.
    settled_ms: float
    moved: frozenset[int]
    returned: frozenset[int]
    stayed: frozenset[int]
    silence_ms: Mapping[int, float]
    #: The longest gap in an equal window before, in which nothing changed.
    quiet_ms: Mapping[int, float]
    #: Records that were delivered a second time.
    repeated: int

    def longest_silence_ms(self, partitions: Iterable[int]) -> float | None:
        return max((self.silence_ms[partition] for partition in partitions), default=None)

    @property
    def stayed_ratio(self) -> float | None:
        """For the partitions that stayed: the longest silence, divided by the longest gap of quiet times."""
        quiet = max((self.quiet_ms[partition] for partition in self.stayed), default=0.0)
        silence = self.longest_silence_ms(self.stayed)
        return silence / quiet if silence is not None and quiet else None


class NotSettled(Exception):
    """At the end, no member of the group delivers a partition."""


class RecordReader:
    """Reads the members' files as they grow; an incomplete line waits for the next read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._positions: dict[Path, int] = {}
        self._found: defaultdict[int, list[Delivery]] = defaultdict(list)

    def read(self) -> Deliveries:
        """Everything since the last ``forget``."""
        for path in sorted(self._folder.iterdir()):
            with path.open("rb") as file:
                file.seek(self._positions.get(path, 0))
                whole = file.read().rpartition(b"\n")[0]
            self._positions[path] = self._positions.get(path, 0) + len(whole) + bool(whole)
            for line in whole.splitlines():
                time_ns, partition, offset = map(int, line.split())
                self._found[partition].append(Delivery(time_ns, path.name, offset))
        for deliveries in self._found.values():
            deliveries.sort()
        return self._found

    def forget(self, before_ns: int) -> None:
        """Drop the deliveries before a moment."""
        for partition, deliveries in self._found.items():
            self._found[partition] = [each for each in deliveries if each.time_ns >= before_ns]


def settled(deliveries: Deliveries, partition_count: int, since_ns: int, members: set[str]) -> bool:
    """Whether each partition has been delivered since then by exactly one member, and every member delivered a record.

    This is for groups in which every member gets a partition.
    """
    deliverers = [
        {each.member for each in reversed(deliveries.get(partition, ())) if each.time_ns >= since_ns}
        for partition in range(partition_count)
    ]
    return all(len(each) == 1 for each in deliverers) and set().union(*deliverers) == members


def change(deliveries: Deliveries, begun_ns: int, visible_ns: int, end_ns: int, restarted: str | None = None) -> Change:
    """The change between ``begun_ns`` (a member was killed, or got its request) and ``end_ns``, when all is quiet
    again.

    ``visible_ns``: the moment at which the others could see the change of membership. A silence counts completely if it
    ends after that, and that of a moved partition ends when its new owner delivers; quiet times are equally long,
    before ``begun_ns``. Raises: NotSettled.
    """
    owners = {partition: _owners(partition, each, begun_ns, end_ns) for partition, each in deliveries.items()}
    moved = frozenset(partition for partition, (before, after) in owners.items() if before != after)
    returned = frozenset(partition for partition, (_, after) in owners.items() if after == restarted) - moved
    stayed = frozenset(owners) - moved - returned
    until_ns = dict.fromkeys(deliveries, end_ns)
    until_ns |= {partition: _first(deliveries[partition], owners[partition][1], begun_ns) for partition in moved}
    gaps = {partition: _longest_gap(each, visible_ns, until_ns[partition]) for partition, each in deliveries.items()}
    quiet_start_ns = begun_ns - (end_ns - visible_ns)
    quiet = {partition: _longest_gap(each, quiet_start_ns, begun_ns) for partition, each in deliveries.items()}
    settled_ns = max(
        [*(until_ns[partition] for partition in moved), *(gaps[partition].end_ns for partition in returned)],
        default=visible_ns,
    )
    stopped = [
        gaps[partition].end_ns
        for partition in stayed
        if gaps[partition].length_ns > STOPPED_FACTOR * quiet[partition].length_ns
        and gaps[partition].end_ns - gaps[partition].length_ns <= max(settled_ns, visible_ns + _REACTION_NS)
    ]
    return Change(
        settled_ms=(max([settled_ns, *stopped]) - visible_ns) / _NS_PER_MS,
        moved=moved,
        returned=returned,
        stayed=stayed,
        silence_ms={partition: gap.length_ns / _NS_PER_MS for partition, gap in gaps.items()},
        quiet_ms={partition: gap.length_ns / _NS_PER_MS for partition, gap in quiet.items()},
        repeated=sum(_repeated(each, begun_ns, end_ns) for each in deliveries.values()),
    )


class _Gap(NamedTuple):
    length_ns: int
    end_ns: int


def _owners(partition: int, deliveries: Sequence[Delivery], begun_ns: int, end_ns: int) -> tuple[str, str]:
    """The member that delivered last before the change, and the one that delivered last of all."""
    before = [each.member for each in deliveries if each.time_ns < begun_ns]
    within = [each.member for each in deliveries if begun_ns <= each.time_ns <= end_ns]
    if not before or not within:
        when = "after" if before else "before"
        raise NotSettled(f"partition {partition} was not delivered {when} the change")
    return before[-1], within[-1]


def _first(deliveries: Sequence[Delivery], member: str, after_ns: int) -> int:
    return next(each.time_ns for each in deliveries if each.member == member and each.time_ns >= after_ns)


def _longest_gap(deliveries: Sequence[Delivery], start_ns: int, end_ns: int) -> _Gap:
    """The longest time between two deliveries, the second of which is in the window."""
    gaps = [
        _Gap(later.time_ns - earlier.time_ns, later.time_ns)
        for earlier, later in itertools.pairwise(deliveries)
        if start_ns <= later.time_ns <= end_ns
    ]
    return max(gaps, default=_Gap(0, start_ns))


def _repeated(deliveries: Sequence[Delivery], begun_ns: int, end_ns: int) -> int:
    count, highest = 0, -1
    for each in deliveries:
        count += begun_ns <= each.time_ns <= end_ns and each.offset <= highest
        highest = max(highest, each.offset)
    return count
