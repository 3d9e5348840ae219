"""Events of other sources wait with the recorder's entries until there is space for them."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.testing import MemoryReactorClock

from kafka_zk.base.clock import wall_ms
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web import service as module
from kafka_zk.recorder.web.heartbeats import Heartbeats, SessionConnection
from kafka_zk.recorder.web.operations import Act, Done, Operations
from kafka_zk.recorder.web.recorder import INTERVAL_S, RETRY_POLLS
from kafka_zk.recorder.web.service import (
    HEALTH_INTERVAL_S,
    HEARTBEATS_INTERVAL_S,
    WATCH_TABLE_INTERVAL_S,
    Cluster,
    WebService,
)
from kafka_zk.recorder.web.viewers import ShareAddress
from kafka_zk.recorder.web.watch_table import Watches, WatchTable
from kafka_zk.recorder.zookeeper_health.answers import Reading
from kafka_zk.recorder.zookeeper_health.events import ServerStateChanged
from kafka_zk.recorder.zookeeper_health.poller import HealthPoller, Round
from tests.kafka_zk.recorder.web.test_recorder import Source


class Table(WatchTable):
    next: Watches = frozenset()

    def look(self) -> Watches:
        return self.next


class Hearts(Heartbeats):
    """One session in the first reads, and no response afterwards."""

    received = 0

    def look(self) -> list[SessionConnection] | None:
        self.received += 1
        return [SessionConnection(7, self.received, 6_000)] if self.received < 4 else None


def test_series_of_sessions_that_are_over_are_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "deferToThread", maybeDeferred)
    reactor, recording = MemoryReactorClock(), Recording()
    service = WebService(recording, Cluster(Source(), None, heartbeats=Hearts("h1")), "")
    monkeypatch.setattr(service._server, "listen", lambda reactor, port: port)
    service.start(reactor, 0)
    reactor.pump([HEARTBEATS_INTERVAL_S] * 5)
    assert recording.samples.names("heard", 9) == ["heard 0x7"]
    assert recording.samples._last == {}
    service.stop()


class Rounds(HealthPoller):
    """The server serves in the first round, but not in the second. An earlier recorder had already seen it serve."""

    readings: Iterator[Reading] = iter((Reading("standalone"), Reading("no answer", "connection refused")))

    def __init__(self) -> None:
        super().__init__("zk1")

    def look(self) -> Round | None:
        reading = next(self.readings, None)
        return None if reading is None else Round({"zk1:2181": reading}, wall_ms(), None)


def test_zookeepers_health_is_recorded_and_what_an_earlier_recorder_saw_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "deferToThread", maybeDeferred)
    reactor, recording = MemoryReactorClock(), Recording()
    recording.add([ServerStateChanged(1_000, "ZooKeeper gone:2181", "polled", 0, "leader", "", 0)], [])
    service = WebService(recording, Cluster(Source(), None, health=Rounds()), "")
    monkeypatch.setattr(service._server, "listen", lambda reactor, port: port)
    service.start(reactor, 0)
    reactor.pump([HEALTH_INTERVAL_S] * 5)
    spans = recording.spans.single(0, wall_ms(), 9)
    assert [(each.lane, each.holder, each.to_ms is None) for each in spans] == [
        ("ZooKeeper", "serves", False), ("ZooKeeper", "", True), ("ZooKeeper gone:2181", "leader", False),
        ("ZooKeeper zk1:2181", "standalone", False), ("ZooKeeper zk1:2181", "", True),
    ]  # fmt: skip
    assert recording.samples.names("zookeeper", 9) == ["zookeeper response_ms zk1:2181"]
    service.stop()


def test_what_is_found_after_the_end_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread's request to ZooKeeper is not interrupted, so its result arrives after the recording was closed."""
    asked: list[Deferred[object]] = []

    def ask_later(look: object) -> Deferred[object]:
        asked.append(Deferred())
        return asked[-1]

    monkeypatch.setattr(module, "deferToThread", ask_later)
    reactor, recording = MemoryReactorClock(), Recording(tmp_path / "r")
    service = WebService(recording, Cluster(Source(), None, heartbeats=Hearts("h1")), "")
    monkeypatch.setattr(service._server, "listen", lambda reactor, port: port)
    service.start(reactor, 0)
    taken: list[object] = []
    monkeypatch.setattr(service, "_take_heartbeats", lambda *found: taken.append(found))
    service.stop()
    asked[0].callback([SessionConnection(7, 1, 6_000)])
    assert not taken


def test_a_full_disk_loses_no_watch_that_was_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Watches are reported only when they change, so that a lost report would stay lost."""
    monkeypatch.setattr(module, "deferToThread", maybeDeferred)
    reactor, recording, table = MemoryReactorClock(), Recording(tmp_path / "r"), Table("h1", lambda: None)
    service = WebService(recording, Cluster(Source(), None, watch_table=table), "")
    monkeypatch.setattr(service._server, "listen", lambda reactor, port: port)
    watched = {f"/{number}" for number in range(2_000)}
    table.next = frozenset((7, path) for path in watched)
    (pages,) = recording.database.execute("pragma page_count").fetchone()
    recording.database.execute(f"pragma max_page_count = {pages}")
    service.start(reactor, 0)
    reactor.advance(INTERVAL_S)
    assert "full" in service.describe()["problem"]
    assert recording.entries.count == 0
    recording.database.execute("pragma max_page_count = 1000000")
    reactor.pump([INTERVAL_S] * (RETRY_POLLS + 1))
    assert recording.entries.watchers(recording.entries.count) == {path: ["session 0x7"] for path in watched}
    table.next = frozenset()
    reactor.pump([WATCH_TABLE_INTERVAL_S, INTERVAL_S])
    assert recording.entries.watchers(recording.entries.count) == {}
    assert service.describe()["problem"] == ""
    service.stop()


def test_after_an_outage_no_broker_is_asked_and_the_page_is_not_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """The addresses in an old log may belong to other servers now."""
    reactor, recording = MemoryReactorClock(), Recording()
    service = WebService(recording, Cluster(Source(), None, is_over=True), "")
    monkeypatch.setattr(service._server, "listen", lambda reactor, port: port)
    service.start(reactor, 0)
    reactor.pump([HEARTBEATS_INTERVAL_S] * 3)
    assert service._sampler is None and not service.describe()["live"]
    service.stop()


def _tokens(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).fragment))


def test_a_page_listens_on_this_machine_only_unless_it_is_shared() -> None:
    reactor = MemoryReactorClock()
    service = WebService(Recording(), None, "")
    service.start(reactor, 8088)
    assert [(port, interface) for port, _, _, interface in reactor.tcpServers] == [(8088, "127.0.0.1")]
    assert (service.presenter_url, service.viewers_url) == ("", "") and "shared" not in service.describe()
    service.stop()


def test_the_links_of_a_shared_page_have_different_tokens() -> None:
    reactor = MemoryReactorClock()
    service = WebService(Recording(), None, "", ShareAddress("teacher.example", "192.0.2.7"))
    service.start(reactor, 8088)
    listening = [(port, interface) for port, _, _, interface in reactor.tcpServers]
    assert listening == [(8088, "127.0.0.1"), (8088, "192.0.2.7")]
    presenter, viewers = _tokens(service.presenter_url), _tokens(service.viewers_url)
    assert sorted(presenter) == ["break", "token"] and list(viewers) == ["token"]
    assert len({*presenter.values(), *viewers.values()}) == 3
    assert (service.break_url, service.describe()["viewers"]) == ("", 0)
    service.stop()


ACTS: dict[str, Act] = {
    "reset-offsets": lambda request: Done({}, "reset-offsets", "group g", "User:anna", "it starts again")
}


@pytest.mark.parametrize("operations", [Operations({}, ACTS), Operations({}, {}), None], ids=["acts", "reads", "shows"])
def test_an_act_on_the_page_is_recorded_and_without_acts_there_is_no_address_for_them(
    operations: Operations | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    reactor, recording = MemoryReactorClock(), Recording()
    service = WebService(recording, Cluster(Source(), None, operations=operations), "")
    monkeypatch.setattr(service._server, "listen", lambda reactor, port: port)
    monkeypatch.setattr(reactor, "callFromThread", lambda work: work(), raising=False)
    service.start(reactor, 0)
    may_act = operations is not None and bool(operations.acts)
    assert ("&break=" in service.break_url) == may_act == service.describe()["can_act"]
    assert service.describe()["can_ask"] == (operations is not None)
    assert service.values_url == "" and not service.describe()["shows_values"]
    commands = service._commands()
    assert (commands is not None) == may_act
    if commands is not None:
        commands({"action": "reset-offsets"})
        service.record_now()
        [entry] = recording.entries.operator_acts(0, wall_ms() + 1_000, 9)
        assert (entry.actor, entry.document["target"]) == ("operator", "group g")
        assert entry.document["cause"] == "requested on the page, as User:anna"
    service.stop()
