"""Records a cluster, or replays a recording, and serves the page until stopped."""

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from kafka_zk.base.clock import wall_ms
from kafka_zk.base.events import Event
from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.recording.holds import OF_ZOOKEEPER
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.timeline.cluster_events import OperatorActed
from kafka_zk.recorder.web.api import RecordingApi
from kafka_zk.recorder.web.asked_groups import AskedGroups
from kafka_zk.recorder.web.heartbeats import HEARD_OF, Heartbeats, SessionConnection
from kafka_zk.recorder.web.operations import Asked, Commands, Operations
from kafka_zk.recorder.web.outage_logs import Told
from kafka_zk.recorder.web.recorder import Recorder
from kafka_zk.recorder.web.sampled import to_ask
from kafka_zk.recorder.web.sampler import MOST_GROUPS, Sampler
from kafka_zk.recorder.web.server import LOOPBACK, NOTHING_ASKED, Break, WebServer
from kafka_zk.recorder.web.sources import Source, Traces
from kafka_zk.recorder.web.summary import summary
from kafka_zk.recorder.web.viewers import ShareAddress, ViewersServer
from kafka_zk.recorder.web.watch_table import Watches, WatchTable
from kafka_zk.recorder.web.zookeeper_view import NUMBERS
from kafka_zk.recorder.zookeeper_health.ensemble import EnsembleHealth, samples
from kafka_zk.recorder.zookeeper_health.poller import HealthPoller, Round
from kafka_zk.security.client_security import NO_SECURITY, ClientSecurity

_log = Logger()

WATCH_TABLE_INTERVAL_S = 3.0
HEARTBEATS_INTERVAL_S = 1.0
HEALTH_INTERVAL_S = 1.0
HEARTBEAT_S = 1.0
"""Interval at which the page receives the time if nothing happens."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A live cluster to record.

    ``broker_ids``: the brokers of a cluster started with ``kafka-zk up``, including dead ones. ``break_broker``: None
    if the page cannot break brokers. ``in_lesson``: the page starts at the first entry and follows the user.
    ``watch_table``: finds the watches of processes without traces. ``heartbeats``: finds silent sessions. ``health``:
    polls ZooKeeper's servers. ``security``: for polling brokers. ``operations``: the daily work that the page can do;
    None if it can only show the recording. ``is_over``: the source is the logs that an outage has left; no broker is
    polled, and the page is not live.
    """

    source: Source
    traces: Traces | None
    broker_ids: tuple[int, ...] = ()
    break_broker: Break | None = None
    in_lesson: bool = False
    watch_table: WatchTable | None = None
    heartbeats: Heartbeats | None = None
    health: HealthPoller | None = None
    security: ClientSecurity = NO_SECURITY
    operations: Operations | None = None
    is_over: bool = False

    @property
    def may_change(self) -> bool:
        return self.break_broker is not None or bool(self.operations and self.operations.acts)

    @property
    def shows_values(self) -> bool:
        return bool(self.operations and self.operations.private)


class WebService:
    """The page's service; ``start`` it before the reactor runs.

    ``url`` contains the read token in its fragment, which browsers do not send. ``break_url`` also contains the break
    token and is for the operator only; "" if the page cannot change anything. ``values_url`` has the token for records
    instead; "" if the page may not show them.

    A shared page has a ``presenter_url``, which permits acting and presenting on this machine, and a ``viewers_url``,
    which permits reading on any machine that reaches the address; both are "" for a page that is not shared.
    """

    def __init__(
        self, recording: Recording, cluster: Cluster | None, described: str, share: ShareAddress | None = None
    ) -> None:
        self._recording = recording
        self._cluster = cluster
        self._described = described
        self._reactor: Any = None
        self._recorder: Recorder | None = None
        self._sampler: Sampler | None = None
        self._loops: list[LoopingCall] = []
        self._health = EnsembleHealth()
        self._reading_token, self._break_token = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
        self._values_token = secrets.token_urlsafe(16)
        self._api = RecordingApi(recording)
        viewers = None
        if share is not None:
            token = secrets.token_urlsafe(16)
            viewers = ViewersServer(self._api, self._summary, share, token, self._tell_presenter)
        self._viewers = viewers
        self._server = WebServer(
            self._api, self.describe, self._commands(), self._reading_token, self._break_token,
            None if viewers is None else viewers.present, self._asked(),
        )  # fmt: skip
        self.url = self.break_url = self.values_url = self.presenter_url = self.viewers_url = ""

    def start(self, reactor: Any, port: int) -> None:
        """Viewers use the same port at their address; each chooses a free one if it is 0. Raises: twisted's
        CannotListenError.
        """
        self._reactor = reactor
        listening = self._server.listen(reactor, port)
        self.url = f"http://{LOOPBACK}:{listening}/#token={self._reading_token}"
        if self._viewers is not None:
            self.presenter_url = f"{self.url}&break={self._break_token}"
            self.viewers_url = self._viewers.listen(reactor, port)
        if self._cluster is not None and self._cluster.may_change:
            self.break_url = f"{self.url}&break={self._break_token}"
        if self._cluster is not None and self._cluster.shows_values:
            self.values_url = f"{self.url}&values={self._values_token}"
        if self._cluster is not None:
            self._recorder = Recorder(
                reactor, self._recording, self._cluster.source, self._cluster.traces, self._publish,
                compares_clocks=not self._cluster.is_over,
            )  # fmt: skip
            self._recorder.start()
            self._every(reactor, self._publish)
            if self._cluster.is_over:
                return
            tells = self._recorder.take if _tells_no_group(self._cluster.traces) else _ignore
            asked = AskedGroups(tells, MOST_GROUPS)
            taken = self._recording.samples
            security = self._cluster.security
            wanted = partial(to_ask, self._recording, security.protocol)
            self._sampler = Sampler(reactor, wanted, taken.add, asked, security, self._now_ms)
            self._sampler.start()
            if (table := self._cluster.watch_table) is not None:
                self._look(reactor, WATCH_TABLE_INTERVAL_S, table.look, lambda each: self._take_watches(each, table))
            self._end_earlier()
            if (beats := self._cluster.heartbeats) is not None:
                self._look(reactor, HEARTBEATS_INTERVAL_S, beats.look, lambda each: self._take_heartbeats(each, beats))
            if (health := self._cluster.health) is not None:
                self._look(reactor, HEALTH_INTERVAL_S, health.look, self._take_health)

    def _asked(self) -> Asked:
        operations = self._cluster.operations if self._cluster is not None else None
        if operations is None:
            return NOTHING_ASKED
        return Asked(operations.questions, operations.private, self._values_token)

    def _commands(self) -> Break | None:
        cluster = self._cluster
        if cluster is None or not cluster.may_change:
            return None
        acts = cluster.operations.acts if cluster.operations is not None else {}
        return Commands(cluster.break_broker, acts, self._record_act).run

    def _record_act(self, event: OperatorActed) -> None:
        """Called on the act's thread."""

        def take() -> None:
            if self._recorder is not None:
                self._recorder.take([replace(event, time_ms=self._now_ms())])

        self._reactor.callFromThread(take)

    def _end_earlier(self) -> None:
        """End the samples and spans that an earlier recorder left open; those that still hold are reported again."""
        for series in (HEARD_OF, NUMBERS):
            self._recording.samples.end(series, self._now_ms())
        if (times := self._recording.entries.times()) is not None:
            self._recording.spans.end(OF_ZOOKEEPER, times[1])

    def record_now(self) -> int:
        """Record everything reported so far; returns the last entry's number."""
        if self._recorder is not None:
            self._recorder.poll()
        return self._recording.entries.count

    def stop(self) -> None:
        if self._recorder is not None:
            self._recorder.stop()
        if self._sampler is not None:
            self._sampler.stop()
        for loop in self._loops:
            if loop.running:
                loop.stop()
        if self._viewers is not None:
            self._viewers.stop()
        self._recording.close()

    def describe(self) -> Document:
        """The summary for the page on this machine."""
        if self._viewers is None:
            return self._summary()
        return {**self._summary(), "shared": "presenter", "viewers": self._viewers.count}

    def _tell_presenter(self) -> None:
        self._server.publish()

    def _publish(self) -> None:
        self._tell_presenter()
        if self._viewers is not None:
            self._viewers.publish()

    def _summary(self) -> Document:
        told = {**summary(self._recording, self._described), "now_ms": self._now_ms()}
        cluster = self._cluster
        if cluster is None:
            return told
        problem = self._recorder.problem if self._recorder is not None else ""
        if self._recorder is not None and self._recorder.lost_count:
            problem = f"{problem or 'the recording has a gap'} ({self._recorder.lost_count} entries are lost)"
        return {
            **told,
            "live": not cluster.in_lesson and not cluster.is_over,
            "kept": self._recording.kept,
            "misses": "; ".join(filter(None, self._misses(cluster))),
            "known_brokers": list(cluster.broker_ids),
            "can_break": cluster.break_broker is not None,
            "can_ask": cluster.operations is not None,
            "can_act": cluster.operations is not None and bool(cluster.operations.acts),
            "shows_values": cluster.shows_values,
            "problem": problem,
        }

    def _now_ms(self) -> int:
        """The present by the cluster's clock, which may differ from this machine's."""
        return wall_ms() + (self._recorder.skew_ms if self._recorder is not None else 0)

    def _misses(self, cluster: Cluster) -> Iterator[str]:
        yield cluster.source.misses
        if self._recorder is not None and (skew_ms := self._recorder.skew_ms):
            side = "ahead of" if skew_ms > 0 else "behind"
            apart_s = abs(skew_ms) / 1000
            yield f"the cluster's clock is {apart_s:.0f} s {side} this machine's; times are the cluster's"
        if cluster.watch_table is not None:
            yield cluster.watch_table.misses
        yield self._recording.misses

    def _look(self, reactor: Any, interval_s: float, look: Callable[[], Any], take: Callable[[Any], object]) -> None:
        """Run ``look`` repeatedly on a thread, because it waits for ZooKeeper, and pass the result to ``take``."""

        def found(what: Any) -> None:
            if loop.running:  # otherwise the recording is closed
                take(what)

        def again() -> "Deferred[None]":
            looked: Deferred[None] = deferToThread(look).addCallback(found)
            return looked.addErrback(lambda failure: _log.failure("a query to ZooKeeper failed", failure=failure))

        loop = LoopingCall(again)
        loop.clock = reactor
        self._loops.append(loop)
        loop.start(interval_s)

    def _take_watches(self, watches: Watches | None, table: WatchTable) -> None:
        if watches is not None and self._recorder is not None:
            self._recorder.take(table.tell(watches, self._recording.sessions.actor_of))

    def _take_heartbeats(self, connections: list[SessionConnection] | None, beats: Heartbeats) -> None:
        now_ms = self._now_ms()
        self._recording.samples.add(now_ms, beats.tell(connections, now_ms), for_good=True)

    def _take_health(self, found: Round | None) -> None:
        if found is not None and self._recorder is not None:
            asked_ms = found.asked_ms + self._now_ms() - wall_ms()  # converted to the cluster's clock
            self._recorder.take(self._health.step(found.readings, asked_ms, found.session))
            self._recording.samples.add(asked_ms, samples(found.readings))

    def _every(self, reactor: Any, function: Callable[[], None]) -> None:
        function()
        reactor.callLater(HEARTBEAT_S, self._every, reactor, function)


def _ignore(events: list[Event]) -> None:
    """The traces have the assignments; only the names of groups are needed."""


def _tells_no_group(traces: Traces | None) -> bool:
    return traces is None or isinstance(traces, Told)
