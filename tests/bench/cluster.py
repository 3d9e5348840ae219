"""`python -m tests.bench.cluster`: three brokers of Apache Kafka 3.9.1 and three of kafka-zk, in alternating pairs.

Every partition has a replica on all three brokers, and `min.insync.replicas` is 2. Both clusters stay up, and only one
of them works at a time.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import click
from confluent_kafka import KafkaException
from rich.console import Console
from rich.table import Table

from tests.bench import machine, report
from tests.bench.cluster_life import ClusterLife, Measured
from tests.bench.cluster_rows import BROKERS, CONSUMERS, END_TO_END, FIGURES, OVERRIDES, PRODUCERS, RACKS
from tests.bench.partitions import ratio_text
from tests.bench.workloads import BenchFailed
from tests.peers import apache_kafka, jars, java, requirements, targets
from tests.peers.processes import ProcessFailed
from tests.peers.targets import APACHE_KAFKA, KAFKA_ZK, Target

PARTS = ("produce", "followers", "latency", "catch-up", "memory")

Samples = dict[tuple[str, str], dict[str, list[float]]]
"""(Row, figure name) -> target -> values, in the order of the rounds."""

_FAILURES = (
    requirements.MissingPeerTools, jars.JarsNotResolved, ProcessFailed, BenchFailed, KafkaException, TimeoutError,
)  # fmt: skip


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Pairs of measured runs.")
@click.option("--parts", type=click.Choice(PARTS), multiple=True, help="Only this part; may be repeated.")
@click.option("--rows", metavar="TEXT", help="Only rows of producers and consumers whose name has this.")
@click.option("--target", "names", type=click.Choice(targets.NAMES), multiple=True, help="Only these brokers.")
@click.option("--pin", "cores", metavar="LIST", default="0,1", show_default=True, help="Cores of the brokers.")
@click.option("--scale", type=click.FloatRange(0.01, 100), default=1.0, show_default=True, help="Times the records.")
@click.option("--away-mb", type=click.IntRange(1), default=200, show_default=True, help="What a follower misses.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write all numbers here.")
def main(
    rounds: int,
    parts: Sequence[str],
    rows: str | None,
    names: Sequence[str],
    cores: str,
    scale: float,
    away_mb: int,
    json_path: Path | None,
) -> None:
    """Compare replicated produce, consume from followers, end-to-end latency, a follower's return, and memory."""
    console = Console(width=max(Console().width, 120))
    folder = jars.REPOSITORY_ROOT / "target" / "bench" / f"cluster-{time.time_ns()}"
    jobs = dict(_jobs(parts or PARTS, rows, away_mb))
    if not jobs:
        raise click.ClickException(f"no row has {rows!r} in its name")
    bench = Bench(folder, names or targets.NAMES, jobs, cores, lambda text: console.print(text, style="dim"))
    facts = machine.facts(cores, OVERRIDES) | {"rounds": rounds, "scale": scale, "away_mb": away_mb}
    try:
        requirements.require(kcat=True)
        java.compiled(jars.ORACLE_VERSION)
        samples = bench.run(rounds, scale)
    except _FAILURES as failure:
        raise click.ClickException(str(failure)) from failure
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    console.print(table(samples, rounds))
    if json_path:
        named = {f"{row}: {figure}": by_name for (row, figure), by_name in samples.items()}
        report.write_json(json_path, facts | {"samples": named})
        console.print(f"all numbers: {json_path}")


Job = Callable[[ClusterLife], Measured]


def _jobs(parts: Sequence[str], rows: str | None, away_mb: int) -> Iterator[tuple[str, Job]]:
    """The measurements of a round, by title."""
    if "produce" in parts:
        for workload in PRODUCERS:
            if rows is None or rows in workload.name:
                yield workload.title, lambda life, workload=workload: life.run(workload)  # type: ignore[misc]
    if "followers" in parts:
        for reading in CONSUMERS:
            if rows is None or rows in reading.workload.name:
                yield reading.workload.title, lambda life, reading=reading: life.read(reading)  # type: ignore[misc]
    if "latency" in parts:
        yield END_TO_END.title, lambda life: life.run(END_TO_END)
    if "catch-up" in parts:
        yield f"a follower returns, {away_mb} MB behind", lambda life: life.catch_up(away_mb)
    if "memory" in parts:
        yield "after all that", lambda life: life.memory()


class Bench:
    """One run of the command: both clusters on one ZooKeeper, and their samples."""

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        jobs: Mapping[str, Job],
        cores: str,
        progress: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._names = names
        self._jobs = jobs
        self._cores = cores
        self._progress = progress
        self._samples: Samples = defaultdict(lambda: defaultdict(list))

    def run(self, rounds: int, scale: float) -> Samples:
        """Run a warm-up round, whose samples are discarded, and then the others. Raises: any of `_FAILURES`."""
        zookeeper = apache_kafka.start_zookeeper(self._folder / "zookeeper")
        up: dict[str, Target] = {}
        try:
            for name in self._names:
                up[name] = targets.start(
                    name, zookeeper.connect_string, self._folder / name,
                    broker_count=BROKERS, overrides=OVERRIDES, racks=RACKS, cores=self._cores,
                )  # fmt: skip
            lives = {name: ClusterLife(target, self._cores, scale) for name, target in up.items()}
            for name, life in lives.items():
                self._add(name, 0, "idle", life.memory())
            for number in range(-1, rounds):
                for title, job in self._jobs.items():
                    for name in self._names if number % 2 == 0 else reversed(self._names):
                        self._add(name, number, title, job(lives[name]))
        finally:
            for target in up.values():
                target.stop()
            zookeeper.stop()
        return {key: dict(by_name) for key, by_name in self._samples.items()}

    def _add(self, name: str, number: int, title: str, measured: Measured) -> None:
        label = "warm-up" if number < 0 else f"round {number + 1}"
        texts = (f"{each.name} {value / each.divisor:,.4g} {each.unit}" for each, value in measured.items())
        self._progress(f"{label} {name}, {title}: {', '.join(texts)}")
        if number >= 0:
            for figure, value in measured.items():
                self._samples[title, figure.name][name].append(value)


def table(samples: Mapping[tuple[str, str], Mapping[str, Sequence[float]]], rounds: int) -> Table:
    """Medians of each cluster, and the median and range of the pairs' ratios."""
    title = f"three brokers, RF 3, min ISR 2: medians of {rounds}; ratio ours / Kafka: median (range) of pairs"
    made = Table(title=title)
    for column in ("row", "figure", "Kafka", "ours", "ratio", "wanted"):
        made.add_column(column, justify="left" if column in ("row", "figure") else "right")
    figures = {figure.name: figure for figure in FIGURES}
    for (row, name), by_target in samples.items():
        figure = figures[name]
        kafka, ours = (by_target.get(target, []) for target in (APACHE_KAFKA, KAFKA_ZK))
        texts = [f"{statistics.median(each) / figure.divisor:,.4g}" if each else "–" for each in (kafka, ours)]
        made.add_row(row, f"{name}, {figure.unit}", *texts, ratio_text(kafka, ours), figure.wanted)
    return made


if __name__ == "__main__":
    main()
