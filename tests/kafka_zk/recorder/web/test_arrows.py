"""Each kind of entry has its ends, a label, the znode and a sentence."""

import pytest

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.events import ControllerElected, RequestFailed, RequestSent
from kafka_zk.broker.group.events import (
    AssignmentCompleted,
    Departure,
    MemberDeparted,
    MemberIdAssigned,
    MemberJoined,
    MemberSynced,
    MemberToldToRejoin,
)
from kafka_zk.broker.replica.events import ControllerIgnored, RoleChanged
from kafka_zk.broker.replica.partition import Role
from kafka_zk.rebalance.events import Claimed, ClaimWaits, CommitRefused, Committed, MemberRegistered
from kafka_zk.recorder.recording.entries import Entry
from kafka_zk.recorder.timeline.cluster_events import OperatorActed
from kafka_zk.recorder.timeline.event_codec import encode
from kafka_zk.recorder.web.arrows import arrow_of
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import Reread, WatchArmed, WatchFired

TP = TopicPartition("t", 3)
NODE = ["x", 4, 1, 2, 3, 0]
EPHEMERAL = ["x", 0, 1, 2, 3, 7]


def written(kind: str, actor: str, after: list[object] | None) -> Entry:
    return Entry(1, 1, actor, kind, "/a", 1, 7, None, True, {"path": "/a", "before": None, "after": after})


def session(kind: str, **how: bool) -> Entry:
    return Entry(1, 1, "broker-1", kind, "", 1, 7, None, True, {"session": 7, **how})


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (written("created", "broker-1", NODE), ("broker-1", "ZooKeeper", "creates", "/a", "broker-1 creates /a.")),
        (
            written("created", "controller-1", EPHEMERAL),
            ("broker-1", "ZooKeeper", "creates", "/a", "broker-1 creates /a, which lives as long as its session."),
        ),
        (
            written("changed", "broker-1", NODE),
            ("broker-1", "ZooKeeper", "writes", "/a", "broker-1 writes /a, now version 4."),
        ),
        (written("deleted", "broker-1", None), ("broker-1", "ZooKeeper", "deletes", "/a", "broker-1 deletes /a.")),
        (
            written("deleted", "ZooKeeper", None),
            (
                "ZooKeeper", "ZooKeeper", "deletes", "/a",
                "ZooKeeper deletes /a, which belonged to the session that ended.",
            ),
        ),
        (
            session("session began"),
            ("broker-1", "ZooKeeper", "opens a session", "", "broker-1 opens a session with ZooKeeper."),
        ),
        (
            session("session ended", expired=False),
            ("broker-1", "ZooKeeper", "closes its session", "", "broker-1 closes its session with ZooKeeper."),
        ),
        (
            session("session ended", expired=True),
            (
                "ZooKeeper", "broker-1", "ends the session", "",
                "ZooKeeper ends the session of broker-1, from which it heard nothing for the whole session timeout.",
            ),
        ),
        (
            session("session ended", inferred=True),
            ("ZooKeeper", "broker-1", "ends the session", "", "ZooKeeper ends the session of broker-1."),
        ),
    ],
)  # fmt: skip
def test_what_zookeeper_recorded(entry: Entry, expected: tuple[str, ...]) -> None:
    assert arrow_of(entry, "", {}) == expected


@pytest.mark.parametrize(
    ("kind", "how", "said"),
    [
        ("session began", {}, "A client opens session 0x7 with ZooKeeper."),
        ("session ended", {"expired": False}, "A client closes session 0x7 with ZooKeeper."),
        ("session ended", {"inferred": True}, "ZooKeeper ends session 0x7."),
    ],
)
def test_a_session_without_a_name_belongs_to_a_client(kind: str, how: dict[str, bool], said: str) -> None:
    arrow = arrow_of(session(kind, **how)._replace(actor="session 0x7"), "", {})
    assert arrow is not None and arrow.said == said


MEMBER = "anna-1"
GROUP = "/consumers/g"


@pytest.mark.parametrize(
    ("event", "ends", "label", "znode"),
    [
        (WatchFired(1, "controller-2", "", 0, "/a", EventType.CHILD), "ZooKeeper>broker-2", "watch fires", "/a"),
        (Reread(1, "controller-2", "child", 0, "/a", True), "broker-2>ZooKeeper", "reads", "/a"),
        (RequestSent(1, "controller-2", "", 0, 3, "LEADER_AND_ISR"), "broker-2>broker-3", "LeaderAndIsr answered", ""),
        (RequestFailed(1, "controller-2", "", 0, 3, "STOP_REPLICA"), "broker-2>broker-3", "StopReplica fails", ""),
        (
            ControllerElected(1, "controller-2", "", 0, 5), "broker-2>broker-2", "controller elected",
            "/controller_epoch",
        ),
        (
            RoleChanged(1, "broker-2", "", 0, TP, Role.LEADER, 4, None), "broker-2>broker-2", "role changed",
            "/brokers/topics/t/partitions/3/state",
        ),
        (ControllerIgnored(1, "broker-3", "", 0, 4, 5), "broker-1>broker-3", "request refused", "/controller_epoch"),
        (
            ControllerIgnored(1, "broker-3", "", 0, 3, 5), "broker-3>broker-3", "request refused",
            "/controller_epoch",
        ),
        (OperatorActed(1, "operator", "", 0, "kill", "broker 2", "x"), "you>broker-2", "kill", ""),
        (OperatorActed(1, "operator", "", 0, "leave", "g/anna", "x"), "you>g_anna", "leave", ""),
        (MemberRegistered(1, "g_anna", "", 0, 7), "g_anna>g_anna", "member registered", f"{GROUP}/ids/g_anna"),
        (Claimed(1, "g_anna", "", 0, {TP: 1}, {TP: 1}), "g_anna>g_anna", "claimed", f"{GROUP}/owners"),
        (ClaimWaits(1, "g_anna", "", 0, TP, "g_ben-0"), "g_anna>g_anna", "claim waits", f"{GROUP}/owners/t/3"),
        (Committed(1, "g_anna", "", 0, {TP: 1}), "g_anna>ZooKeeper", "commits", f"{GROUP}/offsets"),
        (CommitRefused(1, "g_anna", "", 0, TP, "x"), "g_anna>g_anna", "commit refused", f"{GROUP}/offsets/t/3"),
        (MemberIdAssigned(1, "broker-1", "", 0, "g", MEMBER), "broker-1>anna-1", "MEMBER_ID_REQUIRED", ""),
        (MemberJoined(1, "broker-1", "", 0, "g", MEMBER, True, None, ()), "anna-1>broker-1", "JoinGroup", ""),
        (MemberToldToRejoin(1, "broker-1", "", 0, "g", MEMBER), "broker-1>anna-1", "REBALANCE_IN_PROGRESS", ""),
        (MemberSynced(1, "broker-1", "", 0, "g", MEMBER), "anna-1>broker-1", "SyncGroup", ""),
        (MemberDeparted(1, "broker-1", "", 0, "g", MEMBER, Departure.LEFT), "anna-1>broker-1", "LeaveGroup", ""),
        (
            MemberDeparted(1, "broker-1", "", 0, "g", MEMBER, Departure.SESSION_ENDED), "broker-1>broker-1",
            "member departed", "",
        ),
        (AssignmentCompleted(1, "broker-1", "", 0, "g", 2, {}), "broker-1>broker-1", "assignment completed", ""),
    ],
)  # fmt: skip
def test_what_processes_reported(event: Event, ends: str, label: str, znode: str) -> None:
    arrow = arrow_of(entry_of(event), "g", {4: "broker-1"})
    assert arrow is not None
    assert (f"{arrow.source}>{arrow.target}", arrow.label, arrow.znode) == (ends, label, znode)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (WatchFired(1, "g_anna", "", 0, "/a", EventType.DELETED), "ZooKeeper tells g_anna that /a was deleted."),
        (Reread(1, "g_anna", "child", 0, "/a", True), "g_anna reads /a again (child)."),
        (OperatorActed(1, "operator", "", 0, "fill-disk", "broker 2", "x"), "You fill the disk of broker 2."),
        (CommitRefused(1, "g_anna", "", 0, TP, "gone"), "g_anna: its commit of t-3 is refused: gone."),
        (MemberSynced(1, "broker-1", "", 0, "g", MEMBER), "broker-1: anna-1 asks for its assignment."),
    ],
)
def test_sentences_name_who_acts(event: Event, said: str) -> None:
    arrow = arrow_of(entry_of(event), "g", {})
    assert arrow is not None and arrow.said == said


def test_a_watch_that_is_set_is_for_readers_of_every_step() -> None:
    assert arrow_of(entry_of(WatchArmed(1, "g_anna", "", 0, "/a")), "g", {}) is None


def entry_of(event: Event) -> Entry:
    path = getattr(event, "path", "")
    return Entry(1, 1, event.actor, type(event).__name__, path, 0, 0, None, True, encode(event))
