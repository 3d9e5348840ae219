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
from rich.console import Console

from tests.bench import machine
from tests.bench.compare import record, shown
from tests.bench.compare.judged import verdicts
from tests.bench.compare.life import FAILURES, STEPS, Figures, Life
from tests.bench.compare.systems import BROKERS, NAMES, SESSION_TIMEOUT_MS, SYSTEMS
from tests.peers import jars, requirements

QUICK_SIZES, QUICK_ROUNDS = (100, 2_000), 1
FULL_SIZES, FULL_ROUNDS = (100, 2_000, 10_000), 5
_FAILOVER = ("metadata", "kill", "supervised")
"""The steps for more partitions than a quick run has; other steps would take Kafka hours."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick/--full", default=True, show_default=True, help="Minutes: one round; or hours: five, to 10,000.")
@click.option("--only", type=click.Choice(NAMES), multiple=True, help="Only these systems; may be repeated.")
@click.option("--steps", type=click.Choice(STEPS), multiple=True, help="Only these, after start and create.")
@click.option("--partitions", "sizes", type=click.IntRange(1), multiple=True, help="Instead of the usual numbers.")
@click.option("--rounds", type=click.IntRange(1), help=f"[default: {QUICK_ROUNDS}; {FULL_ROUNDS} with --full]")
@click.option("--pin", "cores", metavar="LIST", help="Cores of brokers and ZooKeeper.  [default: all]")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write all numbers here, after each life.")
@click.option("--resume", is_flag=True, help="Go on where the run that wrote the file of --json was interrupted.")
@click.option("--svg", "svg_path", type=click.Path(path_type=Path), help="Draw the figures here.")
def main(
    quick: bool,
    only: Sequence[str],
    steps: Sequence[str],
    sizes: Sequence[int],
    rounds: int | None,
    cores: str | None,
    json_path: Path | None,
    resume: bool,
    svg_path: Path | None,
) -> None:
    """Start, creation, deaths, clean stop, rolling restart, metadata, memory and CPU of three systems.

    The exit code is 1 if a system failed in a round; the other systems continue.
    """
    console = Console(width=max(Console().width, 140))
    folder = jars.REPOSITORY_ROOT / "target" / "bench" / f"compare-{time.time_ns()}"
    sizes, rounds = sizes or (QUICK_SIZES if quick else FULL_SIZES), rounds or (QUICK_ROUNDS if quick else FULL_ROUNDS)
    played = {size: steps or steps_for(size, quick=quick) for size in sizes}
    kept = _record(_facts(rounds, cores, played), json_path, resume=resume)
    comparison = Comparison(folder, only or NAMES, cores, kept, lambda text: console.print(text, style="dim"))
    try:
        requirements.require(kcat=False)
        for size in sizes:  # an interrupted run then has all rounds of the small sizes
            for number in range(rounds):
                comparison.round(number, size, played[size])
    except (requirements.MissingPeerTools, jars.JarsNotResolved, OSError) as failure:  # also on a full disk
        raise click.ClickException(str(failure)) from failure
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for table in shown.tables(kept.samples, verdicts(kept.samples)):
            console.print(table)
    if svg_path:
        svg_path.parent.mkdir(parents=True, exist_ok=True)
        svg_path.write_text(shown.svg(kept.samples, f"three brokers, RF 3, medians of {rounds}"))
    if kept.failures:
        raise click.ClickException("\n".join(["in these rounds a system failed:", *record.told(kept.failures)]))


def _record(facts: Mapping[str, Any], path: Path | None, *, resume: bool) -> record.Record:
    if not resume:
        return record.Record(facts, path)
    if path is None:
        raise click.UsageError("--resume needs --json, the file to go on with")
    try:
        return record.Record.resumed(facts, path)
    except (record.CannotResume, OSError) as error:
        raise click.ClickException(str(error)) from error


def steps_for(partitions: int, *, quick: bool) -> Sequence[str]:
    """The steps of a run. In a quick run, only the smallest size has the rolling restart, which takes Kafka minutes
    with many partitions.
    """
    if partitions > max(QUICK_SIZES):
        return _FAILOVER
    return [step for step in STEPS if step != "rolling" or not quick or partitions == min(QUICK_SIZES)]


class Comparison:
    """Plays rounds into ``kept``."""

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        cores: str | None,
        kept: record.Record,
        progress: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._names = names
        self._cores = cores
        self._kept = kept
        self._progress = progress

    def round(self, number: int, partitions: int, steps: Sequence[str]) -> None:
        """Run each system once with ``partitions``, unless that round was recorded earlier."""
        for name in self._names if number % 2 == 0 else reversed(self._names):
            if self._kept.rounds(name, partitions) > number:
                continue
            begun_s = time.monotonic()
            figures, failure = self._lived(name, partitions, steps)
            self._kept.add(name, partitions, figures, failure)
            texts = ", ".join(f"{key} {shown.number(value)}" for key, value in figures.items())
            told = f"round {number + 1}, {name}, {partitions:,} in {time.monotonic() - begun_s:.0f} s: {texts}"
            self._progress(told if failure is None else f"{told}; FAILED: {failure}")

    def _lived(self, name: str, partitions: int, steps: Sequence[str]) -> tuple[Figures, str | None]:
        """The figures of one life, and the failure that ended it, if any."""
        folder = self._folder / name
        system = SYSTEMS[name](folder, self._cores)
        life = Life(system, partitions, steps)
        failure = None
        try:
            try:
                life.run()
            finally:
                system.stop()
        except FAILURES as error:
            failure = f"{type(error).__name__}: {error}"
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return life.figures, failure


def _facts(rounds: int, cores: str | None, played: Mapping[int, Sequence[str]]) -> Mapping[str, Any]:
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **machine.commit(),
        "machine": machine.describe(),
        "measured": record.measured(cores, played),
        "rounds": rounds,
        "cores": cores,
        "brokers": BROKERS,
        "session_timeout_ms": SESSION_TIMEOUT_MS,
        "kafka_versions": [jars.ORACLE_VERSION, jars.NEWEST_VERSION],
    }


if __name__ == "__main__":
    main()
