"""Medians, ratios ours/Kafka, the table for readers and the JSON for programs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.rounds import Plan, Sample
from tests.bench.servers import Server
from tests.bench.workloads import Kind, Workload
from tests.peers.targets import APACHE_KAFKA, KAFKA_ZK

_NOTHING = "–"


@dataclass(frozen=True)
class Comparison:
    """One figure of both brokers; None if a broker did not take part or does not have the figure."""

    name: str
    unit: str
    kafka: float | None
    ours: float | None
    #: The median of the ratios of each round's pair; for figures with one value, the ratio of the two.
    ratio: float | None
    #: The smallest and the largest ratio of a pair.
    ratio_range: tuple[float, float] | None = None


_FIGURES: tuple[tuple[str, str, Callable[[Sample], float | None]], ...] = (
    ("throughput", "MB/s", lambda sample: sample.mb_per_s),
    ("rate", "records/s", lambda sample: sample.records_per_s),
    ("broker CPU", "s/GB", lambda sample: sample.cpu_s_per_gb),
    ("p50 latency", "ms", lambda sample: sample.outcome.p50_latency_ms),
    ("p99 latency", "ms", lambda sample: sample.outcome.p99_latency_ms),
    ("p99.9 latency", "ms", lambda sample: sample.outcome.p999_latency_ms),
)


#: The figures of each table; the JSON has all.
_SHOWN = {
    Kind.THROUGHPUT: (("throughput", "MB/s"), ("broker CPU", "s/GB"), ("p99 latency", "ms")),
    Kind.LATENCY: (("p50 latency", "ms"), ("p99 latency", "ms"), ("p99.9 latency", "ms")),
}


def compare_workload(workload: Workload, samples: Sequence[Sample]) -> list[Comparison]:
    """Medians and ratios of one workload."""
    mine = [sample for sample in samples if sample.workload == workload.name]
    return [_compare(name, unit, figure, mine) for name, unit, figure in _FIGURES]


def _compare(name: str, unit: str, figure: Callable[[Sample], float | None], samples: Sequence[Sample]) -> Comparison:
    values: dict[str, dict[int, float]] = {APACHE_KAFKA: {}, KAFKA_ZK: {}}
    for sample in samples:
        value = figure(sample)
        if value is not None:
            values[sample.target][sample.round] = value
    kafka, ours = values[APACHE_KAFKA], values[KAFKA_ZK]
    pairs = [ours[number] / kafka[number] for number in kafka.keys() & ours.keys() if kafka[number]]
    if not pairs:
        return Comparison(name, unit, _median(kafka), _median(ours), None)
    return Comparison(name, unit, _median(kafka), _median(ours), statistics.median(pairs), (min(pairs), max(pairs)))


def _median(values: Mapping[int, float]) -> float | None:
    return statistics.median(values.values()) if values else None


def compare_servers(servers: Mapping[str, Server], loaded_bytes: Mapping[str, int]) -> list[Comparison]:
    """Start, memory when idle and after the load, and CPU when idle."""

    def pair(name: str, unit: str, figure: Callable[[str], float]) -> Comparison:
        kafka, ours = (figure(each) if each in servers else None for each in (APACHE_KAFKA, KAFKA_ZK))
        return Comparison(name, unit, kafka, ours, ours / kafka if kafka and ours is not None else None)

    return [
        pair("start to first answer", "s", lambda name: servers[name].median_start_s),
        pair("memory idle", "MB", lambda name: servers[name].idle_memory.resident_bytes / 1e6),
        pair("memory after load", "MB", lambda name: loaded_bytes[name] / 1e6),
        pair("CPU idle", "% of a core", lambda name: servers[name].idle_cpu_share * 100),
    ]


def print_tables(
    console: Console, workloads: Sequence[Workload], samples: Sequence[Sample], servers: Sequence[Comparison]
) -> None:
    """One table for each kind of workload, and one for the brokers themselves."""
    for kind, shown in _SHOWN.items():
        rows = [workload for workload in workloads if workload.kind is kind]
        if rows:
            console.print(_table(kind, rows, shown, samples))
    brokers = Table(title="the brokers themselves")
    brokers.add_column("figure", no_wrap=True)
    for column in ("Kafka", "ours", "ratio"):
        brokers.add_column(column, justify="right")
    for figure in servers:
        brokers.add_row(f"{figure.name}, {figure.unit}", *_cells(figure))
    console.print(brokers)


def _table(
    kind: Kind, workloads: Sequence[Workload], shown: Sequence[tuple[str, str]], samples: Sequence[Sample]
) -> Table:
    table = Table(
        title="Apache Kafka 3.9.1 (ZooKeeper mode) and kafka-zk: medians; ratio ours / Kafka: median (range) of pairs; "
        f"{kind}"
    )
    table.add_column("workload", no_wrap=True)
    for name, unit in shown:
        table.add_column(f"{name}\nKafka {unit}", justify="right")
        table.add_column(f"\nours {unit}", justify="right")
        table.add_column("\nratio", justify="right", style="bold")
    for workload in workloads:
        figures = {figure.name: figure for figure in compare_workload(workload, samples)}
        table.add_row(workload.title, *(cell for name, _ in shown for cell in _cells(figures[name])))
    return table


def _cells(figure: Comparison) -> tuple[str, str, str]:
    """Kafka's value, ours, and the ratio, as text."""

    def text(value: float | None) -> str:
        return _NOTHING if value is None else f"{value:,.2f}"

    ratio = text(figure.ratio)
    if figure.ratio_range and figure.ratio_range[0] != figure.ratio_range[1]:
        ratio += f" ({figure.ratio_range[0]:.2f}–{figure.ratio_range[1]:.2f})"
    return text(figure.kafka), text(figure.ours), ratio


def as_json(
    plan: Plan, samples: Sequence[Sample], servers: Sequence[Comparison], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Everything: facts (commit, machine, configuration), the summary, and every single run."""
    return {
        **facts,
        "plan": {"rounds": plan.rounds, "warmup_rounds": plan.warmup_rounds, "records": plan.records},
        "workloads": {
            workload.name: {
                "title": workload.title,
                "kind": workload.kind.name.lower(),
                "client": str(workload.client),
                "beside": str(workload.beside),
                "client_config": dict(workload.config),
                "record_size_bytes": workload.record_size_bytes,
                "records": plan.records_of(workload),
                "partitions": workload.partitions,
                "figures": [asdict(figure) for figure in compare_workload(workload, samples)],
            }
            for workload in plan.workloads
        },
        "brokers": [asdict(figure) for figure in servers],
        "samples": [{**asdict(sample), "outcome": sample.outcome._asdict()} for sample in samples],
    }


def write_json(path: Path, result: Mapping[str, Any]) -> None:
    """Write the result of `as_json`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
