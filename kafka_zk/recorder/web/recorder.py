"""Keeps a recording up to date with a live cluster."""

import sqlite3
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from kafka_zk.base.clock import wall_ms
from kafka_zk.base.events import Event
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.timeline.trace_file import Traced
from kafka_zk.recorder.web.clock_skew import ClockSkew
from kafka_zk.recorder.web.sources import Source, Traces
from kafka_zk.recorder.zookeeper_files.transaction_log import Transaction
from kafka_zk.recorder.zookeeper_health.events import ZooKeeperEvent
from kafka_zk.registry.client.errors import RegistryError

INTERVAL_S = 0.1
RETRY_POLLS = 10
"""Polls skipped after a failure."""
MOST_KEPT = 100_000
"""Maximum number of entries that wait for disk space; later ones are counted and dropped."""

_log = Logger()


class Recorder:
    """Failures are reported in ``problem`` and retried. The cluster never waits for the recorder.

    Args:
        on_news: called after each poll that found entries.
        compares_clocks: False if the source is the logs that an outage has left.
    """

    def __init__(
        self,
        reactor: Any,
        recording: Recording,
        source: Source,
        traces: Traces | None,
        on_news: Callable[[], None] = lambda: None,
        now_ms: Callable[[], int] = wall_ms,
        *,
        compares_clocks: bool = True,
    ) -> None:
        self._now_ms = now_ms
        self._clocks = ClockSkew() if compares_clocks else None
        self._recording = recording
        self._source = source
        self._traces = traces
        self._on_news = on_news
        self._loop = LoopingCall(self.poll)
        self._loop.clock = reactor
        self._waiting: list[Traced] = []
        self._events: list[Traced] = []
        self._transactions: list[Transaction] = []
        self._passed_over = 0
        self.lost_count = 0
        """Number of dropped entries: the disk was full for too long, or they could not be recorded."""
        self.problem = ""
        """Why recording is interrupted."""

    @property
    def skew_ms(self) -> int:
        """How far the cluster's clock is ahead of this machine's; 0 if the clocks agree or this is unknown."""
        return 0 if self._clocks is None else self._clocks.skew_ms

    def start(self) -> "Deferred[Any]":
        done: Deferred[Any] = self._loop.start(INTERVAL_S)
        return done

    def stop(self) -> None:
        if self._loop.running:
            self._loop.stop()
        self._source.close()

    def take(self, events: list[Event]) -> None:
        """Keep events of another source for the next poll."""
        self._take([Traced(each, None) for each in events])

    def _take(self, events: list[Traced]) -> None:
        if self._waiting and len(self._waiting) + len(events) > MOST_KEPT:
            self.lost_count += len(events)
        else:
            self._waiting += events

    def poll(self) -> None:
        """Record what is new. Traces are read before the log: a process reports a change after making it, so the log
        then contains the change. While the log lags, traces wait until it reaches their time.
        """
        if self._passed_over:
            self._passed_over -= 1
            return
        try:
            self._hear()
            transactions = self._read()
            self._compare_clocks(transactions)
            self._keep(self._due(transactions), transactions)
            if not (self._events or self._transactions):
                return
            self._recording.add(self._events, self._transactions)
        except (OSError, sqlite3.Error, RegistryError) as error:
            self._fails(str(error))
            return
        except Exception as error:  # an entry that cannot be recorded now can never be recorded
            self._lose(error)
            return
        self._events, self._transactions = [], []
        self.problem = ""
        self._on_news()

    def _read(self) -> list[Transaction]:
        """ZooKeeper's own health is recorded even if nothing can be read from ZooKeeper, because it shows why."""
        try:
            return self._source.read()
        except (OSError, RegistryError):
            healths = [each for each in self._waiting if isinstance(each.event, ZooKeeperEvent)]
            self._recording.add(healths, [])
            self._waiting = [each for each in self._waiting if not isinstance(each.event, ZooKeeperEvent)]
            raise

    def _compare_clocks(self, transactions: list[Transaction]) -> None:
        if self._clocks is not None:
            is_current = not (self._source.behind or self._source.interrupted)
            self._clocks.step(transactions, self._now_ms(), is_current=is_current)

    def _lose(self, error: Exception) -> None:
        """Drop the traces and try the changes again; drop the changes if that fails, too."""
        _log.failure("entries could not be recorded and are lost")
        if self._events:
            self.lost_count += len(self._events)
            self._events = []
        else:
            self.lost_count += len(self._transactions)
            self._transactions = []
        self._fails(f"{type(error).__name__}: {error}")

    def _hear(self) -> None:
        if self._traces is not None:
            self._take(self._traces.read())

    def _due(self, transactions: list[Transaction]) -> list[Traced]:
        found = self._waiting
        self._waiting = []
        if self._source.behind:
            until_ms = transactions[-1].time_ms if transactions else 0
            self._waiting = [each for each in found if each.event.time_ms > until_ms]
            found = [each for each in found if each.event.time_ms <= until_ms]
        return found

    def _keep(self, events: list[Traced], transactions: list[Transaction]) -> None:
        room = MOST_KEPT - len(self._events) - len(self._transactions)
        if len(events) + len(transactions) > room and (self._events or self._transactions):
            self.lost_count += len(events) + len(transactions)
            return
        self._events += events
        self._transactions += transactions

    def _fails(self, problem: str) -> None:
        self._passed_over = RETRY_POLLS
        if self._clocks is not None:
            self._clocks.missed()
        if problem != self.problem:
            _log.warn("recording is interrupted: {problem}", problem=problem)
            self.problem = problem
            self._on_news()
