"""`python -m tests.bench`: Apache Kafka 3.9.1 in ZooKeeper mode and kafka-zk side by side in one run."""

from __future__ import annotations

import os
import signal
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console

from kafka_zk.native.loading import REQUIRE, VARIABLE
from tests.bench import machine, measure, plot, report, rounds, servers, workloads
from tests.bench.workloads import WORKLOADS, Kind
from tests.peers import jars, java, requirements, targets
from tests.peers.processes import ProcessFailed

_FULL_ROUNDS, _FULL_RECORDS = 5, 500_000
_HEADLINE_ROUNDS = 3
_QUICK_ROUNDS, _QUICK_RECORDS = 1, 50_000
_LEAST_NATIVE_CALLS = 100
#: The table's width; a pipe reports 80.
_MINIMUM_WIDTH = 165
_NAMES = [workload.name for workload in WORKLOADS]


class _Pass(NamedTuple):
    """The measured brokers, samples and facts of one pass."""

    plan: rounds.Plan
    samples: list[rounds.Sample]
    brokers: list[report.Comparison]
    facts: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return report.as_json(self.plan, self.samples, self.brokers, self.facts)


def _default_cores() -> str:
    """The first two cores that this process may use."""
    return ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", "round_count", type=click.IntRange(1), help=f"Measured rounds [{_FULL_ROUNDS}].")
@click.option("--warmup", type=click.IntRange(0), default=1, show_default=True, help="Rounds thrown away before.")
@click.option("--records", type=click.IntRange(1), help=f"Records of 1,000 bytes a run [{_FULL_RECORDS}].")
@click.option("--headline", is_flag=True, help=f"The most telling rows, {_HEADLINE_ROUNDS} rounds, two cores only.")
@click.option(
    "--quick", is_flag=True, help=f"{_QUICK_ROUNDS} round of {_QUICK_RECORDS} records: a smoke test, no proof."
)
@click.option("--pin", "broker_cores", metavar="LIST", help="Cores of each broker, or 'none' [the first two].")
@click.option("--pin-clients", "client_cores", metavar="LIST", help="Cores of the clients [any].")
@click.option("--rows", "chosen", type=click.Choice(_NAMES), multiple=True, help="Only these rows.")
@click.option("--target", "names", type=click.Choice(targets.NAMES), multiple=True, help="Only this broker.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write all numbers here.")
@click.option("--svg", "svg_path", type=click.Path(path_type=Path), help="Draw the ratios here.")
def main(
    round_count: int | None,
    warmup: int,
    records: int | None,
    headline: bool,
    quick: bool,
    broker_cores: str | None,
    client_cores: str | None,
    chosen: tuple[str, ...],
    names: tuple[str, ...],
    json_path: Path | None,
    svg_path: Path | None,
) -> None:
    """Run every workload on both brokers in alternating pairs; print medians and ratios ours/Kafka.

    All rows are measured with the brokers on two cores, and the headline rows again with all cores of the machine, if
    it has more.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # brokers and ZooKeeper must be stopped
    console = Console(width=max(Console().width, _MINIMUM_WIDTH))
    cores = None if broker_cores == "none" else broker_cores or _default_cores()
    plan = rounds.Plan(
        [row for row in WORKLOADS if row.name in chosen or (not chosen and (row.headline or not headline))],
        round_count or (_QUICK_ROUNDS if quick else _HEADLINE_ROUNDS if headline else _FULL_ROUNDS),
        warmup,
        records or (_QUICK_RECORDS if quick else _FULL_RECORDS),
        client_cores,
    )
    try:
        requirements.require(kcat=True)
        java.compiled(jars.ORACLE_VERSION)
        held = _measure(console, plan, names or targets.NAMES, cores)
        free = None
        if cores is not None and not (headline or quick or chosen):
            free = _measure_unpinned(console, plan, names or targets.NAMES, cores)
    except (requirements.MissingPeerTools, jars.JarsNotResolved, java.JavaFailed) as missing:
        raise click.ClickException(str(missing)) from missing
    except (workloads.BenchFailed, ProcessFailed) as failure:
        raise click.ClickException(str(failure)) from failure
    result = held.as_json() | {"unpinned": free and free.as_json()}
    if json_path:
        report.write_json(json_path, result)
        console.print(f"all numbers: {json_path}")
    if svg_path:
        plot.write(svg_path, result)
        console.print(f"plot: {svg_path}")


def _measure_unpinned(console: Console, plan: rounds.Plan, names: Sequence[str], cores: str) -> _Pass | None:
    """Measure the headline rows at full speed with all cores; None if there are no further cores."""
    usable = len(os.sched_getaffinity(0))
    if usable <= len(cores.split(",")):
        console.print(f"- no unpinned rows: the machine has {usable} cores, the brokers above could use all of them")
        return None
    rows = [row for row in WORKLOADS if row.headline and row.kind is Kind.THROUGHPUT]
    return _measure(console, replace(plan, workloads=rows), names, None)


def _measure(console: Console, plan: rounds.Plan, names: Sequence[str], cores: str | None) -> _Pass:
    facts = machine.facts(cores, servers.OVERRIDES) | {"client_cores": plan.client_cores, "targets": list(names)}
    loaded: dict[str, int] = {}
    running = servers.start_all(names, cores=cores, starts=min(plan.rounds, 3))

    def look_at_memory() -> None:
        loaded.update((name, measure.memory(server.pid).resident_bytes) for name, server in running.by_name.items())

    try:
        samples = rounds.run_all(
            running, plan, lambda text: console.print(text, style="dim", highlight=False), look_at_memory
        )
        brokers = report.compare_servers(running.by_name, loaded)
    finally:
        native_calls = running.stop()
    if os.environ.get(VARIABLE) == REQUIRE and targets.KAFKA_ZK in names:
        for function in ("read_produce", "check_records", "write_produce"):
            if native_calls[function] < _LEAST_NATIVE_CALLS:
                raise workloads.BenchFailed(f"{function} of the native module ran {native_calls[function]} times")
    report.print_tables(console, plan.workloads, samples, brokers)
    for line in _conditions(plan, samples, facts):
        console.print(f"- {line}", highlight=False)
    return _Pass(plan, samples, brokers, facts)


def _conditions(plan: rounds.Plan, samples: list[rounds.Sample], facts: dict[str, Any]) -> list[str]:
    """The conditions that a reader must know to judge the table."""
    disturbance = max((sample.other_brokers_cpu_s / sample.outcome.seconds for sample in samples), default=0.0)
    return [
        f"{plan.rounds} measured round(s) after {plan.warmup_rounds} warm-up, alternating which broker goes first; "
        f"{plan.records:,} records of 1,000 bytes, scaled by row; records are uncompressed where the row says nothing",
        f"each broker on cores {facts['broker_cores'] or 'any'}, clients on {facts['client_cores'] or 'any'}; "
        f"machine: {facts['machine']['processor']}, {facts['machine']['cores']} cores",
        "same clients, server.properties, ZooKeeper and topic layout (1 partition, replication factor 1); Kafka with "
        "the JVM flags of its own scripts; before each run dirty pages are written out and what is read is brought "
        "into the page cache",
        f"both brokers are up, only one works: the idle one used at most {disturbance:.1%} of a core during a run",
        f"everything else on the machine (ZooKeeper, kernel, strangers) used {_median_share(samples):.0%} of a core "
        "(median of the runs)",
        "MB/s and CPU s/GB count record values (10^6, 10^9 bytes); the producers ask for acks=all and are idempotent",
    ]


def _median_share(samples: list[rounds.Sample]) -> float:
    return statistics.median([sample.strangers_cpu_s / sample.outcome.seconds for sample in samples] or [0.0])


if __name__ == "__main__":
    main()
