"""Represents the offsets of one partition as runs, and finds offsets that are missing or present more than once. Pure.

A run is (first, last), both included, without gaps. If an offset is in a file twice, the file has two runs.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Offsets = npt.NDArray[np.int64]


class Runs(NamedTuple):
    """Runs as arrays of equal length. ``files``: the number of the file that holds each run."""

    firsts: Offsets
    lasts: Offsets
    files: Offsets


class Overlap(NamedTuple):
    """The offsets from ``first`` to ``last`` of ``file`` are also in ``other``."""

    first: int
    last: int
    file: int
    other: int


class Gaps(NamedTuple):
    """Runs of offsets that no file has, as ascending arrays of equal length, and the files before and after each
    gap."""

    firsts: Offsets
    lasts: Offsets
    before: Offsets
    after: Offsets


class Judged(NamedTuple):
    """``rows``: number of rows, with all copies. ``distinct``: number of distinct offsets. ``covered``: the distinct
    offsets as runs."""

    rows: int
    distinct: int
    covered: tuple[Offsets, Offsets]
    gaps: Gaps
    overlaps: Sequence[Overlap]

    @property
    def first(self) -> int:
        return int(self.covered[0][0])

    @property
    def last(self) -> int:
        return int(self.covered[1][-1])


def split(offsets: Offsets) -> tuple[Offsets, Offsets]:
    """The firsts and lasts of the runs that together hold exactly these offsets, copies included. The offsets may be in
    any order."""
    firsts, lasts = [], []
    left = np.sort(offsets)
    while left.size:
        is_copy = np.zeros(left.size, bool)
        is_copy[1:] = left[1:] == left[:-1]
        once, left = left[~is_copy], left[is_copy]
        ends = np.flatnonzero(np.diff(once) != 1)
        firsts.append(once[np.concatenate(([0], ends + 1))])
        lasts.append(once[np.concatenate((ends, [once.size - 1]))])
    empty = np.empty(0, np.int64)
    return np.concatenate([empty, *firsts]), np.concatenate([empty, *lasts])


def united(parts: Sequence[tuple[Offsets, Offsets]]) -> tuple[Offsets, Offsets]:
    """As few runs as possible that together hold the offsets of all ``parts``, copies included."""
    if len(parts) == 1:
        return parts[0]
    firsts, lasts = (np.concatenate(each) for each in zip(*parts, strict=True))
    places, of = np.unique(np.concatenate((firsts, lasts + 1)), return_inverse=True)
    steps = np.zeros(places.size, np.int64)
    np.add.at(steps, of, np.repeat((1, -1), (firsts.size, lasts.size)))
    return np.repeat(places, np.maximum(steps, 0)), np.repeat(places, np.maximum(-steps, 0)) - 1


def joined(pieces: Iterable[tuple[int, Offsets, Offsets]]) -> Runs:
    """``pieces``: a file's number, and the firsts and lasts of its runs."""
    found = [(firsts, lasts, np.full(firsts.size, file, np.int64)) for file, firsts, lasts in pieces]
    return Runs(*(np.concatenate(column) for column in zip(*found, strict=True)))


def judge(runs: Runs) -> Judged:
    """``runs``: at least one, in any order."""
    order = np.lexsort((runs.lasts, runs.firsts))
    firsts, lasts, files = (each[order] for each in runs)
    # The run with the greatest end so far covers whatever any earlier run shares with the next one.
    reached = np.maximum.accumulate(lasts)
    owners = np.maximum.accumulate(np.where(lasts == reached, np.arange(lasts.size), 0))
    gaps = np.flatnonzero(firsts[1:] > reached[:-1] + 1) + 1
    overlaps = np.flatnonzero(firsts[1:] <= reached[:-1]) + 1
    ends = np.minimum(lasts[overlaps], reached[overlaps - 1])
    rows = int((lasts - firsts + 1).sum())
    return Judged(
        rows,
        rows - int((ends - firsts[overlaps] + 1).sum()),
        (firsts[np.concatenate(([0], gaps))], reached[np.concatenate((gaps - 1, [reached.size - 1]))]),
        Gaps(reached[gaps - 1] + 1, firsts[gaps] - 1, files[owners[gaps - 1]], files[gaps]),
        _merged(
            Overlap(int(firsts[at]), int(end), int(files[at]), int(files[owners[at - 1]]))
            for at, end in zip(overlaps, ends, strict=True)
        ),
    )


def not_covered(offsets: Offsets, covered: tuple[Offsets, Offsets]) -> Offsets:
    """The offsets that are in no run. The runs must ascend and not overlap."""
    firsts, lasts = covered
    at = np.searchsorted(firsts, offsets, side="right") - 1
    return offsets[(at < 0) | (offsets > lasts[at])]


def neighbours(firsts: Offsets, lasts: Offsets, distance: int) -> tuple[Offsets, Offsets]:
    """Join ascending runs with fewer than ``distance`` offsets between them."""
    if not firsts.size:
        return firsts, lasts
    breaks = np.flatnonzero(firsts[1:] - lasts[:-1] > distance)
    return firsts[np.concatenate(([0], breaks + 1))], lasts[np.concatenate((breaks, [lasts.size - 1]))]


def _merged(overlaps: Iterable[Overlap]) -> list[Overlap]:
    """Merge adjacent overlaps of the same two files."""
    found: list[Overlap] = []
    for each in overlaps:
        if found and found[-1][2:] == each[2:] and each.first <= found[-1].last + 1:
            found[-1] = found[-1]._replace(last=max(found[-1].last, each.last))
        else:
            found.append(each)
    return found
