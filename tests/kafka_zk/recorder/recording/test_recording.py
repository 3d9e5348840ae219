"""A recording reproduces every moment in any order of requests, can be continued, and parts of it can be cut out."""

import shutil
import sqlite3
from pathlib import Path
from random import Random

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.events import AssignmentCompleted, Departure, MemberDeparted
from kafka_zk.broker.replica.events import RoleChanged
from kafka_zk.broker.replica.partition import Role
from kafka_zk.recorder.recording import recording as module
from kafka_zk.recorder.recording import znode_history
from kafka_zk.recorder.recording.entries import CREATED, DELETED, SESSION_ENDED
from kafka_zk.recorder.recording.errors import NoRecording
from kafka_zk.recorder.recording.export import export
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.timeline.cluster_events import OperatorActed
from kafka_zk.recorder.web.api import RecordingApi
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, SessionClosed, SessionCreated, Transaction
from kafka_zk.registry.client.client import EventType, SessionState
from kafka_zk.registry.client.events import Reread, SessionChanged, WatchArmed, WatchFired
from tests.kafka_zk.recorder.recording.histories import Znodes, history

STATE = b'{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":0,"isr":[0,1]}'
STATE_PATH = "/brokers/topics/t/partitions/0/state"


def znodes(recording: Recording, seq: int) -> Znodes:
    return {path: znode.data for path, znode in recording.znodes.after(seq).znodes.items()}


@pytest.mark.parametrize("seed", range(6))
def test_every_moment_is_as_it_was(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty random moments, in any order, over many checkpoints, and again after the file was reopened."""
    monkeypatch.setattr(znode_history, "_LEAST_BETWEEN_CHECKPOINTS", 25)
    recording = Recording(tmp_path / "r")
    moments: dict[int, Znodes] = {}
    happened = history(seed, 600)
    for number, (transaction, after) in enumerate(happened):
        if number == 300:
            recording.close()
            recording = Recording(tmp_path / "r")
        recording.add([], [transaction])
        moments[recording.entries.count] = after
    random = Random(seed)
    for seq in random.choices(sorted(moments), k=50):
        assert znodes(recording, seq) == moments[seq]
    recording.close()
    with_others = Recording(tmp_path / "r", read_only=True)
    for seq in random.choices(sorted(moments), k=10):
        assert znodes(with_others, seq) == moments[seq]
    with_others.close()


def test_in_memory_only_the_last_part_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recording stays below its limit, names the missing entries, and reproduces every moment that is left."""
    monkeypatch.setattr(znode_history, "_LEAST_BETWEEN_CHECKPOINTS", 300)
    monkeypatch.setattr(module, "MOST_IN_MEMORY_BYTES", 300_000)
    recording = Recording()
    assert recording.misses == ""
    moments: dict[int, Znodes] = {}
    for transaction, after in history(1, 3_000):
        recording.add([], [transaction])
        moments[recording.entries.count] = after
        assert recording.used_bytes < 350_000
    first = recording.entries.first
    assert recording.misses.startswith(f"the first {first - 1} entries")
    assert recording.entries.entry(first - 1) is None and recording.entries.entry(first) is not None
    kept = [seq for seq in sorted(moments) if seq >= first]
    assert len(kept) > 100
    for seq in Random(1).choices(kept, k=50):
        assert znodes(recording, seq) == moments[seq]
    assert znodes(recording, 1) == znodes(recording, first - 1)
    api = RecordingApi(recording)
    assert api.step({"seq": "1"})["seq"] == api.at({"time_ms": "0"})["seq"] == first
    assert recording.spans.single(0, 1 << 60, 10) == []


def test_spans_that_ended_long_ago_go_and_those_that_last_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording()
    for number, path in enumerate(("/brokers/ids/0", "/brokers/ids/1")):
        recording.add([], [Transaction(number + 1, number + 1, 7 + number, (Created(path, b"{}", True),))])
    recording.add([], [Transaction(3, 3, 8, (SessionClosed(None),))])
    monkeypatch.setattr(module, "MOST_IN_MEMORY_BYTES", 1)
    for zxid in range(4, 100):
        recording.add([], [Transaction(zxid, zxid, 9, (Created(f"/z{zxid}", None, False),))])
    assert [(each.lane, each.holder) for each in recording.spans.single(0, 100, 10)] == [
        ("broker 0", "session 0x7"), ("broker 1", "")
    ]  # fmt: skip
    assert recording.znodes.after(recording.entries.count).znodes["/brokers/ids/0"].session == 7


def test_it_says_how_far_it_is(tmp_path: Path) -> None:
    """A recorder that restarts reads the server's log from its beginning, and must know which part the recording has.
    """
    happened = [transaction for transaction, _ in history(1, 50)]
    first = Recording(tmp_path / "r")
    first.add([], happened)
    first.close()
    again = Recording(tmp_path / "r")
    changed = [entry.zxid for entry in again.entries.numbered(1, 10_000, 10_000) if "before" in entry.document]
    assert again.entries.last_zxid() == changed[-1] > 0
    again.close()


def test_a_stretch_is_a_recording_of_its_own(tmp_path: Path) -> None:
    recording = Recording()
    moments = {}
    for transaction, after in history(2, 200):
        recording.add([], [transaction])
        moments[recording.entries.count] = after
    first, last = sorted(moments)[80], sorted(moments)[120]
    list(export(recording, tmp_path / "part", first, last))
    part = Recording(tmp_path / "part", read_only=True)
    assert (part.entries.first, part.entries.count) == (first, last)
    assert [entry.seq for entry in part.entries.numbered(first, 10_000, 10_000)] == list(range(first, last + 1))
    for seq in (seq for seq in moments if first <= seq <= last):
        assert znodes(part, seq) == moments[seq]


def test_the_session_end_is_the_cause_of_what_goes_with_it() -> None:
    recording = Recording()
    recording.add([], [Transaction(1, 1_000, 7, (Created("/brokers/ids/3", b"{}", ephemeral=True),))])
    recording.add([], [Transaction(2, 9_000, 7, (SessionClosed(None),))])
    created, ended, deleted = recording.entries.numbered(1, 9, 9)
    assert [created.kind, ended.kind, deleted.kind] == [CREATED, SESSION_ENDED, DELETED]
    assert [created.actor, ended.actor, deleted.actor] == ["broker-3", "broker-3", "ZooKeeper"], (
        "a dead process wrote something"
    )
    assert (deleted.cause, deleted.certain) == (ended.seq, True)


def test_a_session_is_named_when_it_becomes_known_whose_it_is() -> None:
    recording = Recording()
    recording.add([], [Transaction(1, 1_000, 7, (Created("/a", None, ephemeral=False),))])
    assert recording.entries.numbered(1, 1, 1)[0].actor == "session 0x7"
    recording.add([], [Transaction(2, 1_001, 7, (Created("/brokers/ids/3", b"{}", ephemeral=True),))])
    assert {entry.actor for entry in recording.entries.numbered(1, 9, 9)} == {"broker-3"}


def test_a_watch_follows_from_the_change_and_a_read_from_the_watch() -> None:
    """Events that arrive with the change in one poll are put after it, by their times."""
    recording = Recording()
    fired = WatchFired(1_001, "controller-0", "", 0, "/brokers/ids", EventType.CHILD)
    read = Reread(1_002, "controller-0", "", 0, "/brokers/ids", changed=True)
    recording.add([fired, read], [Transaction(1, 1_000, 7, (Created("/brokers/ids/3", b"{}", ephemeral=True),))])
    change, watch, reading = recording.entries.numbered(1, 9, 9)
    assert (watch.cause, watch.certain) == (change.seq, True)
    assert (reading.cause, reading.certain) == (watch.seq, True)
    assert [entry.seq for entry in recording.entries.effects(change.seq, 9)] == [watch.seq]


def test_spans_say_who_led_from_when_to_when() -> None:
    recording = Recording()
    for zxid, leader in enumerate((0, 0, 1, -1), 1):
        path = STATE_PATH
        recording.add([], [Transaction(zxid, zxid * 1_000, 7, (Created(path, STATE % leader, ephemeral=False),))])
    [group] = recording.spans.groups(0, 9_000, 9)
    spans = recording.spans.of_group(group, 0, 9_000, 9)
    assert [(span.holder, span.from_ms, span.to_ms) for span in spans] == [
        ("broker 0", 1_000, 3_000), ("broker 1", 3_000, 4_000), ("", 4_000, None)
    ]  # fmt: skip


def test_lanes_of_partitions_are_told_by_topic() -> None:
    """Topics whose names begin alike and end in digits have groups of their own, in the order in which they appeared.
    """
    recording = Recording()
    topics = ("b", "a-1", "a", "a")
    for zxid, topic in enumerate(topics, 1):
        path = f"/brokers/topics/{topic}/partitions/{zxid}/state"
        recording.add([], [Transaction(zxid, zxid * 1_000, 7, (Created(path, STATE % 1, ephemeral=False),))])
    groups = recording.spans.groups(0, 9_000, 9)
    assert [(each.stem, each.lane_count) for each in groups] == [("b-", 1), ("a-1-", 1), ("a-", 2)]
    assert [span.lane for span in recording.spans.of_group(groups[2], 0, 9_000, 9)] == ["a-3", "a-4"]
    assert recording.spans.of_group(groups[2], 0, 9_000, 9, unheld=True) == []


def test_what_coordinators_assign_has_owners_until_the_member_departs() -> None:
    recording = Recording()
    tps = [TopicPartition("t", number) for number in range(2)]
    recording.add([
        AssignmentCompleted(1_000, "broker-0", "", 0, "g", 1, {"anna": (tps[0],), "bert": (tps[1],)}),
        AssignmentCompleted(1_500, "broker-0", "", 0, "g: t", 1, {"cleo": tuple(tps)}),
        MemberDeparted(2_000, "broker-0", "", 0, "g", "anna", Departure.SESSION_ENDED),
        AssignmentCompleted(3_000, "broker-0", "", 0, "g", 2, {"bert": (tps[0],)}),
    ], [])  # fmt: skip
    group, other = recording.spans.groups(0, 9_000, 9)
    assert [each.to_ms for each in recording.spans.of_group(other, 0, 9_000, 9)] == [None, None], "the wrong group"
    spans = recording.spans.of_group(group, 0, 9_000, 9)
    assert [(each.lane, each.holder, each.from_ms, each.to_ms) for each in spans] == [
        ("g: t-0", "anna", 1_000, 2_000), ("g: t-0", "", 2_000, 3_000), ("g: t-0", "bert", 3_000, None),
        ("g: t-1", "bert", 1_000, 3_000), ("g: t-1", "", 3_000, None),
    ]  # fmt: skip


def test_who_watches_is_whose_last_watch_has_not_fired() -> None:
    recording = Recording()
    recording.add([
        WatchArmed(1, "broker-0", "", 0, "/a"),
        WatchArmed(2, "broker-1", "", 0, "/a"),
        WatchFired(3, "broker-0", "", 0, "/a", EventType.CHANGED),
    ], [])  # fmt: skip
    assert recording.entries.watchers(2) == {"/a": ["broker-0", "broker-1"]}
    assert recording.entries.watchers(3) == {"/a": ["broker-1"]}


def test_a_watch_ends_with_the_session_that_it_was_set_in() -> None:
    """The watches end without an event: a former controller ignores its own. Broker and controller share a session."""
    recording = Recording()
    recording.add([], [Transaction(1, 1_000, 7, (Created("/brokers/ids/1", b"{}", ephemeral=True),))])
    recording.add([WatchArmed(2_000, actor, "", 0, "/a") for actor in ("broker-1", "controller-1", "broker-2")], [])
    before = recording.entries.count
    recording.add([], [Transaction(2, 3_000, 7, (SessionClosed(None),))])
    recording.add([WatchArmed(4_000, "broker-1", "", 0, "/b")], [])
    assert recording.entries.watchers(before) == {"/a": ["broker-1", "broker-2", "controller-1"]}
    assert recording.entries.watchers(recording.entries.count) == {"/a": ["broker-2"], "/b": ["broker-1"]}


@pytest.mark.parametrize("actor", ["broker-1", "controller-1"])
def test_a_broker_that_restarts_keeps_its_watches_when_its_old_session_ends(actor: str) -> None:
    """A process has a new session before its old one expires; the expiry removes only the old session's watches."""
    recording = Recording()
    recording.add([], [Transaction(1, 1_000, 7, (SessionCreated(6_000),)), _registered(2, 1_001, 7)])
    recording.add([WatchArmed(2_000, actor, "", 0, path) for path in ("/a", "/b")], [])
    recording.add([], [Transaction(3, 3_000, 8, (SessionCreated(6_000),))])
    recording.add([SessionChanged(3_001, "broker-1", "", 0, SessionState.CONNECTED, 8)], [])
    recording.add([WatchArmed(3_002, actor, "", 0, path) for path in ("/a", "/c")], [])
    before = recording.entries.count
    recording.add([], [Transaction(4, 8_000, 7, (SessionClosed(None),))])
    old_ended = recording.entries.count
    recording.add([], [Transaction(5, 9_000, 8, (SessionClosed(None),))])
    assert recording.entries.watchers(before) == {"/a": [actor], "/b": [actor], "/c": [actor]}
    assert recording.entries.watchers(old_ended) == {"/a": [actor], "/c": [actor]}
    assert recording.entries.watchers(recording.entries.count) == {}


def test_only_the_controller_shares_the_session_of_a_broker() -> None:
    """A member whose name looks like a controller's does not share the session."""
    recording = Recording()
    recording.add([WatchArmed(2_000, "the-controller-1", "", 0, "/a")], [])
    recording.add([], [Transaction(2, 3_000, 9, (Created("/consumers/g/ids/the-broker-1", b"{}", ephemeral=True),))])
    recording.add([], [Transaction(3, 4_000, 9, (SessionClosed(None),))])
    assert recording.entries.watchers(recording.entries.count) == {"/a": ["the-controller-1"]}


def test_what_is_no_recording_is_said(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database, but long enough to be looked at" * 100)
    with pytest.raises(NoRecording, match="text is not a recording"):
        Recording(tmp_path / "text", read_only=True)
    with pytest.raises(NoRecording, match="nothing does not exist"):
        Recording(tmp_path / "nothing", read_only=True)
    with sqlite3.connect(tmp_path / "future") as database:
        database.execute("create table meta (key text primary key, value text)")
        database.execute("insert into meta values ('version', '99')")
    database.close()
    with pytest.raises(NoRecording, match="version 99"):
        Recording(tmp_path / "future", read_only=True)


def test_what_a_killed_recorder_left_opens(tmp_path: Path) -> None:
    """The recorder's journal undoes its unfinished writes."""
    recording = Recording(tmp_path / "r")
    recording.add([], [transaction for transaction, _ in history(1, 200)])
    recording.database.execute("pragma cache_size = 5")  # pages are written before the commit
    recording.database.execute("delete from entries")
    for name in ("r", "r-journal"):
        shutil.copy(tmp_path / name, tmp_path / name.replace("r", "left", 1))
    left = Recording(tmp_path / "left", read_only=True)
    assert len(left.entries.numbered(1, 9_999, 9_999)) == left.entries.count == recording.entries.count
    left.close()
    recording.close()


def test_a_journal_that_cannot_be_applied_is_said(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("no database " * 100)
    (tmp_path / "r-journal").write_text("not empty")
    with pytest.raises(NoRecording, match="r cannot be opened: its recorder is writing, or was killed"):
        Recording(tmp_path / "r", read_only=True)


def test_a_file_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoRecording, match="cannot be opened"):
        Recording(tmp_path / "no-folder" / "r")
    with pytest.raises(NoRecording, match="cannot be opened"):
        Recording(tmp_path)


def test_a_full_disk_loses_nothing_once_there_is_room(tmp_path: Path) -> None:
    """The next call adds the unwritten entries completely, neither twice nor in part."""
    recording = Recording(tmp_path / "r")
    happened = history(4, 120)
    recording.add([], [transaction for transaction, _ in happened[:60]])
    (pages,) = recording.database.execute("pragma page_count").fetchone()
    recording.database.execute(f"pragma max_page_count = {pages}")
    rest = [transaction for transaction, _ in happened[60:]]
    count = recording.entries.count
    with pytest.raises(sqlite3.OperationalError, match="full"):
        recording.add([], rest)
    assert (recording.entries.count, znodes(recording, count)) == (count, happened[59][1])
    recording.database.execute("pragma max_page_count = 1000000")
    recording.add([], rest)
    assert znodes(recording, recording.entries.count) == happened[-1][1]
    numbers = [entry.seq for entry in recording.entries.numbered(0, 9_999, 9_999)]
    assert numbers == list(range(1, recording.entries.count + 1))


def test_a_recording_knows_whose_sessions_were(tmp_path: Path) -> None:
    first = Recording(tmp_path / "r#1?")
    first.add([], [Transaction(1, 1_000, 7, (Created("/brokers/ids/3", b"{}", ephemeral=True),))])
    first.add([], [Transaction(2, 1_001, 7, (SessionClosed(()),))])
    first.close()
    again = Recording(tmp_path / "r#1?", read_only=True)
    assert [again.sessions.actor_of(session) for session in (7, 8)] == ["broker-3", "session 0x8"]
    assert again.entries.last_zxid() == 2
    again.close()


def test_names_that_are_no_text_are_recorded(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "r")
    recording.add([WatchFired(1, "broker-\ud800", "", 0, "/\udc80", EventType.CHILD)], [])
    assert recording.entries.numbered(1, 1, 1)[0].actor == "broker-?"


def test_a_new_role_follows_from_the_partitions_state() -> None:
    """The role does not follow from the same broker's earlier role in another partition."""
    recording = Recording()
    recording.add([], [Transaction(1, 1_000, 7, (Created(STATE_PATH, STATE % 0, ephemeral=False),))])
    roles = [
        RoleChanged(1_001, "broker-0", "LeaderAndIsr", 0, TopicPartition(topic, 0), Role.LEADER, 0, None)
        for topic in ("other", "t")
    ]
    recording.add(roles, [])
    assert (recording.entries.numbered(3, 3, 1)[0].cause, recording.entries.numbered(3, 3, 1)[0].certain) == (1, False)


@pytest.mark.parametrize("told_late", [False, True])
@pytest.mark.parametrize(("path", "target"), [("/brokers/ids/1", "broker 1"), ("/consumers/g/ids/g_anna", "g/anna")])
def test_a_session_most_likely_ends_by_what_somebody_did_to_its_process(
    path: str, target: str, told_late: bool
) -> None:
    """This is so even if the act is reported after the session's end. Of two consecutive sessions, only the first one
    ended for this reason.
    """
    recording = Recording()
    recording.add([], [Transaction(1, 1_000, 7, (Created(path, b"{}", ephemeral=True),))])
    act = OperatorActed(2_000 + told_late, "operator", "somebody asked for it", 0, "kill", target, "")
    over = Transaction(2, 2_000 + (not told_late), 7, (SessionClosed((path,)),))
    recording.add([] if told_late else [act], [over])
    recording.add([act] if told_late else [], [Transaction(3, 3_000, 8, (Created(path, b"{}", ephemeral=True),))])
    recording.add([], [Transaction(4, 4_000, 8, (SessionClosed((path,)),))])
    ends = [each for each in recording.entries.numbered(1, 99, 99) if each.kind == "session ended"]
    [done] = [each for each in recording.entries.numbered(1, 99, 99) if each.kind == "OperatorActed"]
    assert [(each.cause, each.certain) for each in ends] == [(done.seq, False), (None, False)]


def test_other_acts_and_other_processes_end_no_session() -> None:
    recording = Recording()
    recording.add([], [Transaction(1, 1_000, 7, (Created("/brokers/ids/1", b"{}", ephemeral=True),))])
    acts = [("restart", "broker 1"), ("kill", "broker 2"), ("join", "g/anna"), ("produce", "t")]
    told = [OperatorActed(1_500, "operator", "", 0, action, target, "") for action, target in acts]
    recording.add(told, [Transaction(2, 1_600, 7, (SessionClosed(None),))])
    assert [each.cause for each in recording.entries.numbered(1, 99, 99) if each.kind == "session ended"] == [None]


def test_the_moment_of_a_change_is_after_its_whole_transaction() -> None:
    """A session and its znodes disappear at once: no client ever saw one without the other."""
    recording = Recording()
    both = (Created("/a", b"", ephemeral=True), Created("/b", b"", ephemeral=True))
    recording.add([], [Transaction(1, 1_000, 7, both), Transaction(2, 2_000, 7, (SessionClosed(None),))])
    recording.add([WatchArmed(3_000, "broker-0", "", 0, "/a")], [Transaction(4, 4_000, 8, both)])
    assert [recording.entries.whole(seq) for seq in range(1, 9)] == [2, 2, 5, 5, 5, 6, 8, 8]
    api = RecordingApi(recording)
    assert [len(api.tree({"seq": str(seq)})["znodes"]) for seq in (1, 3, 6, 7)] == [2, 0, 0, 2]


def _registered(zxid: int, at_ms: int, session: int) -> Transaction:
    return Transaction(zxid, at_ms, session, (Created("/brokers/ids/1", b"{}", ephemeral=True),))


def _acted(at_ms: int, action: str) -> OperatorActed:
    return OperatorActed(at_ms, "operator", "somebody asked for it", 0, action, "broker 1", "")


def _causes_of_ends(recording: Recording) -> list[str | None]:
    """The act on the broker before each end of its sessions, if the act is the cause."""
    entries = {each.seq: each for each in recording.entries.numbered(1, 99, 99)}
    causes = [each.cause for each in entries.values() if each.kind == SESSION_ENDED]
    return [None if cause is None else str(entries[cause].document["action"]) for cause in causes]


@pytest.mark.parametrize(
    ("acts", "blamed"),
    [
        (("pause", "resume"), None), (("cut", "mend"), None), (("delay", "mend"), None),
        (("fill-disk", "free-disk"), None), (("kill", "restart"), "kill"), (("kill", "mend"), "kill"),
        (("pause", "resume", "expire"), "expire"),
    ],
)  # fmt: skip
def test_what_was_undone_ends_no_session_later(acts: tuple[str, ...], blamed: str | None) -> None:
    recording = Recording()
    recording.add([], [_registered(1, 1_000, 7)])
    recording.add([_acted(2_000 + number, each) for number, each in enumerate(acts)], [])
    recording.add([], [Transaction(2, 9_000, 7, (SessionClosed(None),))])
    assert _causes_of_ends(recording) == [blamed]


def test_an_act_that_is_told_late_explains_one_end_only() -> None:
    """A later act on the process explains the end of its next session, and the first act does not explain it again."""
    recording = Recording()
    recording.add([], [_registered(1, 1_000, 7), Transaction(2, 2_000, 7, (SessionClosed(None),))])
    recording.add([_acted(2_001, "kill")], [_registered(3, 2_500, 8)])
    recording.add([_acted(3_000, "pause")], [Transaction(4, 9_000, 8, (SessionClosed(None),))])
    assert _causes_of_ends(recording) == ["kill", "pause"]


def test_an_end_that_is_explained_is_not_explained_again() -> None:
    recording = Recording()
    first, second = (
        Transaction(zxid, at_ms, session, (SessionClosed(None),))
        for zxid, at_ms, session in ((2, 2_000, 7), (4, 9_000, 8))
    )
    recording.add([_acted(1_999, "kill")], [_registered(1, 1_000, 7), first])
    recording.add([_acted(3_000, "pause")], [_registered(3, 2_500, 8), second])
    assert _causes_of_ends(recording) == ["kill", "pause"]


@pytest.mark.parametrize(("after_ms", "blamed"), [(62_000, "pause"), (80_000, None)])
def test_a_session_with_a_long_timeout_ends_long_after_what_ended_it(
    after_ms: int, blamed: str | None, tmp_path: Path
) -> None:
    """The timeout is the one negotiated at the session's beginning, which may be before the recorder started."""
    first = Recording(tmp_path / "r")
    first.add([], [Transaction(1, 900, 7, (SessionCreated(60_000),)), _registered(2, 1_000, 7)])
    first.close()
    recording = Recording(tmp_path / "r")
    recording.add([_acted(2_000, "pause")], [])
    recording.add([], [Transaction(3, 2_000 + after_ms, 7, (SessionClosed(None),))])
    assert _causes_of_ends(recording) == [blamed]
    recording.close()
