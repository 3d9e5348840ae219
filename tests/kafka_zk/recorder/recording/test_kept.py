"""A recording with ``keep_ms`` keeps that time and is complete from its first moment, and a kill leaves it whole."""

import shutil
from pathlib import Path

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.events import AssignmentCompleted, Departure, MemberDeparted
from kafka_zk.broker.process.events import ClientsSeen
from kafka_zk.recorder.page_export import page_data
from kafka_zk.recorder.recording import export as export_module
from kafka_zk.recorder.recording import znode_history
from kafka_zk.recorder.recording.entries import CREATED, SESSION_BEGAN, SESSION_ENDED
from kafka_zk.recorder.recording.export import export
from kafka_zk.recorder.recording.parts import PART_COUNT
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web.api import RecordingApi
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, SessionClosed, SessionCreated, Transaction
from kafka_zk.registry.client.client import EventType, SessionState
from kafka_zk.registry.client.events import SessionChanged, WatchArmed, WatchFired
from tests.kafka_zk.recorder.recording.histories import Znodes, history
from tests.kafka_zk.recorder.recording.test_recording import znodes

KEEP_MS = 1_500
FIRST_MS = 1_000_000
LATER_MS = FIRST_MS + 10 * KEEP_MS


def opened(path: Path, keep_ms: int | None = KEEP_MS) -> Recording:
    return Recording(path, keep_ms=keep_ms, present_ms=lambda: 1 << 50)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "r"


@pytest.fixture(autouse=True)
def many_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(znode_history, "_LEAST_BETWEEN_CHECKPOINTS", 25)


def span_ms(recording: Recording) -> int:
    first_ms, last_ms = recording.entries.times() or (0, 0)
    return last_ms - first_ms


def test_every_moment_that_is_kept_is_as_it_was(file: Path) -> None:
    """This holds after the file was continued, and for readers of the file."""
    recording = opened(file)
    moments: dict[int, Znodes] = {}
    for number, (transaction, after) in enumerate(history(3, 600)):
        if number == 400:
            recording.close()
            recording = opened(file)
        recording.add([], [transaction])
        moments[recording.entries.count] = after
        assert span_ms(recording) <= KEEP_MS + KEEP_MS // PART_COUNT + 10
    assert span_ms(recording) > KEEP_MS - 30
    first = recording.entries.first
    assert recording.misses == f"the first {first - 1} entries: they are older than --keep allows"
    reader = Recording(file, read_only=True)
    kept = [seq for seq in moments if seq >= first - 1]
    assert len(kept) > 100 and [reader.entries.first, reader.entries.count] == [first, recording.entries.count]
    for seq in kept:
        assert znodes(reader, seq) == znodes(recording, seq) == moments[seq]
    assert RecordingApi(reader).step({"seq": "1"})["seq"] == RecordingApi(reader).at({"time_ms": "0"})["seq"] == first
    assert reader.entries.first_from(0) == first
    reader.close()


@pytest.mark.parametrize("is_first", [True, False], ids=["recorded without", "recorded with a longer time"])
def test_a_file_that_has_more_is_cut_when_it_is_continued(file: Path, is_first: bool) -> None:
    recording = opened(file, None if is_first else 1_000 * KEEP_MS)
    happened = history(5, 500)
    recording.add([], [transaction for transaction, _ in happened])
    whole_ms, count = span_ms(recording), recording.entries.count
    recording.close()
    recording = opened(file)
    assert whole_ms > 3 * KEEP_MS > 2 * span_ms(recording) > KEEP_MS
    assert (recording.entries.count, znodes(recording, count)) == (count, happened[-1][1])
    recording.close()


@pytest.mark.parametrize("is_saved", [False, True])
def test_what_began_long_ago_and_lasts_is_there_from_the_first_moment(
    file: Path, tmp_path: Path, is_saved: bool
) -> None:
    """A stable cluster: a session, a broker group, its clients, a watch and a sample, all older than what is kept. What
    is over is dropped. The recording still says how far it has read ZooKeeper's log. All this is also true of a saved
    file.
    """
    recording = opened(file)
    recording.add([], [Transaction(1, FIRST_MS, 7, (Created("/brokers/ids/3", b"{}", ephemeral=True),))])
    groups = [
        AssignmentCompleted(FIRST_MS, "broker-3", "", 0, group, 1, {"anna": (TopicPartition("t", 0),)})
        for group in ("lasts", "ended")
    ]
    left = MemberDeparted(FIRST_MS + 1, "broker-3", "", 0, "ended", "anna", Departure.SESSION_ENDED)
    seen = [ClientsSeen(FIRST_MS + each, "broker-3", "", 0, (), (), each) for each in (0, 1)]
    recording.add([*groups, left, *seen, WatchArmed(FIRST_MS + 1, "broker-3", "", 0, "/a")], [])
    for time_ms, values in ((0, {"lasts": 5, "over": 6}), (1, {"lasts": 7, "over": None})):
        recording.samples.add(FIRST_MS + time_ms, values)
    for number in range(30):
        recording.add([WatchArmed(LATER_MS + 100 * number, "broker-4", "", 0, "/b")], [])
    if is_saved:
        list(export(recording, tmp_path / "part", recording.entries.first, recording.entries.count))
    recording.close()
    reader = Recording(tmp_path / "part" if is_saved else file, read_only=True)
    first = reader.entries.first
    state = RecordingApi(reader).state({"seq": str(first)})
    assert [each["name"] for each in state["cluster"]["coordinated"]] == ["lasts"]
    assert [each.document["left_out"] for each in reader.entries.clients_seen(first)] == [1]
    assert reader.entries.watchers(first) == {"/a": ["broker-3"], "/b": ["broker-4"]}
    assert [reader.znodes.after(first).znodes["/brokers/ids/3"].session, reader.sessions.actor_of(7)] == [7, "broker-3"]
    [span] = reader.spans.single(LATER_MS, LATER_MS, 9)
    assert (span.lane, span.holder) == ("broker 3", "session 0x7")
    assert reader.samples.rows(0, LATER_MS) == [("lasts", FIRST_MS + 1, 7)]
    assert reader.entries.last_zxid() == 1
    older = [each.kind for each in reader.entries.numbered(1, first - 1, 99)]
    assert older == [CREATED, "AssignmentCompleted", "ClientsSeen", "WatchArmed", "WatchArmed"]
    assert (reader.entries.times() or (0, 0))[0] >= LATER_MS
    reader.close()


def test_a_session_without_ephemeral_znodes_is_known_as_long_as_it_lives(file: Path) -> None:
    recording = opened(file)
    recording.add([], [Transaction(1, FIRST_MS, 7, (SessionCreated(6_000),))])
    recording.add([], [Transaction(2, FIRST_MS, 8, (SessionCreated(6_000),))])
    recording.add([SessionChanged(FIRST_MS, "anna", "", 0, SessionState.CONNECTED, 7)], [])
    recording.add([], [Transaction(3, FIRST_MS, 8, (SessionClosed(()),))])
    for number in range(9):
        recording.add([WatchArmed(LATER_MS + 100 * number, "broker-4", "", 0, "/b")], [])
    kept = recording.entries.numbered(1, recording.entries.first - 1, 9)
    assert [(each.kind, each.actor) for each in kept] == [(SESSION_BEGAN, "anna"), (SESSION_ENDED, "session 0x8")]
    assert recording.sessions.actor_of(7) == "anna"
    recording.close()


def test_members_that_left_long_ago_leave_no_spans(file: Path) -> None:
    """Names of members and groups may be random. A broker that is down and a partition that the group lacks remain."""
    recording = opened(file)
    paths = ["/brokers/ids/3", *(f"/consumers/{each}" for each in (
        "g/ids/anna", "g/owners/t/0", "g/owners/t/1", "gone/owners/t/0"))]  # fmt: skip
    recording.add([], [Transaction(1, FIRST_MS, 7, tuple(Created(path, b"anna-0", ephemeral=True) for path in paths))])
    recording.add([], [Transaction(2, FIRST_MS + 1, 7, (SessionClosed(None),))])
    recording.add([], [Transaction(3, FIRST_MS + 2, 8, (Created(paths[2], b"ben-0", ephemeral=True),))])
    for number in range(9):
        recording.add([WatchArmed(LATER_MS + 100 * number, "broker-4", "", 0, "/b")], [])
    lanes = [(span[1], span[2], span[3]) for span in recording.spans.rows(0, 2 * LATER_MS)]
    assert lanes == [("broker", "broker 3", ""), ("owner", "g: t-1", ""), ("owner", "g: t-0", "ben-0")]
    recording.close()


def test_what_was_valid_at_an_entry_that_arrived_late_is_there(file: Path) -> None:
    """The second entry that is left is older than the first."""
    recording = opened(file)
    late_ms = LATER_MS + 25
    recording.samples.add(late_ms - 1, {"sampled": 1})
    recording.samples.add(late_ms + 1, {"sampled": 2})
    for time_ms in (LATER_MS, LATER_MS + 30, late_ms, LATER_MS + 45, LATER_MS + KEEP_MS + 40):
        recording.add([WatchArmed(time_ms, "broker-4", "", 0, "/b")], [])
    kept = recording.entries.numbered(recording.entries.first, recording.entries.count, 9)
    assert [each.time_ms - LATER_MS for each in kept] == [30, 25, 45, KEEP_MS + 40]
    assert recording.samples.at(late_ms, ["sampled"]) == {"sampled": 1}
    recording.close()


def test_samples_remain_after_a_time_in_which_the_clock_was_ahead(file: Path) -> None:
    """The first part that is left began in the future."""
    times_ms = [0, 100, 200, 300, KEEP_MS + 250, KEEP_MS + 350]
    present_ms = iter([0, *times_ms[:4], 1 << 50, *times_ms[4:]])
    recording = Recording(file, keep_ms=KEEP_MS, present_ms=lambda: next(present_ms))
    recording.samples.add(1_000, {"sampled": 1})
    recording.samples.add(1_100, {"sampled": 2})
    for time_ms in (*times_ms[:4], 1 << 50, *times_ms[4:]):
        recording.add([WatchArmed(time_ms, "broker-4", "", 0, "/b")], [])
    assert recording.entries.first == 5
    assert recording.samples.at(1_050, ["sampled"]) == {"sampled": 1}
    recording.close()


def test_one_call_does_not_drop_everything_after_a_pause(file: Path) -> None:
    """Dropping everything would stall the recorder. Later calls drop the rest."""
    recording = opened(file)
    for number in range(10):
        recording.add([WatchArmed(FIRST_MS + 50 * number, "broker-4", "", 0, "/b")], [])
    firsts = []
    for number in range(9):
        recording.add([WatchArmed(LATER_MS + number, "broker-4", "", 0, "/b")], [])
        firsts.append(recording.entries.first)
    assert firsts == [3, 4, 5, 6, 7, 8, 9, 10, 11]
    recording.close()


def test_a_page_names_no_entry_that_it_lacks(file: Path, tmp_path: Path) -> None:
    """The cause of the page's first entry completes the state at the beginning, but is not an entry of the page."""
    recording = opened(file)
    recording.add([], [Transaction(1, FIRST_MS, 7, (Created("/brokers/ids/3", b"{}", ephemeral=True),))])
    recording.add([WatchFired(FIRST_MS + 1, "broker-4", "", 0, "/brokers/ids/3", EventType.CREATED)], [])
    list(export(recording, tmp_path / "part", 2, 2))
    part = Recording(tmp_path / "part", read_only=True)
    assert [each["seq"] for each in RecordingApi(part).entry({"seq": "2"})["why"]] == [1]
    exported = page_data.page_data(part, "")
    assert [exported["first"], [each["why"] for each in exported["details"]]] == [2, [[]]]
    part.close()
    recording.close()


def test_a_page_plays_no_entry_that_it_lacks(file: Path, tmp_path: Path) -> None:
    recording = opened(file)
    recording.add([], [Transaction(1, FIRST_MS, 7, (Created("/brokers/ids/3", b"{}", ephemeral=True),))])
    recording.add([WatchFired(FIRST_MS + 1, "broker-4", "", 0, "/brokers/ids/3", EventType.CREATED)], [])
    recording.add([], [Transaction(2, FIRST_MS + 1, 7, (SessionClosed(None),))])
    list(export(recording, tmp_path / "part", 2, 4))
    part = Recording(tmp_path / "part", read_only=True)
    [play] = page_data.page_data(part, "")["plays"].values()
    assert [step["seq"] for step in play["steps"]] == [2, 3, 4]
    part.close()
    recording.close()


def test_a_reader_sees_only_what_is_there_when_the_recorder_drops_more(file: Path) -> None:
    """The reader opened the file before. It never applies changes to znodes whose checkpoint is gone."""
    happened = history(6, 400)
    recording, moments = opened(file), {}
    for transaction, after in happened[:100]:
        recording.add([], [transaction])
        moments[recording.entries.count] = after
    reader = Recording(file, read_only=True)
    opened_count = reader.entries.count
    for transaction, after in happened[100:200]:
        recording.add([], [transaction])
        moments[recording.entries.count] = after
        first = recording.entries.first
        assert znodes(reader, 0) == znodes(recording, first - 1)
        assert opened_count < first or znodes(reader, opened_count) == moments[opened_count]
    assert 1 < recording.entries.first < opened_count
    reader.close()


def test_what_is_read_at_one_moment_is_not_dropped_meanwhile(file: Path) -> None:
    happened = [transaction for transaction, _ in history(6, 400)]
    recording = opened(file)
    recording.add([], happened[:100])
    assert recording.database.execute("pragma busy_timeout").fetchone() == (1_000,)  # the reactor waits
    recording.database.execute("pragma busy_timeout = 0")
    reader = Recording(file, read_only=True)
    with reader.one_moment():
        first, before = reader.entries.first, recording.entries.count
        with pytest.raises(Exception, match="locked"):
            recording.add([], happened[100:])
        assert (reader.entries.first, recording.entries.count) == (first, before)
    recording.add([], happened[100:])
    assert reader.entries.first > before
    reader.close()


def test_what_is_exported_while_its_beginning_is_dropped_is_refused(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_module, "ROWS_AT_ONCE", 10)
    happened = [transaction for transaction, _ in history(6, 400)]
    recording = opened(file)
    recording.add([], happened[:100])
    reader = Recording(file, read_only=True)
    parts = export(reader, tmp_path / "part", reader.entries.first, reader.entries.count)
    next(parts)
    recording.add([], happened[100:300])
    with pytest.raises(OSError, match="beginning was dropped"):
        list(parts)

    def drop(share: float) -> None:
        recording.add([], happened[300:])

    reader.entries.count = recording.entries.count
    with pytest.raises(page_data.NotExportable, match="beginning was dropped"):
        page_data.page_data(reader, "", drop)
    reader.close()


def test_a_kill_at_any_moment_leaves_a_recording_that_opens(file: Path, tmp_path: Path) -> None:
    """What a kill would leave is copied, the file and its journal, at many moments while parts are dropped."""
    recording, moments = opened(file), {0: Znodes()}
    happened = history(8, 300)
    for transaction, after in happened[:250]:
        recording.add([], [transaction])
        moments[recording.entries.count] = after
    copies: list[Path] = []

    def copy() -> int:
        copies.append(tmp_path / f"{len(copies)}.sqlite")
        for end in ("", "-journal"):
            if (of := Path(f"{file}{end}")).exists():
                shutil.copy(of, f"{copies[-1]}{end}")
        return 0

    recording.database.execute("pragma cache_size = 5")  # pages are written before the commit
    recording.database.set_progress_handler(copy, 1_000)
    firsts = {recording.entries.first}
    for transaction, after in happened[250:]:
        recording.add([], [transaction])
        moments[recording.entries.count] = after
        firsts.add(recording.entries.first)
    recording.database.set_progress_handler(None, 0)
    torn = [each for each in copies if Path(f"{each}-journal").exists()]
    assert len(torn) > 20 and len(firsts) > 5
    for each in copies:
        left = Recording(each, read_only=True)
        first, count = left.entries.first, left.entries.count
        assert [entry.seq for entry in left.entries.numbered(first, count, count)] == list(range(first, count + 1))
        assert first in firsts and znodes(left, count) == moments[count]
        assert first - 1 not in moments or znodes(left, first - 1) == moments[first - 1]
        left.close()
