"""The slow motion of an episode begins with its cause, and contains each process's part."""

import pytest

from kafka_zk.broker.controller.events import BrokersChanged, RequestSent
from kafka_zk.rebalance.events import DeliveryStopped, MemberLeft, RebalanceStarted
from kafka_zk.recorder.recording.entries import Entry
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web import plays as module
from kafka_zk.recorder.web.api import RecordingApi
from kafka_zk.recorder.web.plays import episode_play
from kafka_zk.recorder.web.slow_motion import MOST_LANES
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, Deleted, Operation, SessionClosed, Transaction
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import Reread, WatchFired

BROKER, ANNA, BEN = 1, 2, 3
"""Sessions."""
IDS = "/brokers/ids"
OWNERS = "/consumers/g/owners/t"


def test_a_rebalance_begins_with_the_watches_and_decisions_of_all_members() -> None:
    """The episode's line begins with the first released partition, but the members learned of the change before."""
    recording = Recording()

    def written(time_ms: int, session: int, *operations: Operation) -> None:
        recording.add([], [Transaction(recording.entries.last_zxid() + 1, time_ms, session, operations)])

    written(1_000, BROKER, Created(f"{IDS}/1", b"{}", ephemeral=True))
    for number, (member, session) in enumerate((("g_anna", ANNA), ("g_ben", BEN))):
        written(1_000, session, Created(f"/consumers/g/ids/{member}", b"{}", ephemeral=True))
        written(1_000, session, Created(f"{OWNERS}/{number}", f"{member}-0".encode(), ephemeral=True))
    written(9_000, BROKER, SessionClosed(None))
    for member, time_ms in (("g_ben", 9_001), ("g_anna", 9_002)):
        fired = WatchFired(time_ms, member, "child", 0, IDS, EventType.CHILD)
        reads = Reread(time_ms + 1, member, "child", 0, IDS, True)
        starts = RebalanceStarted(time_ms + 2, member, "brokers changed", 0, "range", 0)
        recording.add([fired, reads, starts, DeliveryStopped(time_ms + 3, member, "rebalance", 0, ())], [])
    written(9_010, ANNA, Deleted(f"{OWNERS}/0"))
    written(9_011, BEN, Deleted(f"{OWNERS}/1"))
    api = RecordingApi(recording)
    [*_, episode] = api.episodes({"from_ms": "0", "to_ms": "99000"})["episodes"]
    assert (episode["subject"], episode["from_ms"]) == ("group g", 9_010)
    steps = api.play({name: str(value) for name, value in episode.items()})["steps"]
    told = [(each["label"], each["znode"]) for each in steps]
    assert told[:2] == [("closes its session", ""), ("deletes", f"{IDS}/1")]
    assert told[-2:] == [("deletes", f"{OWNERS}/0"), ("deletes", f"{OWNERS}/1")]
    parts = [("watch fires", IDS), ("reads", IDS), ("rebalance started", ""), ("delivery stopped", "")]
    assert sorted(told[2:-2]) == sorted(2 * parts)


def test_the_first_processes_are_those_that_begin_first() -> None:
    """The controller acts first and last, among more brokers than there are lanes."""
    recording = Recording()
    recording.add([BrokersChanged(1_000, "controller-0", "", 0, (), (9,), (), ())], [])
    sent = [RequestSent(1_001 + each, f"controller-{each}", "", 0, each, "X") for each in range(1, 2 * MOST_LANES)]
    recording.add(sent, [])
    recording.add([RequestSent(1_500, "controller-0", "", 0, 1, "X")], [])
    asked = []

    def causes(entry: Entry) -> list[Entry]:
        asked.append(entry.actor)
        return []

    episode_play(recording, "cluster", 1_000, 1_600, causes)
    assert asked[1:] == [f"controller-{each}" for each in range(MOST_LANES)]


def test_what_others_do_before_an_episode_does_not_hide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_ENTRIES", 3)
    recording = Recording()
    recording.add([MemberLeft(1_000 + each, "h_carl", "", 0) for each in range(5)], [])
    recording.add([MemberLeft(1_500, "g_anna", "", 0)], [])
    cause = recording.entries.entry(1)
    assert cause is not None
    play = episode_play(recording, "group g", 1_500, 1_500, lambda entry: [cause])
    assert [each.said for each in play.steps][-1:] == ["g_anna has left."]


def test_a_play_says_that_more_was_recorded_than_it_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_ENTRIES", 3)
    recording = Recording()
    recording.add([MemberLeft(1_000 + each, "h_carl", "", 0) for each in range(2)], [])
    assert episode_play(recording, "group h", 1_000, 1_500, lambda entry: []).is_whole
    recording.add([MemberLeft(1_009, "h_carl", "", 0), MemberLeft(1_010, "g_anna", "", 0)], [])
    assert episode_play(recording, "group g", 1_000, 1_500, lambda entry: []) == ((), (), False)


def test_a_member_of_a_group_with_a_longer_name_is_elsewhere() -> None:
    recording = Recording()
    for number, (group, member) in enumerate((("g", "g_anna"), ("g_h", "g_h_ben")), 1):
        ids = Created(f"/consumers/{group}/ids/{member}", b"{}", ephemeral=True)
        recording.add([], [Transaction(number, 1_000, number, (ids,))])
    recording.add([MemberLeft(9_000, "g_anna", "", 0), MemberLeft(9_001, "g_h_ben", "", 0)], [])
    for group, said in (("g", "g_anna has left."), ("g_h", "g_h_ben has left.")):
        play = episode_play(recording, f"group {group}", 9_000, 9_001, lambda entry: [])
        assert [each.said for each in play.steps] == [said]
