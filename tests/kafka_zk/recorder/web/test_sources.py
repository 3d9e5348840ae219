"""A server's log as the source of a recording: from its beginning, or from the snapshot that replaces this."""

import struct
from pathlib import Path

import pytest

from kafka_zk.base.events import EventSource
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.timeline.trace_file import TraceWriter
from kafka_zk.recorder.web.sources import LogSource, TraceSource
from kafka_zk.registry.client.events import WatchArmed
from tests.kafka_zk.recorder.zookeeper_files.test_snapshot import snapshot, znode
from tests.kafka_zk.recorder.zookeeper_files.test_transaction_log import HEADER, created, record, text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The log begins with transaction 5; its snapshot is older than the transactions that delete /b and /c."""
    folder = tmp_path / "version-2"
    folder.mkdir()
    (folder / "snapshot.6").write_bytes(snapshot(znode("/a"), znode("/a/b"), znode("/b"), znode("/c")))
    (folder / "snapshot.8").write_bytes(snapshot(znode("/a"), znode("/a/b")))
    (folder / "log.5").write_bytes(HEADER + b"".join(record(zxid, 2, text(path)) for zxid, path in _DELETED))
    return folder


_DELETED = ((5, "/earlier"), (6, "/before"), (7, "/b"), (8, "/c"))


def _read(source: LogSource, recording: Recording) -> set[str]:
    recording.add([], source.read())
    return set(recording.znodes.after(recording.entries.count).znodes)


def test_what_was_purged_is_taken_from_a_snapshot(folder: Path) -> None:
    source, recording = LogSource(folder.parent), Recording()
    assert _read(source, recording) == {"/a", "/a/b"}
    assert set(recording.znodes.after(4).znodes) == {"/a", "/a/b", "/b", "/c"}
    assert "zxid 0x6" in source.misses
    with (folder / "log.5").open("ab") as log:
        log.write(record(9, 2, text("/a/b")))
    assert _read(source, recording) == {"/a"}


def test_who_knows_the_beginning_needs_no_snapshot(folder: Path) -> None:
    source = LogSource(folder.parent, after_zxid=4)
    assert [each.zxid for each in source.read()] == [5, 6, 7, 8]
    assert source.misses == ""


def test_a_recording_that_goes_on_after_a_gap_forgets_what_went_in_it(folder: Path) -> None:
    recording = Recording()
    recording.add([], LogSource(folder.parent).read())
    (folder / "log.5").unlink()
    (folder / "snapshot.14").write_bytes(snapshot(znode("/a"), znode("/new")))
    (folder / "log.15").write_bytes(HEADER + record(0x15, 2, text("/a")))
    source = LogSource(folder.parent, after_zxid=recording.entries.last_zxid())
    assert _read(source, recording) == {"/new"}
    assert [each.kind for each in recording.entries.numbered(7, 10, 9)] == ["deleted", "created", "deleted"]


def test_below_a_chroot_paths_are_without_it(folder: Path) -> None:
    assert _read(LogSource(folder.parent, "/a"), Recording()) == {"/b"}


def test_below_a_chroot_a_session_takes_its_znodes_along(tmp_path: Path) -> None:
    (tmp_path / "version-2").mkdir()
    paths = struct.pack(">i", 2) + text("/a/b") + text("/elsewhere")
    log = [record(1, 1, created("/a")), record(2, 1, created("/a/b", ephemeral=True)), record(3, -11, paths)]
    (tmp_path / "version-2" / "log.1").write_bytes(HEADER + b"".join(log))
    recording = Recording()
    assert _read(LogSource(tmp_path, "/a"), recording) == set()
    assert [each.kind for each in recording.entries.numbered(1, 9, 9)] == ["created", "session ended", "deleted"]


def test_without_a_snapshot_it_says_what_is_missing(folder: Path) -> None:
    for file in folder.glob("snapshot.*"):
        file.write_bytes(b"")
    source = LogSource(folder.parent)
    assert [each.zxid for each in source.read()] == [5, 6, 7, 8]
    assert "zxid 0x4" in source.misses


def test_a_snapshot_that_cannot_be_read_now_loses_nothing(folder: Path) -> None:
    content = (folder / "snapshot.6").read_bytes()
    (folder / "snapshot.6").unlink()
    (folder / "snapshot.6").mkdir()
    source = LogSource(folder.parent)
    with pytest.raises(OSError):
        source.read()
    (folder / "snapshot.6").rmdir()
    (folder / "snapshot.6").write_bytes(content)
    assert _read(source, Recording()) == {"/a", "/a/b"}
    assert source.read() == []


def test_traces_come_from_several_places(tmp_path: Path) -> None:
    """A folder that does not exist yet is read as soon as it does."""
    source = TraceSource(tmp_path / "brokers.jsonl", tmp_path / "members", from_start=True)
    for number, name in enumerate(("broker-0", "anna")):
        if number:
            (tmp_path / "members").mkdir()
        writer = TraceWriter(tmp_path / ("members" if number else "brokers.jsonl"), name)
        EventSource(name, writer).emit(WatchArmed, "/a", cause="started")
        writer.close()
        assert [each.event.actor for each in source.read()] == [name]


def test_a_folder_that_cannot_be_read_now_takes_no_other_trace_with_it(tmp_path: Path) -> None:
    """The events read before it come once, with the next successful call; no more are read until then."""
    paths = [tmp_path / name for name in ("brokers.jsonl", "members", "others.jsonl")]
    source = TraceSource(*paths, from_start=True)
    (paths[1] / "no-file.jsonl").mkdir(parents=True)
    writers = [TraceWriter(path, "a") for path in (paths[0], paths[1] / "anna.jsonl", paths[2])]

    def all_write() -> None:
        for number, writer in enumerate(writers):
            EventSource(f"process-{number}", writer).emit(WatchArmed, "/a", cause="started")

    for _ in range(2):
        all_write()
        with pytest.raises(OSError):
            source.read()
    (paths[1] / "no-file.jsonl").rmdir()
    told = [each.event.actor for each in source.read()]
    assert told == ["process-0", "process-1", "process-1", "process-2", "process-2"]
    assert [each.event.actor for each in source.read()] == ["process-0"]
    assert source.read() == []
    for writer in writers:
        writer.close()


def test_below_a_chroot_a_session_takes_its_znodes_with_it(tmp_path: Path) -> None:
    (tmp_path / "version-2").mkdir()
    ended = struct.pack(">i", 2) + text("/a/ephemeral") + text("/other")
    records = record(1, 1, created("/a/ephemeral", ephemeral=True)), record(2, -11, ended)
    (tmp_path / "version-2" / "log.1").write_bytes(HEADER + b"".join(records))
    recording = Recording()
    assert _read(LogSource(tmp_path, "/a"), recording) == set()
    assert set(recording.znodes.after(1).znodes) == {"/ephemeral"}
