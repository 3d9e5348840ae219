"""`python -m tests.bench.groups`: what groups cost Apache Kafka 3.9.1 and kafka-zk, measured in alternating pairs.

Joins, commits and heartbeats run on two brokers that stay up, after a warm-up round; each load has a broker of its own.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tests.bench import machine, report
from tests.bench.group_life import FIGURES, LOADS, OVERRIDES, Figure, Groups, Measured
from tests.bench.partition_wire import Refused
from tests.bench.partitions import ratio_text
from tests.peers import apache_kafka, jars, requirements, targets
from tests.peers.processes import ProcessFailed
from tests.peers.targets import APACHE_KAFKA, KAFKA_ZK, Target

Samples = dict[str, dict[str, list[float]]]
"""By figure, then by target, in the order of the rounds."""

PARTS = ("joins", "commits", "heartbeats", "loads")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Pairs of measured runs.")
@click.option("--part", "parts", type=click.Choice(PARTS), multiple=True, help="Only this part.")
@click.option("--target", "names", type=click.Choice(targets.NAMES), multiple=True, help="Only this broker.")
@click.option("--pin", "cores", metavar="LIST", default="0,1", show_default=True, help="Cores of the brokers.")
@click.option("--scale", type=click.FloatRange(0.01, 1), default=1.0, show_default=True, help="How much of everything.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write all numbers here.")
def main(
    rounds: int, parts: Sequence[str], names: Sequence[str], cores: str, scale: float, json_path: Path | None
) -> None:
    """Compare what joins, commits, heartbeats and the load of committed offsets cost both brokers."""
    console = Console(width=max(Console().width, 120))
    folder = jars.REPOSITORY_ROOT / "target" / "bench" / f"groups-{time.time_ns()}"
    bench = Bench(
        folder, names or targets.NAMES, parts or PARTS, rounds, cores, scale,
        lambda text: console.print(text, style="dim", highlight=False),
    )  # fmt: skip
    try:
        requirements.require(kcat=False)
        samples = bench.run()
    except (requirements.MissingPeerTools, jars.JarsNotResolved, ProcessFailed, Refused, TimeoutError) as failure:
        raise click.ClickException(str(failure)) from failure
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    console.print(table(samples, rounds, scale))
    if json_path:
        report.write_json(json_path, _facts(cores, rounds) | {"scale": scale} | {"samples": samples})
        console.print(f"all numbers: {json_path}")


class Bench:
    """One run of the command."""

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        parts: Sequence[str],
        rounds: int,
        cores: str,
        scale: float,
        progress: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._names = names
        self._parts = parts
        self._rounds = rounds
        self._cores = cores
        self._scale = scale
        self._progress = progress
        self._samples: Samples = defaultdict(lambda: defaultdict(list))

    def run(self) -> Samples:
        """Everything. Raises: ProcessFailed, Refused, TimeoutError."""
        zookeeper = apache_kafka.start_zookeeper(self._folder / "zookeeper")
        try:
            if set(self._parts) - {"loads"}:
                self._use(zookeeper.connect_string)
            if "loads" in self._parts:
                for number in range(self._rounds):
                    for name in self._in_turn(number):
                        for key in LOADS:
                            self._load(zookeeper.connect_string, name, key, number)
        finally:
            zookeeper.stop()
        return {key: dict(by_name) for key, by_name in self._samples.items()}

    def _in_turn(self, number: int) -> list[str]:
        """The one that went first goes second in the next round."""
        return list(self._names) if number % 2 == 0 else list(reversed(self._names))

    def _start(self, zookeeper: str, name: str, chroot: str) -> Target:
        return targets.start(
            name, zookeeper, self._folder / chroot, overrides=OVERRIDES, cores=self._cores, chroot=chroot
        )

    def _use(self, zookeeper: str) -> None:
        up: dict[str, Target] = {}
        try:
            for name in self._names:
                up[name] = self._start(zookeeper, name, name)
            groups = {name: Groups(target, self._scale) for name, target in up.items()}
            for name, its in groups.items():
                self._add(name, 0, its.prepare())
            for number in range(-1, self._rounds):
                for part in PARTS[:-1]:
                    for name in self._in_turn(number) if part in self._parts else []:
                        self._add(name, number, getattr(groups[name], part)(number))
        finally:
            for target in up.values():
                target.stop()

    def _load(self, zookeeper: str, name: str, key: str, number: int) -> None:
        target = self._start(zookeeper, name, f"{name}-{key}-{number}")
        try:
            groups = Groups(target, self._scale)
            groups.prepare()
            self._add(name, number, groups.loads(key, self._cores))
        finally:
            target.stop()
            shutil.rmtree(target.log_dirs[0])

    def _add(self, name: str, number: int, measured: Measured) -> None:
        label = "warm-up" if number < 0 else f"round {number + 1}/{self._rounds}"
        texts = (f"{key} {value / FIGURES[key].divisor:,.3g}" for key, value in measured.items())
        self._progress(f"{label} {name}: {', '.join(texts)}")
        if number >= 0:
            for key, value in measured.items():
                self._samples[key][name].append(value)


def table(
    samples: Mapping[str, Mapping[str, Sequence[float]]],
    rounds: int,
    scale: float,
    name: str = "groups",
    figures: Mapping[str, Figure] = FIGURES,
) -> Table:
    """Medians of each broker, and the median and range of the pairs' ratios."""
    title = f"{name}: medians of {rounds}; ratio ours / Kafka: median (range) of pairs"
    if scale < 1:
        title += f"; {scale:g} of all of it"
    made = Table(title=title)
    for column in ("figure", "Kafka", "ours", "ratio", "wanted"):
        made.add_column(column, justify="left" if column == "figure" else "right")
    for key, figure in figures.items():
        kafka, ours = (samples.get(key, {}).get(each, []) for each in (APACHE_KAFKA, KAFKA_ZK))
        if kafka or ours:
            texts = [f"{statistics.median(each) / figure.divisor:,.1f}" if each else "–" for each in (kafka, ours)]
            made.add_row(f"{figure.name}, {figure.unit}", *texts, ratio_text(kafka, ours), figure.wanted)
    return made


def _facts(cores: str, rounds: int) -> dict[str, Any]:
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **machine.commit(),
        "machine": machine.describe(),
        "rounds": rounds,
        "broker_cores": cores,
        "server_properties": apache_kafka.server_properties(0, 0, Path("DATA"), "ZOOKEEPER", OVERRIDES),
        "kafka_version": jars.ORACLE_VERSION,
        "kafka_jvm_flags": list(apache_kafka.BROKER_JVM_FLAGS),
    }


if __name__ == "__main__":
    main()
