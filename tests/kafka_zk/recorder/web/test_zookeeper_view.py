"""The page's view of ZooKeeper's health at a moment, from a recording that was made in rounds."""

from pathlib import Path

from kafka_zk.recorder.recording.holds import OF_ZOOKEEPER
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web.api import RecordingApi
from kafka_zk.recorder.zookeeper_health.answers import Reading
from kafka_zk.recorder.zookeeper_health.ensemble import EnsembleHealth, samples

UP = Reading("standalone", "", 3, 2, 7, 30, 5 << 32)
REFUSED = Reading("no answer", "connection refused")


def recorded(path: Path | None = None) -> Recording:
    """ZooKeeper is up at 1 s, down at 4 s, and back at 44 s."""
    recording, health = Recording(path), EnsembleHealth()
    for at_ms, reading in ((1_000, UP), (4_000, REFUSED), (5_000, REFUSED), (44_000, UP)):
        recording.add(health.step({"zk1:2181": reading}, at_ms), [])
        recording.samples.add(at_ms, samples({"zk1:2181": reading}))
    return recording


def at(recording: Recording, time_ms: int) -> object:
    return RecordingApi(recording).health({"time_ms": str(time_ms)})["zookeeper"]


def test_each_moment_has_its_state_since_when_and_why() -> None:
    recording = recorded()
    numbers = {"outstanding": 2, "connections": 7, "response_ms": 2, "epoch": 5}
    up = {"name": "zk1:2181", "state": "standalone", "why": "", **numbers}
    assert at(recording, 500) is None
    for time_ms, since_ms in ((1_000, 1_000), (3_999, 1_000), (44_000, 44_000), (99_000, 44_000)):
        whole = {"state": "serves", "why": "", "since_ms": since_ms}
        assert at(recording, time_ms) == {**whole, "servers": [{**up, "since_ms": since_ms}]}, time_ms
    why = "no answer: connection refused"
    down = {"name": "zk1:2181", "state": "down", "since_ms": 4_000, **dict.fromkeys(numbers)}
    assert at(recording, 43_999) == {
        "state": "down", "why": "no answer: zk1:2181: connection refused", "since_ms": 4_000,
        "servers": [{**down, "why": why}],
    }  # fmt: skip


def test_servers_that_hide_their_mode_and_answer_again_are_shown_as_such() -> None:
    """Without a session of its own, the page does not know whether ZooKeeper serves other clients."""
    recording, health = Recording(), EnsembleHealth()
    for at_ms, reading in ((1_000, Reading("answers")), (2_000, REFUSED), (42_000, Reading("answers"))):
        recording.add(health.step({"zk1:2181": reading}, at_ms), [])
    found = [at(recording, time_ms) for time_ms in (1_500, 2_500, 43_000)]
    assert [each["state"] for each in found if isinstance(each, dict)] == ["unknown", "down", "unknown"]
    last = RecordingApi(recording).entries({"from_ms": "0", "to_ms": "90000"})["entries"][-1]
    assert last["line"] == "answers again, after 40 s; it is not known whether it serves"


def test_the_outage_is_in_the_list_and_in_words() -> None:
    recording = recorded()
    told = RecordingApi(recording).episodes({"from_ms": "0", "to_ms": "90000"})["episodes"]
    assert [(each["subject"], each["from_ms"], each["to_ms"], each["seq"]) for each in told] == [
        ("ZooKeeper", 4_000, 44_000, 3)
    ]
    lines = RecordingApi(recording).entries({"from_ms": "0", "to_ms": "90000"})["entries"]
    assert [each["line"] for each in lines] == [
        "serves alone", "serves",
        "does not answer: connection refused",
        "does not answer (zk1:2181: connection refused); brokers keep their state, no election can happen",
        "serves alone again, after 40 s", "serves again, after 40 s",
    ]  # fmt: skip


def test_a_recorder_that_goes_on_later_knows_nothing_of_the_time_between() -> None:
    recording = recorded()
    recording.spans.end(OF_ZOOKEEPER, 50_000)
    assert at(recording, 60_000) is None
    recording.add(EnsembleHealth().step({"zk1:2181": UP}, 70_000), [])
    assert [each.from_ms for each in recording.spans.at(OF_ZOOKEEPER, 71_000, 9)] == [70_000, 70_000]
    assert [each.to_ms for each in recording.spans.at(OF_ZOOKEEPER, 49_000, 9)] == [50_000, 50_000]
