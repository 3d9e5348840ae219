"""Medians, the tables for readers and the JSON for programs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.rebalance.changes import Sample
from tests.bench.rebalance.herd import Herd
from tests.bench.rebalance.methods import METHODS

_NOTHING = "–"
#: Heading -> the figure of a sample.
_FIGURES: dict[str, Callable[[Sample], float | None]] = {
    "settled\nms": lambda sample: sample.change.settled_ms,
    "moved\npartitions": lambda sample: len(sample.change.moved),
    "silence of a\nmoved one, ms": lambda sample: sample.change.longest_silence_ms(
        sample.change.moved | sample.change.returned
    ),
    "silence of one\nthat stays, ms": lambda sample: sample.change.longest_silence_ms(sample.change.stayed),
    "in gaps of\nquiet times": lambda sample: sample.change.stayed_ratio,
    "delivered\nagain": lambda sample: sample.change.repeated,
}


def print_changes(console: Console, samples: Sequence[Sample]) -> None:
    """One row for each method, count of partitions and kind of change; medians over the rounds."""
    table = Table(title="a group of three at a steady load: from a change that is visible until all is delivered again")
    table.add_column("group", no_wrap=True)
    table.add_column("partitions", justify="right")
    table.add_column("change")
    for heading in _FIGURES:
        table.add_column(heading, justify="right")
    for (partitions, kind, method), found in _by_row(samples).items():
        values = [_median(figure(sample) for sample in found) for figure in _FIGURES.values()]
        table.add_row(METHODS[method].title, str(partitions), kind, *map(_text, values))
    console.print(table)


def print_herd(console: Console, herds: Sequence[Herd]) -> None:
    """One row for each number of members and partitions and each method; in brackets if the join did not settle."""
    table = Table(title="one join: what ZooKeeper was asked, and whom it notified")
    for heading in ("partitions", "members", "group", "requests", "of these writes", "notifications", "owned after"):
        table.add_column(heading, justify="left" if heading == "group" else "right")
    for herd in sorted(herds, key=lambda each: (each.partitions, each.members)):
        numbers = (herd.requests, herd.writes, herd.notifications, herd.owned)
        cells = (f"{each:,}" if herd.settled else f"({each:,})" for each in numbers)
        table.add_row(str(herd.partitions), str(herd.members), METHODS[herd.method].title, *cells)
    console.print(table)


def as_json(facts: Mapping[str, Any], samples: Sequence[Sample], herds: Sequence[Herd]) -> dict[str, Any]:
    """Everything: facts, every single change with the silence of each partition, and every join."""
    return {
        **facts,
        "changes": [
            asdict(sample)
            | {"change": asdict(sample.change) | {each: sorted(getattr(sample.change, each)) for each in _SETS}}
            for sample in samples
        ],
        "joins": [asdict(herd) for herd in herds],
    }


_SETS = ("moved", "returned", "stayed")


def _by_row(samples: Sequence[Sample]) -> Mapping[tuple[int, str, str], list[Sample]]:
    """The samples of each row: kinds in the order in which they happened, methods next to each other."""
    kinds = list(dict.fromkeys(sample.kind for sample in samples))
    rows: dict[tuple[int, str, str], list[Sample]] = {}
    for sample in sorted(samples, key=lambda each: (each.partitions, kinds.index(each.kind))):
        rows.setdefault((sample.partitions, sample.kind, sample.method), []).append(sample)
    return rows


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _text(value: float | None) -> str:
    if value is None:
        return _NOTHING
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
