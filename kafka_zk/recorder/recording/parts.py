"""Divides a bounded recording into parts by time, and decides which of them are dropped. Pure.

Time is the latest time of an entry so far, but never later than the present: a process whose clock is wrong can neither
cause parts to be dropped nor prevent it. If the recorder's own clock was ahead, dropping continues as
soon as it is right.
"""

from collections.abc import Iterable
from typing import NamedTuple

PART_COUNT = 64
"""Number of parts of equal length in the duration that is kept."""
MOST_ENTRIES = 10_000
"""Maximum number of entries in a part, so that dropping a part takes little time."""


class Part(NamedTuple):
    """``first``: number of its first entry. ``from_ms``, ``to_ms``: the time at its first and at its last entry."""

    first: int
    from_ms: int
    to_ms: int


class Parts:
    """The parts of a recording, the oldest first.

    Args:
        keep_ms: what is older than that is dropped, in whole parts.
        known: the parts so far. The caller takes the entries of the last one again.
    """

    def __init__(self, keep_ms: int, known: Iterable[Part] = ()) -> None:
        self._keep_ms = keep_ms
        self.part_ms = max(1, keep_ms // PART_COUNT)
        self._parts = list(known)
        self._now_ms = self._parts[-1].from_ms if self._parts else 0

    @property
    def all(self) -> tuple[Part, ...]:
        return tuple(self._parts)

    @property
    def oldest_ms(self) -> int:
        """Parts that end before this time are dropped."""
        return self._now_ms - self._keep_ms

    def take(self, first: int, last: int, time_ms: int, present_ms: int) -> bool:
        """Take new entries that belong together. The state is complete before the first of them, so a part may begin
        there, but not between them.

        Args:
            first, last: the entries' numbers, in the order of arrival.
            time_ms: the entries' time.
            present_ms: the time of the recorder's machine.
        Returns: True if a new part begins with them.
        """
        self._now_ms = min(max(self._now_ms, time_ms), present_ms)
        latest = self._parts[-1] if self._parts else None
        begins = latest is None or (
            abs(self._now_ms - latest.from_ms) >= self.part_ms or last - latest.first >= MOST_ENTRIES
        )
        if latest is None or begins:
            self._parts.append(Part(first, self._now_ms, self._now_ms))
        else:
            self._parts[-1] = latest._replace(to_ms=self._now_ms)
        return begins

    def drop(self, most: int) -> Part | None:
        """Drop parts that are too old, at most ``most``. Returns the first remaining part; None if nothing was dropped.
        """
        old_count = max((at for at, part in enumerate(self._parts, 1) if part.to_ms < self.oldest_ms), default=0)
        del self._parts[: min(old_count, most)]
        return self._parts[0] if min(old_count, most) else None
