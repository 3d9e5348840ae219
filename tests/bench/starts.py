"""The time that an embedded cluster takes until it is ready, over many starts: `python -m tests.bench.starts`.

A fixed wait that affects only some starts shows in the 99th percentile.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import click

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.errors import EmbeddedError

MOST = 1.3
"""The limit of the 99th percentile, as a multiple of the median."""

STEPS = ("ZooKeeper", "brokers", "both")


def one_start(brokers: int) -> tuple[float, float, float]:
    """Seconds of each of STEPS. Raises: EmbeddedError."""
    with tempfile.TemporaryDirectory(prefix="kafka-zk-starts-") as folder:
        cluster = EmbeddedCluster(Path(folder), broker_count=brokers)
        begun_s = time.monotonic()
        try:
            cluster.start_zookeeper()
            served_s = time.monotonic()
            cluster.start_brokers()
            cluster.wait_ready()
            ready_s = time.monotonic()
        finally:
            cluster.kill()
    return served_s - begun_s, ready_s - served_s, ready_s - begun_s


def percentile_99(values: Sequence[float]) -> float:
    """The smallest value that 99 % of them do not exceed."""
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


def report(starts: Sequence[tuple[float, float, float]]) -> Iterator[str]:
    """The lines of a table."""
    yield f"{'':9}  median     p99  longest  p99/median   of {len(starts)} starts"
    for step, values in zip(STEPS, zip(*starts, strict=True), strict=True):
        middle, most = median(values), percentile_99(values)
        verdict = "" if most <= MOST * middle else f"   more than {MOST}"
        yield f"{step:9}  {middle:4.2f} s  {most:4.2f} s  {max(values):5.2f} s  {most / middle:10.2f}{verdict}"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--count", type=click.IntRange(1), default=100, show_default=True)
@click.option("--brokers", type=click.IntRange(0), default=1, show_default=True)
def main(count: int, brokers: int) -> None:
    """Start an embedded cluster COUNT times, each time with empty folders; prints medians and 99th percentiles."""
    starts = []
    for number in range(1, count + 1):
        try:
            starts.append(one_start(brokers))
        except EmbeddedError as failure:
            raise click.ClickException(f"start {number}: {failure}") from failure
        click.echo(f"start {number}: {starts[-1][-1]:.2f} s", err=True)
    for line in report(starts):
        click.echo(line)


if __name__ == "__main__":
    sys.exit(main())
