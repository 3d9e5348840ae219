"""The cost of a change for the control plane per partition: `python -m tests.bench.cost_model`.

The bench plays a change (creation, deaths, a clean stop, …) with several numbers of partitions, three replicas each, on
the in-memory ZooKeeper, and counts writes and requests after the real codec. A line through these points is the model,
which is compared with the counts at a larger number. Only the CPU time, of controller, codec and in-memory ZooKeeper in
one process, depends on the machine. ``--measured`` does the same with the seconds that `make compare` measured on real
brokers: it predicts their largest number of partitions from the others.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from kafka_zk.protocol.primitives import Buffer
from kafka_zk.registry.client.client import Operation, WatchedEvent
from kafka_zk.registry.znodes.brokers import BrokerInfo
from kafka_zk.sim.zookeeper.znode_tree import Result, ZnodeTree
from tests.bench.compare.judged import Samples, median
from tests.bench.compare.systems import OURS
from tests.kafka_zk.broker.controller.world import Cluster, Connection

BROKERS = 3
TOPIC = "modelled"
FITTED = (100, 500, 1_200, 2_000)
PREDICTED = 5_000
TOLERANCE = 0.2
MEASURED = ("create_s", "create_cpu_s", "kill_beyond_s", "supervised_beyond_s", "stop_exit_s", "memory_mb")
_UNITS = (1, 250, 500, 1_000, 1_500, 3_000)
"""Requests read the znodes of 250 partitions, write those of 500, and send brokers 1,000; a broker leads a third of
all.
"""
_SETTLED_MS = 20_000


class Cost(NamedTuple):
    """``znode_bytes``: paths and data of the written ``znodes``. ``control_requests``: to brokers."""

    znodes: float
    znode_bytes: float
    zookeeper_requests: float
    control_requests: float
    control_bytes: float
    cpu_ms: float


COUNTED = Cost._fields[:-1]


class Line(NamedTuple):
    """The value is ``fixed``, plus ``each`` for every started ``unit`` of partitions."""

    fixed: float
    each: float
    unit: int

    def at(self, partitions: int) -> float:
        return self.fixed + self.each * -(-partitions // self.unit)


def fit(points: Mapping[int, float], figure: str = "") -> Line:
    """The line with the smallest relative distances to at least two points. Requests come in steps; the largest steps
    that explain the points are taken.
    """
    lines = [_fit(points, unit) for unit in (_UNITS if figure.endswith("requests") else _UNITS[:1])]
    return min(lines, key=lambda line: (round(_distance(points, line), 6), -line.unit))


def _fit(points: Mapping[int, float], unit: int) -> Line:
    """A fit by weighted least squares."""
    rows = [(-(-partitions // unit), value, 1 / max(value, 1e-9) ** 2) for partitions, value in points.items()]
    total = sum(weight for _, _, weight in rows)
    mean_x = sum(weight * x for x, _, weight in rows) / total
    mean_y = sum(weight * y for _, y, weight in rows) / total
    spread = sum(weight * (x - mean_x) ** 2 for x, _, weight in rows)
    each = sum(weight * (x - mean_x) * (y - mean_y) for x, y, weight in rows) / spread if spread else 0.0
    return Line(mean_y - each * mean_x, each, unit)


def _distance(points: Mapping[int, float], line: Line) -> float:
    return sum((line.at(partitions) / max(value, 1e-9) - 1) ** 2 for partitions, value in points.items())


class Prediction(NamedTuple):
    """The prediction of one figure of one change; ``found`` is the count at the number of partitions that the fit left
    out.
    """

    change: str
    figure: str
    line: Line
    predicted: float
    found: float

    @property
    def error(self) -> float:
        """The error relative to the count."""
        return abs(self.predicted - self.found) / max(self.found, 1e-9)


def predictions(sizes: Sequence[int], largest: int, figures: Sequence[str] = Cost._fields) -> list[Prediction]:
    """The figures of every change: the model of ``sizes`` against the count at ``largest``."""
    predicted = []
    for change in CHANGES:
        costs = {size: played(change, size) for size in (*sizes, largest)}
        for figure in figures:
            points = {size: getattr(costs[size], figure) for size in sizes}
            line = fit(points, figure)
            predicted.append(Prediction(change, figure, line, line.at(largest), getattr(costs[largest], figure)))
    return predicted


def measured(samples: Samples) -> list[Prediction]:
    """Predictions for the medians of our brokers; none with fewer than three numbers of partitions."""
    sizes = sorted(samples.get(OURS, {}))
    predicted = []
    for figure in MEASURED if len(sizes) > 2 else ():
        points = {size: value for size in sizes if (value := median(samples, OURS, size, figure)) is not None}
        if len(points) == len(sizes):
            found = points.pop(sizes[-1])
            line = fit(points, figure)
            predicted.append(Prediction("measured", figure, line, line.at(sizes[-1]), found))
    return predicted


# -- counts -----------------------------------------------------------------------------------------------------------


class _CountingTree(ZnodeTree):
    def __init__(self) -> None:
        super().__init__()
        self.written = self.written_bytes = 0

    def apply(self, operation: Operation, session_id: int, now_ms: int) -> tuple[Result, list[WatchedEvent]]:
        done = super().apply(operation, session_id, now_ms)
        self._count([operation])
        return done

    def apply_multi(
        self, operations: Sequence[Operation], session_id: int, now_ms: int
    ) -> tuple[list[Result], list[WatchedEvent]]:
        done = super().apply_multi(operations, session_id, now_ms)
        self._count(operations)
        return done

    def _count(self, operations: Sequence[Operation]) -> None:
        self.written += len(operations)
        self.written_bytes += sum(len(each.path) + len(getattr(each, "data", None) or b"") for each in operations)


class _CountingConnection(Connection):
    def request_encoded(self, api_key: int, version: int, body: Buffer) -> object:  # type: ignore[override]
        cluster = self._broker.cluster
        assert isinstance(cluster, CountingCluster)
        cluster.requests += 1
        cluster.request_bytes += len(body)
        return super().request_encoded(api_key, version, body)


class CountingCluster(Cluster):
    """Three brokers, of which broker 0 is the controller, and one topic."""

    def __init__(self) -> None:
        self.requests = self.request_bytes = 0
        super().__init__(BROKERS, seed=1, start=False)
        self.tree = _CountingTree()
        self.tree.__dict__.update(vars(self.zookeeper.tree))
        self.tree.written = self.tree.written_bytes = 0
        self.zookeeper.tree = self.tree
        for broker in self.brokers:
            self.scheduler.run(broker.start())
            self.settle()

    async def connect(self, info: BrokerInfo) -> Connection:
        await super().connect(info)
        return _CountingConnection(self.brokers[info.broker_id])

    def make(self, partitions: int) -> None:
        replicas = {number: [(number + place) % BROKERS for place in range(BROKERS)] for number in range(partitions)}
        self.create(TOPIC, replicas, f"{1:021d}Q")

    def stop_cleanly(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        assert self.scheduler.run(self.controller.handle_controlled_shutdown(broker_id, broker.epoch)) == []

    def totals(self) -> tuple[int, ...]:
        asked = sum(self.zookeeper.counts.values()) - self.zookeeper.counts["ping"] - self.zookeeper.counts["sync"]
        return self.tree.written, self.tree.written_bytes, asked, self.requests, self.request_bytes


CHANGES: Mapping[str, Callable[[CountingCluster, int], object]] = {
    "creation": lambda cluster, partitions: cluster.make(partitions),
    "a broker dies": lambda cluster, _: cluster.kill(2),
    "the controller dies": lambda cluster, _: cluster.kill(0),
    "a clean stop": lambda cluster, _: cluster.stop_cleanly(2),
    "deletion": lambda cluster, _: cluster.delete(TOPIC),
}


def played(change: str, partitions: int) -> Cost:
    """The cost of the change: the difference of the totals before and after it."""
    cluster = CountingCluster()
    if change != "creation":
        cluster.make(partitions)
        cluster.settle(_SETTLED_MS)
    gc.collect()
    before, begun_s = cluster.totals(), time.process_time()
    CHANGES[change](cluster, partitions)
    cluster.settle(_SETTLED_MS)
    cpu_s = time.process_time() - begun_s
    return Cost._make([*(now - then for now, then in zip(cluster.totals(), before, strict=True)), cpu_s * 1000])


# -- output -----------------------------------------------------------------------------------------------------------


def table(predicted: Sequence[Prediction], largest: int) -> Iterator[str]:
    """The table in Markdown."""
    yield f"| change | figure | fixed | for each | partitions | predicted for {largest:,} | found | off by |"
    yield "|---|---|---|---|---|---|---|---|"
    for each in predicted:
        line = each.line
        drawn = f"{_number(line.fixed)} | {_number(line.each)} | {line.unit:,}"
        checked = f"{_number(each.predicted)} | {_number(each.found)} | {each.error:.0%}"
        yield f"| {each.change} | {each.figure.replace('_', ' ')} | {drawn} | {checked} |"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--fitted", type=click.IntRange(1), multiple=True, default=FITTED, show_default=True)
@click.option("--predicted", type=click.IntRange(1), default=PREDICTED, show_default=True, help="Counted, too.")
@click.option(
    "--measured", "json_path", type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The JSON of make compare: predict its largest number of partitions instead.",
)  # fmt: skip
def main(fitted: Sequence[int], predicted: int, json_path: Path | None) -> None:
    """Print fixed costs and costs per partition of the controller's work, and the errors of the model."""
    if json_path is None:
        if len(set(fitted)) < 2:
            raise click.UsageError("a line needs two numbers of partitions: --fitted 100 --fitted 500")
        for text in table(predictions(fitted, predicted), predicted):
            click.echo(text)
        return
    try:
        samples = {
            name: {int(size): rounds for size, rounds in sizes.items()}
            for name, sizes in json.loads(json_path.read_text())["samples"].items()
        }
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise click.ClickException(f"{json_path} is not what make compare writes: {error!r}") from error
    found = measured(samples)
    if not found:
        raise click.ClickException(f"{json_path} has not three numbers of partitions of {OURS}")
    for text in table(found, max(samples[OURS])):
        click.echo(text)


if __name__ == "__main__":
    main()
