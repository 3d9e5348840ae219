"""The recorder continues after every failure, and reports it."""

from typing import Any

import pytest
from twisted.internet.task import Clock

from kafka_zk.base.events import Event
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.timeline.trace_file import Traced
from kafka_zk.recorder.web import recorder as module
from kafka_zk.recorder.web.recorder import INTERVAL_S, RETRY_POLLS, Recorder
from kafka_zk.recorder.web.sources import TraceSource
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, Transaction
from kafka_zk.recorder.zookeeper_health.events import ServerStateChanged
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.errors import ConnectionTimeout
from kafka_zk.registry.client.events import WatchFired


class Source:
    described, misses = "", ""
    behind = interrupted = False

    def __init__(self) -> None:
        self.next: list[Any] = []

    def read(self) -> list[Transaction]:
        found, self.next = self.next, []
        for each in found:
            if isinstance(each, Exception):
                raise each
        return found

    def close(self) -> None: ...


class Traces(TraceSource):
    def __init__(self, events: list[Event]) -> None:
        self.next = events

    def read(self) -> list[Traced]:
        found, self.next = self.next, []
        return [Traced(each, None) for each in found]


def changed(zxid: int) -> Transaction:
    return Transaction(zxid, zxid, 7, (Created(f"/z{zxid}", None, ephemeral=False),))


def test_zookeepers_outage_is_recorded_while_nothing_can_be_read_from_it() -> None:
    """Other events wait for the changes that they follow."""
    clock, source, recording = Clock(), Source(), Recording()
    recorder = Recorder(clock, recording, source, None)
    recorder.start()
    source.next = [ConnectionTimeout("ZooKeeper does not answer")]
    recorder.take([
        ServerStateChanged(5, "ZooKeeper zk1:2181", "connection refused", 0, "no answer", "leader", 4),
        WatchFired(5, "broker-0", "changed", 0, "/a", EventType.CHANGED),
    ])  # fmt: skip
    clock.advance(INTERVAL_S)
    assert [each.kind for each in recording.entries.numbered(1, 9, 9)] == ["ServerStateChanged"]
    clock.pump([INTERVAL_S] * (RETRY_POLLS + 1))
    assert [each.kind for each in recording.entries.numbered(1, 9, 9)] == ["ServerStateChanged", "WatchFired"]


def test_the_clock_of_the_cluster_is_compared_with_what_it_has_just_written() -> None:
    """The clock is compared neither with the first read, nor with the first one after a failure, nor at all after an
    outage.
    """
    for compares in (True, False):
        source = Source()
        recorder = Recorder(Clock(), Recording(), source, None, now_ms=lambda: 10_000_000, compares_clocks=compares)
        told = []
        for zxid in range(1, 5):
            if zxid == 2:
                source.next = [OSError("no such folder")]
                for _ in range(RETRY_POLLS + 1):
                    recorder.poll()
            source.next = [Transaction(zxid, 10_060_000, 7, (Created(f"/z{zxid}", None, ephemeral=False),))]
            recorder.poll()
            told.append(recorder.skew_ms)
        assert told == ([0, 0, 60_000, 60_000] if compares else [0] * 4)


def test_it_goes_on_after_what_nobody_foresaw() -> None:
    """The recorder retries an unreadable folder; entries that cannot be stored at all are counted as lost, and do not
    stop it.
    """
    clock, source, recording = Clock(), Source(), Recording()
    recorder = Recorder(clock, recording, source, None)
    recorder.start()
    for trouble in (OSError("no such folder"), ValueError("nonsense")):
        source.next = [trouble]
        clock.advance(INTERVAL_S)
        assert str(trouble) in recorder.problem
        source.next = [changed(recording.entries.count + 1)]
        clock.pump([INTERVAL_S] * (RETRY_POLLS + 1))
        assert recorder.problem == ""
    source.next = [changed(1 << 70)]
    clock.advance(INTERVAL_S)
    assert (recorder.lost_count, bool(recorder.problem)) == (1, True)
    source.next = [changed(9)]
    clock.pump([INTERVAL_S] * (RETRY_POLLS + 1))
    assert sorted(recording.znodes.after(recording.entries.count).znodes) == ["/z1", "/z2", "/z9"]
    recorder.stop()


def test_traces_wait_for_their_part_of_a_long_log() -> None:
    """The log is read in pieces: a watch never comes before the change that fired it."""
    clock, source, recording = Clock(), Source(), Recording()
    fired: list[Event] = [WatchFired(zxid, "broker-0", "", 0, f"/z{zxid}", EventType.CREATED) for zxid in (1, 2, 3)]
    recorder = Recorder(clock, recording, source, Traces(fired))
    source.next, source.behind = [changed(1), changed(2)], True
    recorder.start()
    source.next, source.behind = [changed(3)], False
    clock.advance(INTERVAL_S)
    told = recording.entries.numbered(1, 9, 9)
    assert [(each.kind, each.cause) for each in told] == [
        ("created", None), ("WatchFired", 1), ("created", None), ("WatchFired", 3), ("created", None), ("WatchFired", 5)
    ]  # fmt: skip
    recorder.stop()


def test_a_trace_that_cannot_be_recorded_takes_no_change_with_it() -> None:
    clock, source, recording = Clock(), Source(), Recording()
    traces = Traces([WatchFired(1 << 70, "broker-0", "", 0, "/z", EventType.CREATED)])
    recorder = Recorder(clock, recording, source, traces)
    source.next = [changed(1), changed(2)]
    recorder.start()
    clock.pump([INTERVAL_S] * (RETRY_POLLS + 2))
    assert sorted(recording.znodes.after(recording.entries.count).znodes) == ["/z1", "/z2"]
    assert (recorder.lost_count, recorder.problem) == (1, "")
    recorder.stop()


def test_traces_do_not_pile_up_while_the_log_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 10)
    clock, source, recording = Clock(), Source(), Recording()
    traces = Traces([])
    recorder = Recorder(clock, recording, source, traces)
    recorder.start()
    for number in range(30):
        traces.next = [WatchFired(number, "broker-0", "", 0, "/z", EventType.CREATED)]
        source.next = [OSError("no such folder")]
        clock.pump([INTERVAL_S] * (RETRY_POLLS + 1))
    clock.pump([INTERVAL_S] * (RETRY_POLLS + 1))
    assert recording.entries.count == 10
    assert recorder.lost_count == 20
    recorder.stop()


def test_what_others_found_out_does_not_pile_up_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 10)
    clock, source, recording = Clock(), Source(), Recording()
    recorder = Recorder(clock, recording, source, None)
    for number in range(30):
        recorder.take([WatchFired(number, "broker-0", "", 0, "/z", EventType.CREATED)])
    recorder.start()
    assert (recording.entries.count, recorder.lost_count) == (10, 20)
    recorder.stop()
