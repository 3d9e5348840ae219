"""Many cuts of every shape on every file system, and the table of the judges' findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tests.power import judges
from tests.power.disks import Pool, pool
from tests.power.extraction import Extraction
from tests.power.minority import Minority
from tests.power.single import SingleMachine
from tests.power.verdict import Verdict


class Run(Protocol):
    """One workload of a seed, and the cuts in it."""

    def play(self, cuts: int) -> Iterator[Verdict]: ...


@dataclass(frozen=True)
class Shape:
    """The machines that lose power. ``share``: the shape's part of a campaign's cuts; ``cuts``: the largest number in
    one run.
    """

    name: str
    share: float
    cuts: int
    start: Callable[[Pool, str, str, int], Run]


SHAPES: Mapping[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape("single", 0.7, 20, SingleMachine),
        Shape("minority", 0.25, 5, Minority),
        Shape("extraction", 0.05, 5, Extraction),
    )
}


def play(filesystem: str, shape: Shape, kind: str, seed: int, cuts: int) -> Iterator[Verdict]:
    """``cuts`` cuts, in runs of consecutive seeds. If a violation ends a run early, another one follows.

    Raises: DiskError.
    """
    left = cuts
    while left > 0:
        with pool() as disks:
            for verdict in shape.start(disks, filesystem, kind, seed).play(min(left, shape.cuts)):
                left -= 1
                yield verdict
        seed += 1


@dataclass
class Row:
    """The cuts of one shape on one file system; ``by_judge``: in how many of them a judge found something."""

    filesystem: str
    shape: str
    kind: str
    cuts: int = 0
    bad: int = 0
    by_judge: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def add(self, verdict: Verdict) -> None:
        self.cuts += 1
        self.bad += verdict.is_bad
        self.by_judge.update({violation.judge for violation in verdict.violations})
        self.seconds += verdict.judged_s


def table(rows: list[Row]) -> str:
    """One line per row, with the number of cuts in which each judge found something."""
    heads = ["filesystem", "shape", "kind", "snapshots", "violated", *judges.NAMES, "s each"]
    lines = [heads] + [
        [row.filesystem, row.shape, row.kind, str(row.cuts), str(row.bad)]
        + [str(row.by_judge[name]) for name in judges.NAMES]
        + [f"{row.seconds / row.cuts:.1f}" if row.cuts else "-"]
        for row in rows
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
