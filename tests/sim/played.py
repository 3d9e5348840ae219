"""The numbers of seeds and scripts that were played on each commit, in a file that the commands write.

``python -m tests.sim.played`` sums it up.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).with_name("played.txt")
ASKED = "KAFKA_ZK_RECORD_ROUNDS"
"""If this environment variable is set, campaigns of real processes record the seeds that they play."""


class Range(NamedTuple):
    """Seeds from ``first`` to ``last``, and the number of failed ones."""

    kind: str
    commit: str
    first: int
    last: int
    failed: int

    @property
    def histories(self) -> int:
        return self.last - self.first + 1


def record(kind: str, first: int, last: int, failed: int) -> None:
    """Add a range that was played with the files of this checkout. It is joined with a range that it continues."""
    made = Range(kind, commit(), first, last, failed)
    ranges = recorded()
    at = next((at for at, each in enumerate(ranges) if _joins(each, made)), None)
    if at is None:
        ranges.append(made)
    else:
        ranges[at] = ranges[at]._replace(last=last, failed=ranges[at].failed + failed)
    lines = [f"{each.commit} {each.first}-{each.last} {each.failed} failed: {each.kind}\n" for each in ranges]
    FILE.write_text("".join(lines))


@contextmanager
def campaign(kind: str, seed: int) -> Iterator[None]:
    """Record a seed if ``ASKED`` is set: as failed if the block raises."""
    commit()  # before the block, because HEAD may change meanwhile
    failed = 1
    try:
        yield
        failed = 0
    finally:
        if os.environ.get(ASKED):
            record(kind, seed, seed, failed)


def _joins(before: Range, after: Range) -> bool:
    return (before.kind, before.commit, before.last + 1) == (after.kind, after.commit, after.first)


def recorded() -> list[Range]:
    """All ranges, oldest first. Raises: ValueError for an invalid line."""
    found = []
    for line in FILE.read_text().splitlines() if FILE.exists() else []:
        numbers, _, kind = line.partition(" failed: ")
        named, seeds, failed = numbers.split(" ")
        first, last = seeds.split("-")
        found.append(Range(kind, named, int(first), int(last), int(failed)))
    return found


@cache
def commit() -> str:
    """HEAD at the first call, with a ``+`` if tracked files differ from it."""
    here = Path(__file__).parent
    named = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, text=True)
    if named.returncode:
        return "unknown"
    changed = subprocess.run(["git", "status", "--porcelain", "--untracked-files=no"], cwd=here, capture_output=True)
    lines = [line for line in changed.stdout.splitlines() if not line.endswith(FILE.name.encode())]
    return named.stdout.strip() + ("+" if lines else "")


def total(kind: str) -> int:
    """Number of different seeds on all commits."""
    return len({seed for each in recorded() if each.kind == kind for seed in range(each.first, each.last + 1)})


def main() -> int:
    by_commit: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    for each in recorded():
        by_commit[each.kind, each.commit] += each.histories
        failed[each.kind, each.commit] += each.failed
    for (kind, named), count in by_commit.items():
        print(f"{kind}: {count} on {named}, {failed[kind, named]} failed")
    for kind in dict.fromkeys(kind for kind, _ in by_commit):
        print(f"{kind}: {total(kind)} different ones in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
