"""The common parts of benches that compare one broker or cluster of each kind: figures, lives, alternating pairs, the
table.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from tests.bench import machine, measure, report
from tests.bench.partition_wire import Refused, Wire
from tests.bench.partitions import ratio_text
from tests.peers import jars, requirements, targets
from tests.peers.processes import ProcessFailed
from tests.peers.targets import APACHE_KAFKA, KAFKA_ZK, Target

Measured = dict[str, float]
"""Values by figure."""
SamplesByTarget = dict[str, list[float]]
"""Values in the order of the rounds."""


@dataclass(frozen=True)
class Figure:
    """A measured figure, and the target for the ratio ours/Kafka: at most, or at least."""

    name: str
    unit: str
    wanted: str
    divisor: float = 1.0


class BrokerLife:
    """A broker, or a cluster, under measurement. Every method measures something; round numbers make names unique."""

    def __init__(self, target: Target, scale: float = 1.0) -> None:
        """``scale``: a factor for all amounts; below 1 only to check that everything works."""
        self._target = target
        self._scale = scale

    @property
    def _pid(self) -> int:
        return self._target.brokers[0].pid

    def _wires(self, stack: ExitStack, count: int) -> list[Wire]:
        (port,) = self._target.ports
        return [stack.enter_context(Wire(port)) for _ in range(count)]

    def _count(self, count: int) -> int:
        return max(1, round(count * self._scale))

    def _cpu_s(self) -> float:
        return sum(measure.cpu_seconds(broker.pid) for broker in self._target.brokers)

    def _memory_bytes(self) -> int:
        return sum(measure.memory(broker.pid).resident_bytes for broker in self._target.brokers)


@dataclass(frozen=True)
class Plan:
    """The parts that a run of a command measures, the brokers, the rounds, and the folder for their data."""

    folder: Path
    names: Sequence[str]
    parts: Sequence[str]
    rounds: int
    cores: str
    scale: float
    replication_factor: int = 1

    def in_turn(self, number: int) -> Iterable[str]:
        """The names in an order that changes from round to round."""
        return self.names if number % 2 == 0 else reversed(self.names)


class Samples:
    """The values by figure; each is reported when it arrives, and those of the warm-up are not kept."""

    def __init__(self, rounds: int, figures: Mapping[str, Figure], progress: Callable[[str], None]) -> None:
        self._rounds = rounds
        self._figures = figures
        self._progress = progress
        self._kept: dict[str, SamplesByTarget] = defaultdict(lambda: defaultdict(list))

    def add(self, name: str, number: int, measured: Measured) -> None:
        """``number``: the number of the round; below 0 is the warm-up."""
        label = "warm-up" if number < 0 else f"round {number + 1}/{self._rounds}"
        texts = (f"{key} {value / self._figures[key].divisor:,.3g}" for key, value in measured.items())
        self._progress(f"{label} {name}: {', '.join(texts)}")
        if number >= 0:
            for key, value in measured.items():
                self._kept[key][name].append(value)

    def by_figure(self) -> dict[str, SamplesByTarget]:
        return {key: dict(by_name) for key, by_name in self._kept.items()}


Run = Callable[[Plan, Samples], None]


@dataclass(frozen=True)
class Bench:
    """A command: its name, its parts, and the function that measures them."""

    name: str
    purpose: str
    parts: Sequence[str]
    figures: Mapping[str, Figure]
    overrides: Callable[[int], Mapping[str, str]]
    """Replication factor -> settings beyond Kafka's config/server.properties."""
    run: Run
    """Raises: ProcessFailed, Refused, TimeoutError."""
    replicates: bool = False
    """Whether the replication factor can be chosen."""

    def command(self) -> click.Command:
        options = [
            click.Option(["--rounds"], type=click.IntRange(1), default=3, show_default=True,
                         help="Pairs of measured runs."),
            click.Option(["--part", "parts"], type=click.Choice(self.parts), multiple=True, help="Only this part."),
            click.Option(["--target", "names"], type=click.Choice(targets.NAMES), multiple=True,
                         help="Only this broker."),
            click.Option(["--pin", "cores"], metavar="LIST", default="0,1", show_default=True,
                         help="Cores of the brokers."),
            click.Option(["--scale"], type=click.FloatRange(0.001, 1), default=1.0, show_default=True,
                         help="How much of everything."),
            click.Option(["--json", "json_path"], type=click.Path(path_type=Path), help="Write all numbers here."),
        ]  # fmt: skip
        if self.replicates:
            factor = click.Option(["--replication-factor"], type=click.IntRange(1, 3), default=1, show_default=True,
                                  help="Also how many brokers.")  # fmt: skip
            options.append(factor)
        settings = {"help_option_names": ["-h", "--help"]}
        return click.Command(self.name, settings, self._main, [*options], help=self.purpose)

    def _main(
        self, rounds: int, parts: Sequence[str], names: Sequence[str], cores: str, scale: float,
        json_path: Path | None, replication_factor: int = 1,
    ) -> None:  # fmt: skip
        console = Console(width=max(Console().width, 120))
        folder = jars.REPOSITORY_ROOT / "target" / "bench" / f"{self.name}-{time.time_ns()}"
        plan = Plan(folder, names or targets.NAMES, parts or self.parts, rounds, cores, scale, replication_factor)
        samples = Samples(rounds, self.figures, lambda text: console.print(text, style="dim", highlight=False))
        try:
            requirements.require(kcat=False)
            self.run(plan, samples)
        except (requirements.MissingPeerTools, jars.JarsNotResolved, ProcessFailed, Refused, TimeoutError) as failure:
            raise click.ClickException(str(failure)) from failure
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        console.print(self.table(samples.by_figure(), rounds, scale))
        if json_path:
            facts = machine.facts(cores, self.overrides(replication_factor))
            facts |= {"rounds": rounds, "scale": scale, "replication_factor": replication_factor}
            report.write_json(json_path, facts | {"samples": samples.by_figure()})
            console.print(f"all numbers: {json_path}")

    def table(self, samples: Mapping[str, Mapping[str, Sequence[float]]], rounds: int, scale: float) -> Table:
        """Medians of each broker, and the median and range of the pairs' ratios."""
        title = f"{self.name}: medians of {rounds}; ratio ours / Kafka: median (range) of pairs"
        if scale < 1:
            title += f"; {scale:g} of all of it"
        made = Table(title=title)
        for column in ("figure", "Kafka", "ours", "ratio", "wanted"):
            made.add_column(column, justify="left" if column == "figure" else "right")
        for key, figure in self.figures.items():
            kafka, ours = (samples.get(key, {}).get(each, []) for each in (APACHE_KAFKA, KAFKA_ZK))
            if kafka or ours:
                texts = [f"{statistics.median(each) / figure.divisor:,.1f}" if each else "–" for each in (kafka, ours)]
                made.add_row(f"{figure.name}, {figure.unit}", *texts, ratio_text(kafka, ours), figure.wanted)
        return made
