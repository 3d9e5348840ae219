"""`python -m tests.bench.spark`: our Spark source against Spark's own, same brokers, in alternating pairs."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.table import Table

from kafka_zk.embedded.process import tied
from tests.bench import machine, measure
from tests.bench.spark.filling import fill
from tests.bench.spark.session_process import CHECK, EXTRACT, NOOP, OURS, PARQUET, SPARK
from tests.peers import apache_kafka, jars, requirements, targets
from tests.peers.processes import ProcessFailed

_GOALS = {
    (NOOP, 1000): (2.4, 0.0),
    (NOOP, 100): (2.4, 0.0),
    (PARQUET, 1000): (1.9, 0.0),
    (PARQUET, 100): (1.9, 0.0),
    (EXTRACT, 1000): (4.0, 3.0),
    (EXTRACT, 100): (5.0, 3.5),
}
"""Goals by sink and value size: the speed as a multiple of Spark's own source and writer, and the factor of less CPU.
"""
_SINKS = (NOOP, PARQUET, EXTRACT)
_SIZES_DIFFER_BY = 0.05
_SOURCES = (OURS, SPARK)
_PARTITIONS = 2


class Input(NamedTuple):
    """One topic: the number of its records, their value size, and the codec."""

    records: int
    value_bytes: int
    codec: str

    @property
    def topic(self) -> str:
        return f"bench-{self.value_bytes}-{self.codec}"


class Layout(NamedTuple):
    """Spark's threads and the tasks of the read; None: one task for each partition."""

    master: str
    min_partitions: int | None = None

    def __str__(self) -> str:
        return self.master + (f", {self.min_partitions} tasks" if self.min_partitions else "")


class Sample(NamedTuple):
    input: Input
    layout: Layout
    sink: str
    source: str
    seconds: float
    cpu_seconds: float
    broker_cpu_seconds: float
    size_bytes: int


class Session:
    """One ``session_process`` and its answers."""

    def __init__(self, source: str, master: str, bootstrap: str, zookeeper: str, folder: Path) -> None:
        arguments = [source, master, bootstrap, zookeeper, str(folder)]
        command = [sys.executable, "-m", "tests.bench.spark.session_process", *arguments]
        self._log = (folder / f"{source}-{master}.log").open("w")
        environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
        self._process = subprocess.Popen(
            tied(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environ
        )
        self.pid = self._process.pid
        self._answer()

    def ask(self, sink: str, options: dict[str, str]) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(json.dumps({"sink": sink, "options": options}), file=self._process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._log.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise click.ClickException(f"a Spark session ended; its log: {self._log.name}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def measured(
    sessions: dict[str, Session], broker_pid: int, given: Input, layout: Layout, sink: str, rounds: int, warmup: int
) -> list[Sample]:
    """Alternate the sources, with another first one in each round."""
    options = {"subscribe": given.topic}
    if layout.min_partitions:
        options["minPartitions"] = str(layout.min_partitions)
    samples = []
    for number in range(warmup + rounds):
        for source in _SOURCES if number % 2 == 0 else reversed(_SOURCES):
            before = measure.cpu_seconds(sessions[source].pid), measure.cpu_seconds(broker_pid)
            answer = sessions[source].ask(sink, options)
            after = measure.cpu_seconds(sessions[source].pid), measure.cpu_seconds(broker_pid)
            if number >= warmup:
                cpu_seconds, broker_cpu_seconds = after[0] - before[0], after[1] - before[1]
                samples.append(
                    Sample(given, layout, sink, source, answer["seconds"], cpu_seconds, broker_cpu_seconds,
                           answer["bytes"])
                )  # fmt: skip
    _check_sizes(samples)
    return samples


def _check_sizes(samples: Sequence[Sample]) -> None:
    """Check that the files have about the same size: otherwise, their content differs."""
    ours, sparks = (statistics.median(each.size_bytes for each in samples if each.source == name) for name in _SOURCES)
    if abs(ours - sparks) > sparks * _SIZES_DIFFER_BY:
        raise click.ClickException(f"{samples[0].sink}: our files have {ours:,.0f} bytes, Spark's {sparks:,.0f}")


def run(
    bootstrap: str, zookeeper: str, broker_pid: int, inputs: Sequence[Input], layouts: Sequence[Layout], rounds: int,
    warmup: int, folder: Path, console: Console,
) -> tuple[list[Sample], dict[str, dict[str, int]]]:  # fmt: skip
    samples: list[Sample] = []
    memory: dict[str, dict[str, int]] = {}
    for master in dict.fromkeys(layout.master for layout in layouts):
        sessions: dict[str, Session] = {}
        try:
            for source in _SOURCES:
                sessions[source] = Session(source, master, bootstrap, zookeeper, folder)
            for given in inputs:
                answers = {
                    source: each.ask(CHECK, {"subscribe": given.topic})["check"] for source, each in sessions.items()
                }
                if answers[OURS] != answers[SPARK] or answers[OURS][0] != given.records:
                    raise click.ClickException(f"the sources disagree about {given.topic}: {answers}")
                for layout in layouts:
                    for sink in _sinks(layout) if layout.master == master else ():
                        console.print(f"{given.topic} {layout} {sink}", style="dim", highlight=False)
                        samples += measured(sessions, broker_pid, given, layout, sink, rounds, warmup)
            memory[master] = {source: measure.memory(each.pid).peak_bytes for source, each in sessions.items()}
        finally:
            for each in sessions.values():
                each.close()
    return samples, memory


def _sinks(layout: Layout) -> Sequence[str]:
    """The sinks of a layout; an extraction plans its tasks itself."""
    return [sink for sink in _SINKS if sink != EXTRACT or layout.min_partitions is None]


def print_report(console: Console, samples: Sequence[Sample], memory: dict[str, dict[str, int]]) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("input", "Spark", "sink", "ours s", "Spark's s", "times as fast", "(range)", "ours rec/s",
                   "CPU ours s", "CPU Spark's s", "CPU ratio", "goals"):  # fmt: skip
        table.add_column(column, justify="left" if column in ("input", "Spark", "sink") else "right")
    for given, layout, sink in dict.fromkeys((each.input, each.layout, each.sink) for each in samples):
        both = {source: [each for each in samples if each[:4] == (given, layout, sink, source)] for source in _SOURCES}
        ratios = [spark.seconds / ours.seconds for ours, spark in zip(both[OURS], both[SPARK], strict=True)]
        seconds = {source: statistics.median(each.seconds for each in both[source]) for source in _SOURCES}
        cpu = {source: statistics.median(each.cpu_seconds for each in both[source]) for source in _SOURCES}
        table.add_row(
            f"{given.records:,} x {given.value_bytes} B {given.codec}", str(layout), sink,
            f"{seconds[OURS]:.2f}", f"{seconds[SPARK]:.2f}", f"{statistics.median(ratios):.2f}",
            f"{min(ratios):.2f}-{max(ratios):.2f}", f"{given.records / seconds[OURS]:,.0f}",
            f"{cpu[OURS]:.1f}", f"{cpu[SPARK]:.1f}", f"{cpu[SPARK] / max(cpu[OURS], 0.01):.2f}",
            " / ".join(f"{goal:g}" for goal in _GOALS[sink, given.value_bytes] if goal),
        )  # fmt: skip
    console.print(table)
    for master, peaks in memory.items():
        told = ", ".join(f"{source} {peaks[source] / 1e6:,.0f} MB" for source in _SOURCES)
        console.print(f"- peak memory with {master}, JVM and Python workers: {told}", highlight=False)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--warmup", type=click.IntRange(0), default=2, show_default=True)
@click.option("--scale", type=float, default=1.0, show_default=True, help="Of 1 million x 1 KB and 5 million x 100 B.")
@click.option("--size", "sizes", type=click.Choice(["1000", "100"]), multiple=True, help="Only this value size.")
@click.option("--codec", "codecs", multiple=True, default=("none", "lz4"), show_default=True)
@click.option("--master", "masters", multiple=True, help="Only this one [local[2]; then local[1] and more tasks].")
@click.option("--broker", type=click.Choice(targets.NAMES), default=targets.KAFKA_ZK, show_default=True)
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write all numbers here.")
def main(
    rounds: int, warmup: int, scale: float, sizes: tuple[str, ...], codecs: tuple[str, ...], masters: tuple[str, ...],
    broker: str, json_path: Path | None,
) -> None:  # fmt: skip
    """All columns of a topic, by both sources in alternating pairs: to a sink that discards them, to Parquet, and by an
    extraction, which is compared with Spark's own source and writer.
    """
    console = Console(width=max(Console().width, 150))
    layouts = [Layout(master) for master in masters] or [
        Layout("local[2]"), Layout("local[2]", 8), Layout("local[1]")
    ]  # fmt: skip
    counts = {1000: 1_000_000, 100: 5_000_000}
    inputs = [
        Input(int(count * scale), size, codec)
        for size, count in counts.items()
        for codec in codecs
        if not sizes or str(size) in sizes
    ]
    folder = jars.REPOSITORY_ROOT / "target" / "bench" / f"spark-{time.time_ns()}"
    try:
        requirements.require(kcat=False)
        jars.jars(jars.SPARK_KAFKA)
        zookeeper = apache_kafka.start_zookeeper(folder / "zookeeper")
        try:
            target = targets.start(broker, zookeeper.connect_string, folder / broker)
            try:
                for given in inputs:
                    target.create_topic(given.topic, partitions=_PARTITIONS)
                    fill(target.bootstrap, given.topic, given.records, given.value_bytes, given.codec, _PARTITIONS)
                found = run(
                    target.bootstrap, target.zookeeper, target.brokers[0].pid, inputs, layouts, rounds, warmup, folder,
                    console,
                )  # fmt: skip
            finally:
                target.stop()
        finally:
            zookeeper.stop()
            shutil.rmtree(folder, ignore_errors=True)
    except (requirements.MissingPeerTools, jars.JarsNotResolved, ProcessFailed) as failure:
        raise click.ClickException(str(failure)) from failure
    print_report(console, *found)
    facts = {**machine.commit(), "machine": machine.describe(), "broker": broker, "rounds": rounds, "warmup": warmup}
    console.print(f"- {facts['machine']['processor']}, {facts['machine']['cores']} cores, load at start "
                  f"{facts['machine']['load_average_at_start']:.1f}; broker: {broker}", highlight=False)  # fmt: skip
    if json_path:
        rows = [{**each._asdict(), "input": each.input._asdict(), "layout": str(each.layout)} for each in found[0]]
        json_path.write_text(json.dumps({"facts": facts, "samples": rows, "peak_bytes": found[1]}, indent=1))


if __name__ == "__main__":
    main()
