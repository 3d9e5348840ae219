"""The cost that an intercepting function adds to a request: `python -m tests.bench.interception`.

One client sends Metadata and Produce requests one after another to a broker: without a function, with one that sees
requests, and with one that sees requests and responses. The three take turns, so that a busy moment affects all of
them. The first decile of the times approximates a quiet machine; the median shows this machine.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median, quantiles
from typing import Any, NamedTuple

import click

from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.interception import Exchange
from kafka_zk.embedded.probe import ask_broker
from kafka_zk.testing.cluster import Cluster

TOPIC = "measured"
VALUE = b"v" * 1000


def see(exchange: Exchange) -> None:
    """Let every message pass unchanged."""


FUNCTIONS: Mapping[str, tuple[Any, ...] | None] = {
    "no function": None,
    "requests": (see,),
    "requests and responses": (see, see),
}


def timed(ask: Callable[[], object], count: int) -> list[float]:
    """Milliseconds of each of ``count`` requests."""
    times = []
    for _ in range(count):
        begun_s = time.perf_counter()
        ask()
        times.append((time.perf_counter() - begun_s) * 1000)
    return times


class Latency(NamedTuple):
    """The first decile and the median, in milliseconds."""

    fast: float
    middle: float


def measure(ask: Callable[[], object], cluster: Cluster, count: int, rounds: int) -> dict[str, Latency]:
    """The latency of a request by the name of FUNCTIONS."""
    times: dict[str, list[float]] = {name: [] for name in FUNCTIONS}
    timed(ask, count)
    for _ in range(rounds):
        for name, functions in FUNCTIONS.items():
            with cluster.faults.intercept(*functions) if functions else contextlib.nullcontext():
                times[name] += timed(ask, count)
    return {name: Latency(quantiles(values, n=10)[0], median(values)) for name, values in times.items()}


def report(rows: Sequence[tuple[str, Mapping[str, Latency]]]) -> Iterator[str]:
    """The lines of a table."""
    yield f"{'':33} first decile, added       median, added"
    for api, latencies in rows:
        base = latencies["no function"]
        for name, (fast, middle) in latencies.items():
            yield (
                f"{api:9} {name:23} {fast:6.2f} ms  {fast - base.fast:+6.2f} ms"
                f"  {middle:6.2f} ms  {middle - base.middle:+6.2f} ms"
            )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--count", type=click.IntRange(1), default=300, show_default=True, help="Requests of a turn.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
def main(count: int, rounds: int) -> None:
    """Measure the latency that interception adds."""
    with Cluster() as cluster:
        cluster.create_topic(TOPIC)
        port = cluster.brokers[0].port
        with BlockingProducer(bootstrap_servers=cluster.bootstrap) as producer:
            rows = [
                ("Metadata", measure(lambda: ask_broker("127.0.0.1", port), cluster, count, rounds)),
                ("Produce", measure(lambda: producer.send(TOPIC, VALUE).result(), cluster, count, rounds)),
            ]
    for line in report(rows):
        click.echo(line)


if __name__ == "__main__":
    main()
