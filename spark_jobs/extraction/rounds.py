"""Repeated extractions in one Spark session and one ZooKeeper session, until they are stopped.

Each round has the guarantees of ``job.extract``. A round without new records only reads ZooKeeper and sends each leader
one request for the log ends. A transient error (brokers or ZooKeeper unavailable, another member in the group) fails
the round, and the next round tries again; any other error ends the rounds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafka_zk.base.clock import monotonic_s, sleep
from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.spark_jobs.errors import DataLoss, JavaDied, SourceError, Undecodable, WronglyAsked
from kafka_zk.spark_jobs.extraction import job, options
from kafka_zk.spark_jobs.extraction.connections import Connections
from kafka_zk.spark_jobs.extraction.hold import GroupHold
from kafka_zk.spark_jobs.extraction.planning import Extraction, PartitionReport, Report
from kafka_zk.spark_jobs.extraction.steps import Leftover
from kafka_zk.spark_jobs.source.cluster_client import EARLIEST, LATEST
from kafka_zk.spark_jobs.waiting import Note

_MAY_PASS = (SourceError, RegistryError, KafkaError)
_STAYS = (WronglyAsked, Undecodable, DataLoss, JavaDied)
_LOOK_S = 0.1


@dataclass(frozen=True)
class Round:
    """The result of a round. ``report``: None if the round failed. ``failure``: why it failed, otherwise None."""

    number: int
    report: Report | None
    failure: str | None = None

    @property
    def is_behind(self) -> bool:
        """True if ``max_records`` left records, so that the next round is due immediately."""
        return self.report is not None and bool(self.report.published) and self.report.lag_after > 0


class _Stop:
    """A request to stop, which a signal handler may set at any point of ``wait``.

    A flag needs no lock. With ``threading.Event``, the handler would wait for the lock that the interrupted ``wait``
    holds. ``SimpleQueue.get`` with a timeout is no alternative: in CPython 3.11, it never returns if its thread is
    suspended until the timeout has passed.
    """

    def __init__(self) -> None:
        self.is_asked = False

    def ask(self) -> None:
        self.is_asked = True

    def wait(self, timeout_s: float) -> None:
        """Wait until the stop is requested or the time is over."""
        left_s = timeout_s
        while left_s > 0 and not self.is_asked:
            sleep(min(left_s, _LOOK_S))
            left_s -= _LOOK_S


class Rounds:
    """``start_spark``: starts the session; called once, by the first round with new records.

    ``tell``: called after each round. ``note``: called with sentences about waits. ``clock``: returns seconds.
    """

    def __init__(
        self, extraction: Extraction, start_spark: Callable[[], Any], every_s: float, *,
        tell: Callable[[Round], None], note: Note = lambda _: None,
        clock: Callable[[], float] = monotonic_s,
    ) -> None:  # fmt: skip
        options.check(extraction)
        self._extraction = extraction
        self._start_spark = start_spark
        self._every_s = every_s
        self._tell = tell
        self._note = note
        self._clock = clock
        self._stop = _Stop()
        self._spark: Any = None
        self._checked = False
        self._connections: Connections | None = None

    def stop(self) -> None:
        """Finish the current round and begin no other; a signal handler may call it."""
        self._stop.ask()

    def run(self) -> None:
        """Raises the errors of ``job.extract`` in the first round; later only permanent ones."""
        number = 0
        try:
            while not self._stop.is_asked:
                number += 1
                due_s = self._clock() + self._every_s
                done = self._round(number)
                self._tell(done)
                if not done.is_behind:
                    self._stop.wait(max(0.0, due_s - self._clock()))
        finally:
            self._disconnect()

    def _round(self, number: int) -> Round:
        try:
            return Round(number, self._extract())
        except _MAY_PASS as error:
            self._disconnect()
            self._checked = False  # the cause of the failure may have changed the target, too
            if number == 1 or isinstance(error, _STAYS):
                raise
            return Round(number, None, str(error))

    def _extract(self) -> Report:
        started_s, start_seconds = self._clock(), 0.0
        if self._connections is None:
            self._connections = Connections(self._extraction, self._note).__enter__()
        report = idle_report(self._extraction, self._connections)
        if report is None:
            if self._spark is None:
                self._spark, start_seconds = job.started(self._start_spark, self._note)
            report = job.run(self._spark, self._extraction, self._connections, note=self._note, checked=self._checked)
            self._checked = True
        return replace(report, seconds=self._clock() - started_s, spark_start_seconds=start_seconds)

    def _disconnect(self) -> None:
        if self._connections is not None:
            self._connections.__exit__()
            self._connections = None


def idle_report(extraction: Extraction, connections: Connections) -> Report | None:
    """The report of a round without new records; None if there may be some.

    The check reads ZooKeeper and sends one ListOffsets request to each leader. The beginnings of logs are requested
    only for partitions without an offset, because a group at the end of a partition has lost nothing.
    """
    tps = _registered(extraction.topics, connections)
    hold = GroupHold(connections.zookeeper, extraction.progress_group, "")
    manifest = run_blocking(hold.read_manifest())
    if not tps or (manifest is not None and manifest.unfinished) or run_blocking(hold.outdated(tps)):
        return None
    offsets = run_blocking(hold.offsets(tps))
    ends = connections.brokers.offsets(dict.fromkeys(tps, LATEST))
    if new := [tp for tp in tps if offsets.get(tp, -1) < 0]:
        offsets |= connections.brokers.offsets(dict.fromkeys(new, EARLIEST))
    if any(offsets[tp] != ends[tp] for tp in tps):
        return None
    rows = tuple(PartitionReport(*tp, ends[tp], ends[tp], 0, 0) for tp in tps)
    return Report(rows, 0, 0, (), Leftover.NOTHING.value)


def _registered(topics: Sequence[str], connections: Connections) -> list[TopicPartition]:
    found = run_blocking(TopicRegistry(connections.zookeeper).assignments(topics))
    if set(topics) - found.keys():
        return []
    return sorted(TopicPartition(name, number) for name, each in found.items() for number in each.partitions)
