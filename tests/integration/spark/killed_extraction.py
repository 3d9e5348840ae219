"""Real runs of the extraction that are killed and recovered, and a check that the target has each record once."""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from tests.integration.processes import ENVIRON
from tests.integration.spark.extraction_process import DRIVER, JAVA, MIDDLE, WORKER, Kill
from tests.integration.spark.sessions import LOCAL, SMALL
from tests.integration.spark.shared_java import SharedJava
from tests.spark_jobs.extraction.points import POINTS

PARTITIONS = 2
TIMEOUT_S = 600
RUNS = 5
"""Number of consecutive runs that may lose ZooKeeper."""
ONE_ATTEMPT, THREE_ATTEMPTS = "local[1]", "local[1,3]"
"""Spark masters with one and with three attempts per task."""
ZOOKEEPER_LOST = "Error: the connection to ZooKeeper broke"
WORKER_DIED = "Error: the Spark job failed: Python worker exited unexpectedly (crashed); run it again, it continues"
JAVA_DIED = "Error: the Java process of Spark's driver has ended (killed, or out of memory); run it again, it continues"


class Point(NamedTuple):
    """Where a run is killed: a point of the protocol, or the middle of reading."""

    step: Step
    phase: str

    def __str__(self) -> str:
        return f"{self.step.name}-{self.phase}"


READING = Point(Step.STAGE, MIDDLE)
KILL_POINTS = (*(Point(step, phase.value) for step, phase in POINTS), READING)


def java_needed_until(last: Point) -> frozenset[Point]:
    """The points before this one, at which the death of the driver's Java makes a run fail."""
    return frozenset({*KILL_POINTS[: KILL_POINTS.index(last)], READING, Point(Step.PUBLISH, MIDDLE)})


class KilledExtraction:
    """One topic, one group and one target folder. ``master``, ``conf``: Spark's master and further properties."""

    format = "json"
    environ: Mapping[str, str] = {}
    """Environment variables of the runs, in addition to those of this process."""
    java_is_needed = java_needed_until(Point(Step.PUBLISH, Phase.END.value))

    def __init__(
        self, cluster: EmbeddedCluster, folder: Path, topic: str, master: str = ONE_ATTEMPT, **conf: str
    ) -> None:
        self._cluster = cluster
        self._target = str(folder / "lake")
        self._folder = folder
        self._topic = topic
        self._master = master
        self._conf = conf
        self._written = 0
        self._kills = itertools.count()
        with BlockingAdmin(None, bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topic(topic, PARTITIONS, 1)

    @contextmanager
    def java_is_shared(self) -> Iterator[None]:
        """Within the block, drivers share a Java, so that only drivers and executors can be killed."""
        before = self.environ
        with SharedJava(self._master, self._conf, before) as java:
            self.environ = {**before, **java.environ}
            try:
                yield
            finally:
                self.environ = before

    def write(self, count: int) -> None:
        with BlockingProducer(None, bootstrap_servers=self._cluster.bootstrap) as producer:
            for number in range(self._written, self._written + count):
                producer.send(self._topic, b"%d" % number, partition=number % PARTITIONS)
            producer.flush()
        self._written += count

    def start(self, kill: Kill | None = None, *more: str) -> "subprocess.Popen[str]":
        """Start a run. Its pipes are closed when all processes that it started on this machine have ended."""
        arguments = [
            "--zookeeper", self._cluster.zookeeper_connect, "--group", f"group-{self._topic}", "--topic", self._topic,
            "--to", self._target, "--format", self.format, "--decode", "string", "--json", "--master", self._master,
        ]  # fmt: skip
        arguments += [f"--conf={name}={value}" for name, value in {**SMALL, **self._conf}.items()]
        point = json.dumps(kill._asdict() if kill else {})
        command = [sys.executable, "-m", "tests.integration.spark.extraction_process", point, *arguments, *more]
        environ = {**ENVIRON, **os.environ, **LOCAL, **self.environ}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)

    def run(self, kill: Kill | None = None, *more: str) -> "subprocess.CompletedProcess[str]":
        """Run until the run and all its processes have ended, successfully or not.

        A run that loses its ZooKeeper session, which is short in tests, on a busy machine is repeated.
        """
        for _ in range(RUNS):
            done = ended(self.start(kill, *more))
            if done.returncode != 1 or ZOOKEEPER_LOST not in done.stderr:
                return done
        raise AssertionError(f"{RUNS} runs in a row have lost ZooKeeper, the last so: {done.stderr[-4000:]}")

    def kill(self, point: Point, victim: str) -> None:
        """Run, and kill a process of the run at a point. There must be records to extract."""
        once = self._folder / f"killed-{next(self._kills)}"
        done = self.run(Kill(point.step.name, point.phase, victim, str(once)))
        assert once.exists(), f"the run did not come to {point}: {done.stderr[-4000:]}"
        assert "Traceback" not in done.stderr, done.stderr
        if victim == DRIVER:
            assert done.returncode == -signal.SIGKILL
        elif victim == JAVA and point in self.java_is_needed:
            assert done.returncode == 1, done.stderr
            assert done.stderr.splitlines()[-1].startswith(JAVA_DIED), done.stderr
        elif victim == WORKER and self._master == ONE_ATTEMPT:
            assert done.returncode == 1, done.stderr
            assert done.stderr.splitlines()[-1].startswith(WORKER_DIED), done.stderr
        else:
            assert done.returncode == 0, done.stderr[-4000:]

    def recover(self) -> list[str]:
        """Run until no records are left; returns what each run recovered."""
        told = []
        for _ in range(2):  # the first one may only finish a range
            done = self.run()
            assert done.returncode == 0, done.stderr[-4000:]
            told.append(json.loads(done.stdout.splitlines()[-1])["recovered"])
        return told

    def check(self) -> None:
        """Check that the target and the committed offsets match the written records."""
        assert self.records() == self._expected
        assert sum(self.stored().values()) == self._written

    def stored(self) -> dict[TopicPartition, int]:
        """The group's offsets in ZooKeeper."""
        partitions = [TopicPartition(self._topic, number) for number in range(PARTITIONS)]
        with KazooBlockingClient(self._cluster.zookeeper_connect) as client:
            stored = run_blocking(OffsetRegistry(client, f"group-{self._topic}").fetch(partitions))
        return {tp: each.offset for tp, each in stored.items()}

    def records(self) -> list[tuple[int, int, str]]:
        """The target's records in order: (partition, offset, value)."""
        return sorted(self._records())

    def check_nothing_twice(self) -> None:
        """Check what must hold at any moment: no record is in the target twice."""
        found = list(self._records())
        assert len(set(found)) == len(found) and set(found) <= set(self._expected)

    @property
    def _expected(self) -> list[tuple[int, int, str]]:
        return sorted((number % PARTITIONS, number // PARTITIONS, str(number)) for number in range(self._written))

    def _records(self) -> Iterator[tuple[int, int, str]]:
        for path in Path(self._target).glob("range=*/part-*.json"):
            for line in path.read_text().splitlines():
                record: dict[str, Any] = json.loads(line)
                yield record["partition"], record["offset"], record["value"]


class IntoParquet(KilledExtraction):
    format = "parquet"

    def _records(self) -> Iterator[tuple[int, int, str]]:
        for path in Path(self._target).glob("range=*/part-*.parquet"):
            for record in pq.read_table(path).to_pylist():
                yield record["partition"], record["offset"], record["value"]


class Deck:
    """Draws every point in a random order, then again in another order."""

    def __init__(self, points: Sequence[Point], chance: random.Random) -> None:
        self._points = points
        self._chance = chance
        self._left: list[Point] = []

    def draw(self) -> Point:
        if not self._left:
            self._left = self._chance.sample(self._points, len(self._points))
        return self._left.pop()


def ended(process: "subprocess.Popen[str]") -> "subprocess.CompletedProcess[str]":
    """Wait for a run and all its processes."""
    with process:
        try:
            out, err = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
