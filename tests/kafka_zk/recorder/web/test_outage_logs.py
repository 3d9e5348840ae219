"""The logs of an outage become a recording."""

from datetime import UTC
from pathlib import Path

import pytest

from kafka_zk.recorder.broker_logs.log_files import BrokerLogs
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web import outage_logs, sources
from kafka_zk.recorder.web.narration import line
from kafka_zk.recorder.web.outage_logs import ToldSource, batches, record
from kafka_zk.recorder.web.sources import LogSource
from tests.kafka_zk.recorder.outages import DATA


def _source(recording: Recording | None = None, folder: Path = DATA / "broker-killed" / "zookeeper") -> ToldSource:
    after_zxid = 0 if recording is None else recording.entries.last_zxid()
    before = {} if recording is None else recording.znodes.after(recording.entries.count).znodes
    return ToldSource(LogSource(folder, "/kafka", after_zxid), before)


def _logs() -> BrokerLogs:
    return BrokerLogs(DATA / "broker-killed", UTC)


def _lines(recording: Recording) -> list[str]:
    return [line(each) for each in recording.entries.numbered(1, 10_000, 10_000)]


def test_a_recording_has_the_story_its_causes_and_the_znodes_at_each_moment() -> None:
    recording = Recording()
    assert sum(1 for _ in record(recording, _source(), _logs(), is_over=True)) == 1
    lines = _lines(recording)
    end = lines.index("the session of broker-1 ended: it expired") + 1
    assert "/brokers/ids/1" in recording.znodes.after(end - 1).znodes
    assert not {"/brokers/ids/1", "/controller"} & set(recording.znodes.after(recording.entries.whole(end)).znodes)
    moved = lines.index("broker 2 is the controller instead of 1, epoch 2, 15 ms after /controller was gone") + 1
    entry = recording.entries.entry(moved)
    assert entry is not None and entry.cause is not None and entry.certain
    caused_by = recording.entries.entry(entry.cause)
    assert caused_by is not None and caused_by.path == "/controller_epoch"
    assert "is elected controller, epoch 2" in lines
    times = [each.time_ms for each in recording.entries.numbered(1, 10_000, 10_000)]
    assert times == sorted(times)


@pytest.mark.parametrize("at_once", [1, 7])
def test_small_parts_make_the_same_recording(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [each for batch in batches(_source(), _logs(), is_over=True) for each in batch.events]
    monkeypatch.setattr(sources, "MOST_AT_ONCE", at_once)
    monkeypatch.setattr(outage_logs, "MOST_EVENTS_AT_ONCE", at_once)
    parts = [each for batch in batches(_source(), _logs(), is_over=True) for each in batch.events]
    assert sorted(map(str, parts)) == sorted(map(str, whole))
    assert all(len(batch.transactions) <= at_once for batch in batches(_source(), _logs(), is_over=True))


def test_a_recording_that_continues_repeats_nothing(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "outage.sqlite")
    for _ in record(recording, _source(recording), _logs(), is_over=True):
        pass
    count = recording.entries.count
    for _ in record(recording, _source(recording), _logs(), is_over=True):
        pass
    assert recording.entries.count == count


def test_brokers_logs_alone_are_a_recording_too() -> None:
    recording = Recording()
    assert list(record(recording, None, _logs(), is_over=True)) == [recording.entries.count]
    assert "group readers is stable at generation 3 with 1 members" in _lines(recording)


def test_a_paused_controller_learns_late_that_it_was_replaced() -> None:
    """The lines show the order of the outage: expired, replaced, and only then the old controller's own report."""
    source = ToldSource(LogSource(DATA / "controller-paused" / "zookeeper", "/kafka"))
    recording = Recording()
    for _ in record(recording, source, BrokerLogs(DATA / "controller-paused", UTC), is_over=True):
        pass
    lines = _lines(recording)
    expected = (
        "the session of broker-1 ended: it expired",
        "broker 2 is the controller instead of 1, epoch 2, 108 ms after /controller was gone",
        "has heard nothing from ZooKeeper for 7439 ms",
        "its ZooKeeper session expired",
        "is not the controller any more",
        "broker 1 is registered again, after 5024 ms",
    )
    places = [lines.index(each) for each in expected]
    assert places == sorted(places)
    assert not any("was not shut down cleanly" in each for each in lines), "the broker seems to be a new process"


NOT_DONE = (
    "FAILOVER not done: 0 partitions of broker 1 got another leader within 0 ms of the end of its session, 2 did not"
)


def _cut_log(folder: Path, *, begins: int = 0, until_expired: bool = False) -> Path:
    """The log of broker-killed as the only file in a folder.

    ``begins``: the number of transactions kept before the end of broker 1's session; 0 keeps all. ``until_expired``:
    drop the transactions after this end.
    """
    source = DATA / "broker-killed" / "zookeeper"
    content = (source / "version-2" / "log.1").read_bytes()
    places = [16]  # of each transaction
    while size := int.from_bytes(content[places[-1] + 8 : places[-1] + 12], "big"):
        places.append(places[-1] + 12 + size + 1)
    transactions = LogSource(source).read()
    expired = next(index for index, each in enumerate(transactions) if "expired=True" in str(each))
    first = expired - begins if begins else 0
    for old in folder.glob("log.*"):
        old.unlink()
    folder.mkdir(exist_ok=True)
    end = places[expired + 1] if until_expired else len(content)
    (folder / f"log.{transactions[first].zxid:x}").write_bytes(content[:16] + content[places[first] : end])
    return folder


@pytest.mark.parametrize("purged", [False, True])
def test_a_recording_that_continues_knows_what_was_before(tmp_path: Path, purged: bool) -> None:
    """The recording knows the leaders and the ended session, even if ZooKeeper has purged the recorded part of the
    log.
    """
    folder, whole, recording = tmp_path / "version-2", Recording(), Recording(tmp_path / "outage.sqlite")
    list(record(whole, _source(whole, _cut_log(folder)), None, is_over=False))
    list(record(recording, _source(recording, _cut_log(folder, until_expired=True)), None, is_over=False))
    assert _lines(recording)[-1] != _lines(whole)[-1]
    list(record(recording, _source(recording, _cut_log(folder, begins=5 if purged else 0)), None, is_over=False))
    previous = " instead of 1" if purged else ""  # /controller was gone when the recording ended
    assert _lines(recording) == [each.replace(previous, "") for each in _lines(whole)]


def test_a_failover_that_is_not_done_at_the_end_is_told_once(tmp_path: Path) -> None:
    """The failover is reported only if the cluster no longer exists: in a live cluster, it may continue."""
    folder = _cut_log(tmp_path / "version-2", until_expired=True)
    live = Recording()
    list(record(live, _source(live, folder), None, is_over=False))
    assert NOT_DONE not in _lines(live)
    recording = Recording(tmp_path / "outage.sqlite")
    for _ in range(2):
        list(record(recording, _source(recording, folder), None, is_over=True))
    assert _lines(recording).count(NOT_DONE) == 1
