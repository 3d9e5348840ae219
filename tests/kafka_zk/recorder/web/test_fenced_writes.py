"""Refused writes are lines of what happened, and their plays show what made them stale."""

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.events import ControllerIgnored
from kafka_zk.rebalance.events import CommitRefused
from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web.api import RecordingApi
from kafka_zk.recorder.web.episodes import NEAR_MS
from kafka_zk.recorder.web.fenced_writes import group_of_member
from kafka_zk.recorder.zookeeper_files.transaction_log import (
    Created,
    DataSet,
    Operation,
    SessionClosed,
    SessionCreated,
    Transaction,
)

OLD, NEW = 1, 2
"""Sessions."""


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
    owner, offset = "/consumers/g/owners/t/0", "/consumers/g/offsets/t/0"
    written(recording, 1_100, OLD, Created(owner, b"g_anna-0", ephemeral=True), Created(offset, b"3", ephemeral=False))
    written(recording, 9_000, OLD, SessionClosed(None, expired=True))
    written(recording, 9_010, NEW, Created(owner, b"g_ben-0", ephemeral=True), DataSet(offset, b"3", 1))
    recording.add([CommitRefused(9_500, "g_anna", "", 0, TopicPartition("t", 0), "no longer the owner")], [])
    [fenced] = episodes(recording)
    assert said(recording, fenced)[-4:] == [
        f"ZooKeeper deletes {owner}, which belonged to the session that ended.",
        f"g_ben creates {owner}, which lives as long as its session.",
        f"g_ben writes {offset}, now version 1.",
        "g_anna: its commit of t-0 is refused: no longer the owner.",
    ]


def test_refusals_that_follow_each_other_closely_are_one_line() -> None:
    recording = Recording()
    times = (1_000, 1_500, 2_000, 2_001 + NEAR_MS)
    recording.add([ControllerIgnored(each, "broker-2", "", 0, 1, 2) for each in times], [])
    recording.add([ControllerIgnored(1_200, "broker-3", "", 0, 1, 2)], [])
    found = [(each["from_ms"], each["to_ms"], each["seq"]) for each in episodes(recording)]
    assert found == [(1_000, 2_000, 1), (1_200, 1_200, 5), (2_001 + NEAR_MS, 2_001 + NEAR_MS, 4)]
    assert episodes(recording)[0]["text"].endswith("it knows epoch 2, and 2 more refusals")


def test_a_member_belongs_to_the_group_with_the_longest_name() -> None:
    znodes = ("/consumers", "/consumers/g", "/consumers/g_h/ids/g_h_anna", "/brokers/ids")
    assert [group_of_member(each, znodes) for each in ("g_h_anna", "g_ben", "x_ben")] == ["g_h", "g", ""]
