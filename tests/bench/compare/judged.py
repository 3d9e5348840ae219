"""The targets of the comparison: ratios in one run, and limits in seconds, with a verdict for missing figures."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.bench.compare.systems import KRAFT, ON_ZOOKEEPER, OURS, SESSION_TIMEOUT_MS

Samples = Mapping[str, Mapping[int, Sequence[Mapping[str, float]]]]
"""The figures of each round, by system, then by number of partitions."""


class Target(NamedTuple):
    """The target for our ``figure`` at ``partitions`` (None: at each size), as a ratio to the figure of ``other``, or
    as an absolute value.
    """

    title: str
    figure: str
    limit: float
    partitions: int | None
    other: str | None = None

    @property
    def wanted(self) -> str:
        return f"≤ {self.limit:g}" + (f" of {self.other}" if self.other else " s")


class Verdict(NamedTuple):
    """``found`` is None if a figure is missing; there is no judgement then."""

    target: Target
    partitions: int | None
    found: float | None

    @property
    def text(self) -> str:
        if self.found is None:
            return "not measured"
        return "met" if self.found <= self.target.limit else "MISSED"


MANY, MOST = 2_000, 10_000
_SESSION_S = SESSION_TIMEOUT_MS / 1000
TARGETS = (
    Target("failover, beyond the session's end", "kill_beyond_s", 0.1, MANY, ON_ZOOKEEPER),
    Target("failover, beyond the session's end", "kill_beyond_s", 1.0, None, KRAFT),
    Target("failover, beyond the session's end", "kill_beyond_s", 1.0, MOST),
    Target("creation until usable", "create_s", 0.1, MANY, ON_ZOOKEEPER),
    Target("creation until usable", "create_s", 0.2, MANY, KRAFT),
    Target("clean stop, exit", "stop_exit_s", 0.15, MANY, ON_ZOOKEEPER),
    Target("clean stop, produce gap", "stop_gap_s", 0.3, MANY),
    Target("rolling restart, longest gap", "rolling_gap_s", 0.5, None),
    Target("kill -9 under a supervisor, longest gap", "supervised_gap_s", 1.0, MANY),
    Target("kill -9 without one, longest gap", "kill_gap_s", _SESSION_S + 0.5, MANY),
    Target("start", "start_s", 0.3, None, ON_ZOOKEEPER),
    Target("start", "start_s", 0.3, None, KRAFT),
)


def median(samples: Samples, system: str, partitions: int, figure: str) -> float | None:
    """The median of the rounds that have the figure."""
    rounds = samples.get(system, {}).get(partitions, ())
    values = [figures[figure] for figures in rounds if figure in figures]
    return statistics.median(values) if values else None


def verdicts(samples: Samples) -> list[Verdict]:
    """A verdict on each target, once for each of its sizes."""
    sizes = sorted({partitions for by_size in samples.values() for partitions in by_size})
    return [
        Verdict(target, partitions, _found(samples, target, partitions))
        for target in TARGETS
        for partitions in (sizes if target.partitions is None else [target.partitions])
    ]


def _found(samples: Samples, target: Target, partitions: int) -> float | None:
    ours = median(samples, OURS, partitions, target.figure)
    if ours is None or target.other is None:
        return ours
    other = median(samples, target.other, partitions, target.figure)
    return ours / other if other else None
