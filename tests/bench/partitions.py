"""`python -m tests.bench.partitions`: brokers with thousands of partitions, Apache Kafka 3.9.1 and kafka-zk in turn.

Several pairs at one count show ratios; several counts show the cost curve.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from tests.bench import machine, report
from tests.bench.partition_life import FIGURES, OVERRIDES, Figure, Life, Measured
from tests.bench.partition_wire import Refused
from tests.peers import apache_kafka, jars, requirements, targets
from tests.peers.processes import ProcessFailed
from tests.peers.targets import APACHE_KAFKA, KAFKA_ZK

Lives = dict[str, list[Measured]]
"""Lives by target, in the order of the pairs."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--count", "counts", type=click.IntRange(1, 50_000), multiple=True, default=(5000,), show_default=True)
@click.option("--pairs", type=click.IntRange(1), default=3, show_default=True, help="Lives of each broker per count.")
@click.option("--target", "names", type=click.Choice(targets.NAMES), multiple=True, help="Only this broker.")
@click.option("--pin", "cores", metavar="LIST", default="0,1", show_default=True, help="Cores of each broker.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write all numbers here.")
def main(counts: Sequence[int], pairs: int, names: Sequence[str], cores: str, json_path: Path | None) -> None:
    """Measure the life of one broker after the other with N partitions, each broker first in turn."""
    console = Console(width=max(Console().width, 120))
    folder = jars.REPOSITORY_ROOT / "target" / "bench" / f"partitions-{time.time_ns()}"
    try:
        requirements.require(kcat=False)
        lives = {count: _pairs(console, folder, names or targets.NAMES, count, pairs, cores) for count in counts}
    except (requirements.MissingPeerTools, jars.JarsNotResolved, ProcessFailed, Refused, TimeoutError) as failure:
        raise click.ClickException(str(failure)) from failure
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for count in counts:
        console.print(pairs_table(count, lives[count]))
    if len(counts) > 1:
        for name in names or targets.NAMES:
            console.print(curve_table(name, lives))
    if json_path:
        by_count = {str(count): lives[count] for count in counts}
        report.write_json(json_path, machine.facts(cores, OVERRIDES) | {"lives": by_count})
        console.print(f"all numbers: {json_path}")


def _pairs(console: Console, folder: Path, names: Sequence[str], count: int, pairs: int, cores: str) -> Lives:
    """Run `pairs` lives of each broker, one at a time, each on a ZooKeeper of its own."""
    lives: Lives = {name: [] for name in names}
    for number in range(pairs):
        for name in names if number % 2 == 0 else reversed(names):
            data = folder / f"{count}-{number}-{name}"
            zookeeper = apache_kafka.start_zookeeper(data / "zookeeper")
            try:
                life = Life(name, zookeeper, data / name, count, cores)
                lives[name].append(life.run(lambda text: console.print(text, style="dim", highlight=False)))
            finally:
                zookeeper.stop()
    return lives


def pairs_table(count: int, lives: Lives) -> Table:
    """Medians of each broker, and the median and range of the pairs' ratios."""
    table = Table(title=f"{count:,} partitions: medians; ratio ours / Kafka: median (range) of pairs")
    for column in ("figure", "Kafka", "ours", "ratio", "wanted"):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for key, figure in FIGURES.items():
        kafka, ours = ([life[key] for life in lives.get(name, [])] for name in (APACHE_KAFKA, KAFKA_ZK))
        wanted = "" if figure.target is None else f"≤ {figure.target:g}"
        name = f"{figure.name}, {figure.unit}" if figure.unit else figure.name
        table.add_row(name, _median(figure, kafka), _median(figure, ours), ratio_text(kafka, ours), wanted)
    return table


def curve_table(name: str, lives: Mapping[int, Lives]) -> Table:
    """One broker's medians by count."""
    table = Table(title=f"{name}: cost by partitions")
    table.add_column("figure")
    for count in sorted(lives):
        table.add_column(f"{count:,}", justify="right")
    for key, figure in FIGURES.items():
        medians = [_median(figure, [life[key] for life in lives[count][name]]) for count in sorted(lives)]
        table.add_row(f"{figure.name}, {figure.unit}" if figure.unit else figure.name, *medians)
    return table


def ratio_text(kafka: Sequence[float], ours: Sequence[float]) -> str:
    """`median (least–most)` of the pairs' ratios; a dash if a broker did not take part."""
    ratios = [mine / theirs for theirs, mine in zip(kafka, ours, strict=False) if theirs]
    if not ratios:
        return "–"
    text = f"{statistics.median(ratios):.2f}"
    return text if len(ratios) == 1 else f"{text} ({min(ratios):.2f}–{max(ratios):.2f})"


def _median(figure: Figure, values: Sequence[float]) -> str:
    return f"{statistics.median(values) / figure.divisor:,.2f}" if values else "–"


if __name__ == "__main__":
    main()
