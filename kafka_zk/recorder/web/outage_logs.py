"""A cluster's logs after an outage, merged by time: ZooKeeper's transaction log, and the logs of Kafka's brokers."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafka_zk.base.events import Event
from kafka_zk.recorder.broker_logs.log_files import BrokerLogs
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.timeline.failovers import Failovers
from kafka_zk.recorder.timeline.migration_phases import MigrationPhases
from kafka_zk.recorder.timeline.trace_file import Traced
from kafka_zk.recorder.web.sources import LogSource
from kafka_zk.recorder.zookeeper_files.snapshot import Znode
from kafka_zk.recorder.zookeeper_files.transaction_log import Restored, Transaction

MOST_EVENTS_AT_ONCE = 10_000


class Told:
    """Derives events from transactions, and keeps them until they are read. Implements ``Traces``."""

    def __init__(self) -> None:
        self.failovers = Failovers()
        self._phases = MigrationPhases()
        self._events: list[Event] = []

    def learn(self, transactions: list[Transaction]) -> None:
        """Take the transactions as the earlier state, without producing events."""
        self.hear(transactions)
        self._events = []

    def hear(self, transactions: list[Transaction]) -> None:
        for each in transactions:
            self._events += self.failovers.step(each)
            self._events += self._phases.step(each)

    def take(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def read(self) -> list[Traced]:
        return [Traced(each, None) for each in self.take()]


class ToldSource:
    """A transaction log as a ``Source``; ``told`` derives events from its transactions.

    Args:
        before: the znodes of a recording that continues.
    """

    interrupted = False

    def __init__(self, source: LogSource, before: Mapping[str, Znode] | None = None) -> None:
        self._source = source
        self.described = source.described
        self.behind = False
        self.told = Told()
        if before:
            self.told.learn([Transaction(0, 0, 0, (Restored(before),))])

    @property
    def misses(self) -> str:
        return self._source.misses

    def read(self) -> list[Transaction]:
        """Raises: OSError."""
        found = self._source.read()
        self.behind = self._source.behind
        self.told.learn(self._source.skipped)
        self.told.hear(found)
        return found

    def close(self) -> None:
        self._source.close()


class Batch(NamedTuple):
    """``events``: those of the transactions and of the brokers' logs."""

    events: list[Event]
    transactions: list[Transaction]


class _Logged:
    """The events of the brokers' logs, in parts."""

    def __init__(self, events: Iterator[Event]) -> None:
        self._events = events
        self._next = next(events, None)

    def until(self, time_ms: int | None) -> Iterator[list[Event]]:
        """Lists of events up to this time (None: all). Only the last one may be shorter than the others, or empty."""
        found: list[Event] = []
        while self._next is not None and (time_ms is None or self._next.time_ms <= time_ms):
            found.append(self._next)
            self._next = next(self._events, None)
            if len(found) == MOST_EVENTS_AT_ONCE:
                yield found
                found = []
        yield found


def batches(source: ToldSource | None, logs: BrokerLogs | None, *, is_over: bool) -> Iterator[Batch]:
    """Everything that is in the logs now, sorted by time, in parts of bounded size. ``is_over``: the cluster is not
    live, so failovers that are not done at the end are reported. Raises: OSError.
    """
    logged = _Logged(iter(()) if logs is None else logs.events())
    is_behind = source is not None
    while is_behind and source is not None:
        transactions = source.read()
        is_behind = source.behind
        if is_behind and not transactions:
            continue  # the recording that continues has these transactions already
        *full, last = logged.until(transactions[-1].time_ms if is_behind else None)
        yield from (Batch(each, []) for each in full)
        ends = source.told.failovers.end() if is_over and not is_behind else []
        yield Batch([*source.told.take(), *ends, *last], transactions)
    yield from (Batch(each, []) for each in logged.until(None) if each)


def record(recording: Recording, source: ToldSource | None, logs: BrokerLogs | None, *, is_over: bool) -> Iterator[int]:
    """Record everything; yields the number of recorded entries after each part. A recording that continues gets only
    events that are later than its last entry. ``is_over``: see ``batches``. Raises: OSError, sqlite3.Error.
    """
    _, last_ms = recording.entries.times() or (0, -1)
    for batch in batches(source, logs, is_over=is_over):
        recording.add([each for each in batch.events if each.time_ms > last_ms], batch.transactions)
        yield recording.entries.count
