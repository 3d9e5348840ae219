"""Refused writes are lines of their own, and their slow motion shows the change that made them stale."""

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.events import ControllerIgnored
from kafka_zk.rebalance.events import CommitRefused
from kafka_zk.rebalance.ownership import IN_DOUBT
from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web.api import MOST_EPISODES, RecordingApi
from kafka_zk.recorder.web.episodes import NEAR_MS
from kafka_zk.recorder.zookeeper_files.transaction_log import (
    Created,
    DataSet,
    Deleted,
    Operation,
    SessionClosed,
    SessionCreated,
    Transaction,
)

OLD, NEW = 1, 2
"""Sessions."""
TP = TopicPartition("t", 0)
OWNER, OFFSET = "/consumers/g/owners/t/0", "/consumers/g/offsets/t/0"


def written(recording: Recording, time_ms: int, session: int, *operations: Operation) -> None:
    zxid = recording.entries.last_zxid() + 1
    recording.add([], [Transaction(zxid, time_ms, session, operations)])


def episodes(recording: Recording) -> list[Document]:
    found: list[Document] = RecordingApi(recording).episodes({"from_ms": "0", "to_ms": "99000"})["episodes"]
    return [each for each in found if each["subject"] == "fenced write"]


def said(recording: Recording, episode: Document) -> list[str]:
    play = RecordingApi(recording).play({name: str(value) for name, value in episode.items()})
    return [each["said"] for each in play["steps"]]


def test_a_request_of_an_old_controller_follows_the_election_of_the_new_one() -> None:
    recording = Recording()
    for number, session in ((1, OLD), (2, NEW)):
        registered = Created(f"/brokers/ids/{number}", b"{}", ephemeral=True)
        written(recording, 1_000, session, SessionCreated(6_000), registered)
    written(recording, 1_100, OLD, Created("/controller_epoch", b"1", ephemeral=False))
    written(recording, 1_101, OLD, Created("/controller", b'{"brokerid":1}', ephemeral=True))
    written(recording, 9_000, OLD, SessionClosed(None, expired=True))
    written(recording, 9_010, NEW, Created("/controller", b'{"brokerid":2}', ephemeral=True))
    written(recording, 9_011, NEW, DataSet("/controller_epoch", b"2", 1))
    recording.add([ControllerIgnored(12_000, "broker-2", "an older epoch", 0, 1, 2)], [])
    [fenced] = episodes(recording)
    assert fenced["text"] == "broker-2: ignores a request of controller epoch 1: it knows epoch 2"
    assert said(recording, fenced) == [
        "ZooKeeper ends the session of broker-1, from which it heard nothing for the whole session timeout.",
        "ZooKeeper deletes /controller, which belonged to the session that ended.",
        "broker-2 creates /controller, which lives as long as its session.",
        "broker-2 writes /controller_epoch, now version 1.",
        "broker-2 ignores a request of controller epoch 1: it knows epoch 2.",
    ]
    play = RecordingApi(recording).play({name: str(value) for name, value in fenced.items()})
    assert (play["lanes"][play["steps"][-1]["source"]], play["steps"][-1]["after"]) == ("broker-1", "+3,000 ms")


def test_a_commit_of_a_member_that_lost_its_partition_follows_the_claim_of_the_next_owner() -> None:
    recording = Recording()
    for name, session in (("g_anna", OLD), ("g_ben", NEW)):
        written(recording, 1_000, session, Created(f"/consumers/g/ids/{name}", b"{}", ephemeral=True))
    written(recording, 1_100, OLD, Created(OWNER, b"g_anna-0", ephemeral=True), Created(OFFSET, b"3", ephemeral=False))
    written(recording, 9_000, OLD, SessionClosed(None, expired=True))
    written(recording, 9_010, NEW, Created(OWNER, b"g_ben-0", ephemeral=True), DataSet(OFFSET, b"3", 1))
    recording.add([CommitRefused(9_500, "g_anna", "", 0, TP, "no longer the owner")], [])
    [fenced] = episodes(recording)
    assert said(recording, fenced)[-4:] == [
        f"ZooKeeper deletes {OWNER}, which belonged to the session that ended.",
        f"g_ben creates {OWNER}, which lives as long as its session.",
        f"g_ben writes {OFFSET}, now version 1.",
        "g_anna: its commit of t-0 is refused: no longer the owner.",
    ]


def test_refusals_that_follow_each_other_closely_are_one_line() -> None:
    recording = Recording()
    times = (1_000, 1_500, 2_000, 2_001 + NEAR_MS)
    recording.add([CommitRefused(each, "g_anna", "", 0, TP, "no longer the owner") for each in times], [])
    recording.add([CommitRefused(1_200, "g_ben", "", 0, TP, "no longer the owner")], [])
    found = [(each["from_ms"], each["to_ms"], each["seq"]) for each in episodes(recording)]
    assert found == [(1_000, 2_000, 1), (1_200, 1_200, 5), (2_001 + NEAR_MS, 2_001 + NEAR_MS, 4)]
    assert episodes(recording)[0]["text"].endswith("no longer the owner, and 2 more refusals")


def test_an_old_controller_that_asks_many_brokers_is_one_line() -> None:
    """With a line per broker, it would displace all other lines of a large cluster. Another old controller has its own
    line.
    """
    recording = Recording()
    recording.add([ControllerIgnored(1_000 + each, f"broker-{each}", "", 0, 1, 3) for each in range(50)], [])
    recording.add([ControllerIgnored(1_010, "broker-99", "", 0, 2, 3)], [])
    first, second = episodes(recording)
    assert first["text"] == "broker-0: ignores a request of controller epoch 1: it knows epoch 3, and 49 more refusals"
    assert second["text"] == "broker-99: ignores a request of controller epoch 2: it knows epoch 3"
    assert [len(said(recording, each)) for each in (first, second)] == [50, 1]


def test_a_commit_that_was_not_tried_is_not_fenced() -> None:
    """The member still owns its partition, and commits again when it is connected."""
    recording = Recording()
    recording.add([CommitRefused(1_000, "g_anna", "commit", 0, TP, IN_DOUBT.reason)], [])
    assert episodes(recording) == []


def test_the_count_includes_lines_that_are_not_listed() -> None:
    recording = Recording()
    recording.add([ControllerIgnored(1_000, "broker-1", "", 0, each, 999) for each in range(MOST_EPISODES + 7)], [])
    told = RecordingApi(recording).episodes({"from_ms": "0", "to_ms": "99000"})
    assert (told["count"], len(told["episodes"])) == (MOST_EPISODES + 7, MOST_EPISODES)


def test_what_the_member_wrote_itself_made_nothing_stale() -> None:
    recording = Recording()
    written(recording, 1_000, OLD, Created("/consumers/g/ids/g_anna", b"{}", ephemeral=True))
    written(recording, 1_100, OLD, Created(OWNER, b"g_anna-0", ephemeral=True), Created(OFFSET, b"3", ephemeral=False))
    written(recording, 1_200, OLD, DataSet(OFFSET, b"4", 1))
    recording.add([CommitRefused(9_500, "g_anna", "", 0, TP, "no longer the owner")], [])
    [fenced] = episodes(recording)
    assert said(recording, fenced) == ["g_anna: its commit of t-0 is refused: no longer the owner."]


def test_what_happened_after_the_refusal_made_nothing_stale() -> None:
    """Reports of processes may be recorded after later changes of znodes."""
    recording = Recording()
    for name, session in (("g_anna", OLD), ("g_ben", NEW), ("g_carl", 3)):
        written(recording, 1_000, session, Created(f"/consumers/g/ids/{name}", b"{}", ephemeral=True))
    written(recording, 8_000, NEW, Created(OWNER, b"g_ben-0", ephemeral=True))
    written(recording, 9_600, NEW, Deleted(OWNER))
    written(recording, 9_601, 3, Created(OWNER, b"g_carl-0", ephemeral=True))
    recording.add([CommitRefused(9_500, "g_anna", "", 0, TP, "no longer the owner")], [])
    [fenced] = episodes(recording)
    assert said(recording, fenced)[-2:] == [
        f"g_ben creates {OWNER}, which lives as long as its session.",
        "g_anna: its commit of t-0 is refused: no longer the owner.",
    ]
