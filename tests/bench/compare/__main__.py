"""`python -m tests.bench.compare`: Kafka on ZooKeeper, Kafka with KRaft and kafka-zk, with the same script.

One system runs at a time, on empty folders; the order changes from round to round.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from confluent_kafka import KafkaException
from rich.console import Console

from kafka_zk.embedded.errors import EmbeddedError
from kafka_zk.registry.errors import RegistryError
from tests.bench import machine, report
from tests.bench.compare import shown
from tests.bench.compare.judged import Samples, verdicts
from tests.bench.compare.life import STEPS, Figures, Life
from tests.bench.compare.systems import BROKERS, NAMES, SESSION_TIMEOUT_MS, SYSTEMS
from tests.peers import jars, java, requirements
from tests.peers.processes import ProcessFailed

QUICK_SIZES, QUICK_ROUNDS = (100, 2_000), 1
FULL_SIZES, FULL_ROUNDS = (100, 1_000, 2_000, 5_000, 10_000), 5
_FAILURES = (
    requirements.MissingPeerTools, jars.JarsNotResolved, java.JavaFailed, EmbeddedError, ProcessFailed, KafkaException,
    RegistryError, TimeoutError, OSError,
)  # fmt: skip


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick/--full", default=True, show_default=True, help="Minutes: one round; or hours: five, to 10,000.")
@click.option("--only", type=click.Choice(NAMES), multiple=True, help="Only these systems; may be repeated.")
@click.option("--steps", type=click.Choice(STEPS), multiple=True, help="Only these, after start and create.")
@click.option("--partitions", "sizes", type=click.IntRange(1), multiple=True, help="Instead of the usual numbers.")
@click.option("--rounds", type=click.IntRange(1), help=f"[default: {QUICK_ROUNDS}; {FULL_ROUNDS} with --full]")
@click.option("--pin", "cores", metavar="LIST", help="Cores of brokers and ZooKeeper.  [default: all]")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write all numbers here.")
@click.option("--svg", "svg_path", type=click.Path(path_type=Path), help="Draw the figures here.")
def main(
    quick: bool,
    only: Sequence[str],
    steps: Sequence[str],
    sizes: Sequence[int],
    rounds: int | None,
    cores: str | None,
    json_path: Path | None,
    svg_path: Path | None,
) -> None:
    """Start, creation, deaths, clean stop, rolling restart, metadata, memory and CPU of three systems."""
    console = Console(width=max(Console().width, 140))
    folder = jars.REPOSITORY_ROOT / "target" / "bench" / f"compare-{time.time_ns()}"
    rounds = rounds or (QUICK_ROUNDS if quick else FULL_ROUNDS)
    facts = _facts(rounds, cores)
    comparison = Comparison(folder, only or NAMES, cores, lambda text: console.print(text, style="dim"))
    try:
        requirements.require(kcat=False)
        for number in range(rounds):
            for size in sizes or (QUICK_SIZES if quick else FULL_SIZES):
                comparison.round(number, size, steps or steps_for(size, quick=quick))
                if json_path:
                    report.write_json(json_path, as_json(facts, comparison.samples))
    except _FAILURES as failure:
        raise click.ClickException(f"{type(failure).__name__}: {failure}") from failure
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for table in shown.tables(comparison.samples, verdicts(comparison.samples)):
            console.print(table)
    if svg_path:
        svg_path.parent.mkdir(parents=True, exist_ok=True)
        svg_path.write_text(shown.svg(comparison.samples, f"three brokers, RF 3, medians of {rounds}"))


def steps_for(partitions: int, *, quick: bool) -> Sequence[str]:
    """A rolling restart of many partitions takes Kafka minutes: in a quick run it is done with few."""
    return [step for step in STEPS if step != "rolling" or not quick or partitions == min(QUICK_SIZES)]


def as_json(facts: Mapping[str, Any], samples: Samples) -> dict[str, Any]:
    """All figures of all rounds so far, and what they say of the targets."""
    told = [
        {"target": each.target.title, "partitions": each.partitions, "wanted": each.target.wanted, "found": each.found,
         "verdict": each.text}
        for each in verdicts(samples)
    ]  # fmt: skip
    return {**facts, "samples": samples, "targets": told}


class Comparison:
    """``samples``: by system and number of partitions, the figures of each round so far."""

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        cores: str | None,
        progress: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._names = names
        self._cores = cores
        self._progress = progress
        self.samples: dict[str, dict[int, list[Figures]]] = {name: {} for name in names}

    def round(self, number: int, partitions: int, steps: Sequence[str]) -> None:
        """Each system once with so many partitions. Raises: those of ``_FAILURES``."""
        for name in self._names if number % 2 == 0 else reversed(self._names):
            begun_s = time.monotonic()
            figures = self._live(name, partitions, steps)
            self.samples[name].setdefault(partitions, []).append(figures)
            texts = ", ".join(f"{key} {shown.number(value)}" for key, value in figures.items())
            self._progress(f"round {number + 1}, {name}, {partitions:,} in {time.monotonic() - begun_s:.0f} s: {texts}")

    def _live(self, name: str, partitions: int, steps: Sequence[str]) -> Figures:
        folder = self._folder / name
        system = SYSTEMS[name](folder, self._cores)
        try:
            return Life(system, partitions, steps).run()
        finally:
            system.stop()
            shutil.rmtree(folder, ignore_errors=True)


def _facts(rounds: int, cores: str | None) -> Mapping[str, Any]:
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **machine.commit(),
        "machine": machine.describe(),
        "rounds": rounds,
        "cores": cores,
        "brokers": BROKERS,
        "session_timeout_ms": SESSION_TIMEOUT_MS,
        "kafka_versions": [jars.ORACLE_VERSION, jars.NEWEST_VERSION],
    }


if __name__ == "__main__":
    main()
