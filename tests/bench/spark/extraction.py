"""`python -m tests.bench.spark.extraction`: the cost of extractions by size and partitions, and the rounds of --every.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import click
from rich.console import Console
from rich.table import Table

from kafka_zk.embedded.process import tied
from tests.bench import machine, measure
from tests.bench.spark.filling import fill
from tests.peers import apache_kafka, jars, requirements, targets
from tests.peers.processes import ProcessFailed
from tests.peers.targets import Target

_VALUE_BYTES = 1000
_SAMPLE_S = 0.5
_ROUND_S = 60
_PARTITIONS_OF_ROUNDS = 2


class Cost(NamedTuple):
    """The cost of one extraction. Bytes are the peaks of resident memory; in local mode, the driver's Java is also the
    executor.
    """

    gigabytes: float
    partitions: int
    seconds: float
    cpu_seconds: float
    python_bytes: int
    java_bytes: int
    files: int

    @property
    def megabytes_per_second(self) -> float:
        return self.gigabytes * 1000 / self.seconds


class RoundCost(NamedTuple):
    """The rounds of --every that found this many records, after the first."""

    records: int
    seconds: list[float]


@contextmanager
def _extracting(
    target: Target, topic: str, folder: Path, master: str, out: int | IO[str], *more: str
) -> Iterator[subprocess.Popen[str]]:
    """``kafka-zk extract``; an interrupt or a failure of the block kills it, its Java and its workers."""
    command = [
        sys.executable, "-m", "kafka_zk", "extract", "--zookeeper", target.zookeeper, "--group", topic,
        "--topic", topic, "--to", str(folder), "--json", "--master", master, "--conf", "spark.ui.enabled=false", *more,
    ]  # fmt: skip
    files = str(folder.parent)  # the files that it leaves when killed are removed, too
    environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": files, "TMPDIR": files}
    with (folder.parent / f"{topic}.log").open("w") as log:
        process = subprocess.Popen(
            tied(command), stdout=out, stderr=log, text=True, env=environ, start_new_session=True
        )
    try:
        yield process
    except BaseException:
        with suppress(ProcessLookupError):  # no process of the group is left
            os.killpg(process.pid, signal.SIGKILL)  # also if the driver has ended, because the others may still run
        raise
    finally:
        process.wait(_ROUND_S)


def cost(target: Target, folder: Path, gigabytes: float, partitions: int, master: str) -> Cost:
    topic = f"size-{gigabytes:g}-{partitions}"
    records = int(gigabytes * 1e9) // _VALUE_BYTES
    target.create_topic(topic, partitions=partitions, timeout_s=120)
    fill(target.bootstrap, topic, records, _VALUE_BYTES, "none", partitions)
    lake, out = folder / topic, folder / f"{topic}.json"
    python_bytes = java_bytes = 0
    cpu_seconds = 0.0
    with out.open("w") as told, _extracting(target, topic, lake, master, told) as process:
        while process.poll() is None:
            driver, java = _driver(process.pid)
            python_bytes, java_bytes = max(python_bytes, _peak(driver)), max(java_bytes, _peak(java))
            cpu_seconds = max(cpu_seconds, measure.cpu_seconds(process.pid))
            time.sleep(_SAMPLE_S)
    said = out.read_text()
    if process.returncode != 0 or (report := json.loads(said))["records"] != records:
        raise click.ClickException(f"{topic}: exit code {process.returncode}, {said}; {folder / topic}.log")
    files = len(list(lake.glob("range=*/*.parquet")))
    shutil.rmtree(lake)
    target.delete_topic(topic)
    seconds = report["seconds"] - report["spark_start_seconds"]
    return Cost(gigabytes, partitions, seconds, cpu_seconds, python_bytes, java_bytes, files)


def _driver(pid: int) -> tuple[int, int]:
    """The process ids of Python and Java below (or at) a process: the Python whose child is a Java process."""
    tree = list(measure.process_tree(pid))
    for each in tree:
        if _name(each) == "java":
            return int(_status(each, "PPid")), each
    return tree[-1], 0


def _name(pid: int) -> str:
    return _status(pid, "Name")


def _peak(pid: int) -> int:
    return int(_status(pid, "VmHWM").removesuffix("kB") or 0) * 1024


def _status(pid: int, key: str) -> str:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{key}:")), "")


def rounds(target: Target, folder: Path, counts: Sequence[int], each: int, master: str) -> Iterator[RoundCost]:
    """The rounds of one session, for each count; the first one starts Spark and is left out."""
    topic = "rounds"
    target.create_topic(topic, partitions=_PARTITIONS_OF_ROUNDS)
    with _extracting(target, topic, folder / topic, master, subprocess.PIPE, "--every", "1s") as process:
        _next(process, target, 1000)
        for count in counts:
            yield RoundCost(count, [_next(process, target, count) for _ in range(each)])
        process.terminate()


def _next(process: subprocess.Popen[str], target: Target, count: int) -> float:
    """Write records (an even number to each partition), and wait for rounds until they are extracted."""
    fill(target.bootstrap, "rounds", count, _VALUE_BYTES, "none", _PARTITIONS_OF_ROUNDS)
    assert process.stdout is not None
    seconds, missing = 0.0, count
    while line := process.stdout.readline():
        told = json.loads(line)
        if "error" in told:
            raise click.ClickException(f"a round failed: {told['error']}")
        missing -= told["records"]
        seconds = max(seconds, float(told["seconds"]))
        if missing <= 0 and (told["records"] or not count):
            return seconds
    raise click.ClickException("the rounds have ended")


def print_report(console: Console, costs: Sequence[Cost], of_rounds: Sequence[RoundCost]) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("GB", "partitions", "s", "MB/s", "of the first", "CPU s", "Python MB", "Java MB", "files"):
        table.add_column(column, justify="right")
    for each in costs:
        table.add_row(
            f"{each.gigabytes:g}", str(each.partitions), f"{each.seconds:.1f}", f"{each.megabytes_per_second:.0f}",
            f"{each.megabytes_per_second / costs[0].megabytes_per_second:.2f}", f"{each.cpu_seconds:.0f}",
            f"{each.python_bytes / 1e6:.0f}", f"{each.java_bytes / 1e6:.0f}", str(each.files),
        )  # fmt: skip
    console.print(table)
    for told in of_rounds:
        spread = f"{min(told.seconds):.2f}-{max(told.seconds):.2f}"
        console.print(
            f"- --every, {told.records:,} records: {statistics.median(told.seconds):.2f} s a round ({spread})",
            highlight=False,
        )


@contextmanager
def _running(broker: str, folder: Path) -> Iterator[Target]:
    """A broker that is killed at the end, because its files are not needed and the stop of one with many partitions
    takes seconds.
    """
    with ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        zookeeper = apache_kafka.start_zookeeper(folder / "zookeeper")
        cleanup.callback(zookeeper.kill)
        target = targets.start(broker, zookeeper.connect_string, folder / broker)
        cleanup.callback(target.kill)
        yield target


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--gigabytes", type=float, multiple=True, default=(1, 5), show_default=True, help="Of records of 1 KB.")
@click.option("--partitions", type=int, multiple=True, default=(8, 800), show_default=True)
@click.option("--records", type=int, multiple=True, default=(0, 1000, 10000), show_default=True, help="Of --every.")
@click.option("--rounds", "each", type=click.IntRange(1), default=10, show_default=True, help="Of --every, of each.")
@click.option("--master", default="local[2]", show_default=True)
@click.option("--broker", type=click.Choice(targets.NAMES), default=targets.KAFKA_ZK, show_default=True)
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write all numbers here.")
def main(
    gigabytes: tuple[float, ...], partitions: tuple[int, ...], records: tuple[int, ...], each: int, master: str,
    broker: str, json_path: Path | None,
) -> None:  # fmt: skip
    """`kafka-zk extract` into Parquet: seconds without the start of Spark, and memory, against size and partitions."""
    console = Console(width=max(Console().width, 120))
    folder = jars.REPOSITORY_ROOT / "target" / "bench" / f"extraction-{time.time_ns()}"
    costs: list[Cost] = []
    of_rounds: list[RoundCost] = []
    try:
        requirements.require(kcat=False)
        facts: dict[str, Any] = {**machine.commit(), "machine": machine.describe(), "broker": broker, "master": master}
        with _running(broker, folder) as target:
            for size in gigabytes:
                for count in partitions:
                    console.print(f"{size:g} GB, {count} partitions", style="dim", highlight=False)
                    costs.append(cost(target, folder, size, count, master))
            if records:
                of_rounds.extend(rounds(target, folder, records, each, master))
    except (requirements.MissingPeerTools, jars.JarsNotResolved, ProcessFailed) as failure:
        raise click.ClickException(str(failure)) from failure
    finally:
        if costs:
            print_report(console, costs, of_rounds)
    if json_path:
        rows = {"costs": [row._asdict() for row in costs], "rounds": [row._asdict() for row in of_rounds]}
        json_path.write_text(json.dumps({"facts": facts, **rows}, indent=1))


if __name__ == "__main__":
    main()
