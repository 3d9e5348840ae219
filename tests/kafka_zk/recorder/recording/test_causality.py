"""The cause of an entry: certain only if ZooKeeper or a process names it, and never an impossible one."""

import pytest

from kafka_zk.broker.group.events import MemberJoined
from kafka_zk.recorder.recording.entries import Entry
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.timeline.cluster_events import OperatorActed
from kafka_zk.recorder.timeline.trace_file import Traced
from kafka_zk.recorder.web.api import MOST_LIKELY, RecordingApi
from kafka_zk.recorder.zookeeper_files.transaction_log import (
    Created,
    DataSet,
    Deleted,
    SessionClosed,
    SessionCreated,
    Transaction,
)
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import Reread, WatchArmed, WatchFired

ANNA = "/consumers/board/ids/board_anna"


def fired(time_ms: int, path: str, how: EventType) -> WatchFired:
    return WatchFired(time_ms, "controller-1", "", 0, path, how)


def entries(recording: Recording) -> list[Entry]:
    return recording.entries.numbered(1, 99, 99)


def cause_of(recording: Recording, kind: str) -> tuple[str, bool] | None:
    """The kind of the cause of the last entry of this kind, and whether the cause is certain."""
    entry = [each for each in entries(recording) if each.kind == kind][-1]
    cause = None if entry.cause is None else recording.entries.entry(entry.cause)
    return None if cause is None else (cause.kind, entry.certain)


def test_a_watch_follows_from_a_change_of_the_kind_that_it_reports() -> None:
    """Neither a later creation nor a much earlier one causes a deletion."""
    recording = Recording()
    recording.add([fired(1_002, "/controller", EventType.DELETED)], [
        Transaction(1, 1_000, 7, (Created("/controller", b"{}", ephemeral=True),)),
        Transaction(2, 1_001, 7, (Deleted("/controller"),)),
        Transaction(3, 1_001, 8, (Created("/controller", b"{}", ephemeral=True),)),
    ])  # fmt: skip
    assert cause_of(recording, "WatchFired") == ("deleted", True)


def test_a_watch_that_was_set_after_a_change_did_not_fire_for_it() -> None:
    recording = Recording()
    recording.add([], [Transaction(1, 1_000, 7, (Created("/a", b"", False),)), _set(2, 1_001)])
    recording.add([WatchArmed(60_000, "controller-1", "", 0, "/a"), fired(60_500, "/a", EventType.CHANGED)], [])
    assert cause_of(recording, "WatchFired") == ("changed", False)


def _set(zxid: int, time_ms: int) -> Transaction:
    return Transaction(zxid, time_ms, 7, (DataSet("/a", b"%d" % zxid, zxid),))


def test_transactions_stay_in_the_order_of_their_zxids() -> None:
    """A new leader of ZooKeeper may have a slow clock; an event that names a zxid comes after its transaction."""
    recording = Recording()
    read = Reread(1_000, "broker-0", "", 3, "/a", changed=True)
    recording.add([read], [Transaction(1, 5_000, 7, (Created("/a", b"", False),)), _set(2, 2_000), _set(3, 2_001)])
    assert [each.zxid for each in entries(recording)] == [1, 2, 3, 3]
    assert cause_of(recording, "Reread") == ("changed", True)


def test_events_of_one_millisecond_are_ordered_by_microseconds_and_those_of_a_process_as_it_wrote_them() -> None:
    recording = Recording()

    def armed(actor: str, microsecond: int | None, number: int, time_ms: int = 1_000) -> Traced:
        return Traced(WatchArmed(time_ms, actor, "", 0, f"/{number}"), None, microsecond, number)

    back = armed("broker-0", 1, 2, time_ms=900)  # the broker's clock went back
    recording.add([armed("broker-0", 700, 1), back, armed("broker-1", 650, 1), armed("broker-1", 720, 2)], [])
    told = [(each.actor, each.document["number"]) for each in entries(recording)]
    assert told == [("broker-1", 1), ("broker-0", 1), ("broker-0", 2), ("broker-1", 2)]
    shown = RecordingApi(recording).entry({"seq": "2"})
    assert (shown["microsecond"], shown["number"]) == (700, 1)


def test_a_chain_of_likely_causes_is_short() -> None:
    recording = Recording()
    for number in range(20):
        recording.add([Reread(1_000 + number, "broker-0", "", 0, f"/{number}", changed=True)], [])
    assert len(RecordingApi(recording).entry({"seq": "20"})["why"]) == MOST_LIKELY


@pytest.mark.parametrize("told_late", [False, True])
def test_a_member_joins_because_somebody_let_it(told_late: bool) -> None:
    recording = Recording()
    act = OperatorActed(1_000 + 500 * told_late, "operator", "requested", 0, "join", "board/anna", "")
    joined = [Transaction(1, 1_200, 7, (SessionCreated(6_000),)), _registered(2, 1_201, 7)]
    recording.add([act], joined)
    assert cause_of(recording, "created") == cause_of(recording, "session began") == ("OperatorActed", False)
    told = RecordingApi(recording)
    [acted] = [each.seq for each in entries(recording) if each.kind == "OperatorActed"]
    assert "A person did this" in told.entry({"seq": str(acted)})["reason"]


def test_a_member_of_a_brokers_group_joins_because_somebody_let_it() -> None:
    recording = Recording()
    member = "ben-00000000-0000-0000-0000-000000000001"
    joins = MemberJoined(2_000, "broker-0", "", 0, "board", member, True, None, ())
    recording.add([OperatorActed(1_000, "operator", "requested", 0, "join", "board/ben", ""), joins], [])
    assert cause_of(recording, "MemberJoined") == ("OperatorActed", False)


def test_a_process_registers_again_because_its_session_ended() -> None:
    recording = Recording()
    recording.add([], [_registered(1, 1_000, 7), Transaction(2, 2_000, 7, (SessionClosed((ANNA,)),))])
    recording.add([], [Transaction(3, 2_500, 8, (SessionCreated(6_000),)), _registered(4, 2_501, 8)])
    assert cause_of(recording, "created") == cause_of(recording, "session began") == ("session ended", False)


def _registered(zxid: int, time_ms: int, session: int) -> Transaction:
    return Transaction(zxid, time_ms, session, (Created(ANNA, b"{}", ephemeral=True),))


def test_what_nothing_caused_is_explained() -> None:
    recording = Recording()
    recording.add([Reread(9_000, "broker-0", "started", 0, "/a", changed=True)], [
        Transaction(1, 1_000, 7, (SessionCreated(6_000),)), Transaction(2, 2_000, 7, (Created("/a", b"", False),)),
        Transaction(3, 3_000, 7, (SessionClosed(()),)),
    ])  # fmt: skip
    api = RecordingApi(recording)
    told = [api.entry({"seq": str(seq)})["reason"] for seq in range(1, 5)]
    assert "started by hand" in told[0] and "command-line tool" in told[1]
    assert "closed the session, or ZooKeeper heard nothing" in told[2] and "gives this reason: started" in told[3]
