"""Invalid files: each is reported once and kept under another name, and its content is rebuilt from other files where
possible. ``tests/soak/test_checkpoints.py`` tests random damage.
"""

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files.checkpoints import format_checkpoint, write_offsets
from kafka_zk.storage.files.findings import Finding, discard, free_path
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.manager.hosted_logs import LogCallbacks
from kafka_zk.storage.manager.log_manager import LogManager
from tests.storage.helpers import T0, TP, Clock, append, batch, offset_for_timestamp, present, read_offsets, read_values

START_OFFSETS = "log-start-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"


class Broker:
    """A log manager and the findings that it reported."""

    def __init__(self, path: Path, **config: Any) -> None:
        self.path = path
        self.told: list[Finding] = []
        self.manager = LogManager(
            [path],
            LogConfig(**{"segment_bytes": 250, "index_interval_bytes": 0} | config),
            broker_id=1,
            cluster_id="c",
            clock_ms=Clock(),
            callbacks=LogCallbacks(observe=self.told.append),
        )
        self.report = self.manager.start({})
        self.log = self.manager.get_or_create(TP, topic_id="YTI9vJfzQOepxQr8vcaMoQ")

    def fill(self, count: int = 10, leader_epoch: int = 0) -> None:
        """Append records one second apart, two per segment."""
        for _ in range(count):
            now_ms = T0 + 1000 * self.log.log_end_offset
            append(self.log, batch(value=b"x" * 40, timestamp_ms=now_ms), leader_epoch=leader_epoch, now_ms=now_ms)

    def stop(self, *, clean: bool = True) -> None:
        if clean:
            self.manager.shutdown()
            return
        for log_dir in self.manager.hosted.live_dirs:
            log_dir.close()
        self.log.segments.close_files()

    @property
    def paths(self) -> list[str]:
        """The paths in the findings, relative to the log directory."""
        return [os.path.relpath(finding.path, self.path) for finding in self.told]


def restarts_silently(broker: Broker, **config: Any) -> Broker:
    """A finding is reported at one start only; the next start finds the same records."""
    offsets, start, end = read_offsets(broker.log), broker.log.log_start_offset, broker.log.log_end_offset
    broker.stop()
    again = Broker(broker.path, **config)
    assert not again.told and not again.report.dropped
    assert (read_offsets(again.log), again.log.log_start_offset, again.log.log_end_offset) == (offsets, start, end)
    return again


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("start", [11, 500])
def test_a_log_start_beyond_the_end_moves_the_segments_aside(tmp_path: Path, clean: bool, start: int) -> None:
    """The log begins at its log start offset, as in Kafka, so that no offset is assigned twice. But no data are deleted
    on the strength of a number alone.
    """
    broker = Broker(tmp_path)
    broker.fill()
    values = read_values(broker.log)
    broker.stop(clean=clean)
    write_offsets(str(tmp_path / START_OFFSETS), {TP: start})
    again = Broker(tmp_path)
    assert (again.log.log_start_offset, again.log.log_end_offset, read_offsets(again.log)) == (start, start, [])
    assert again.log.leader_epochs.entries == []
    (finding,) = again.told
    assert (again.paths, finding.kept_as) == ([str(TP)], str(tmp_path / str(TP) / f"{start:020d}.moved-aside"))
    assert f"ends at offset 10, but its log start offset is {start}" in finding.problem
    assert "5 segments" in finding.meaning
    assert append(again.log, batch(), leader_epoch=1).first_offset == start
    last = restarts_silently(again)
    last.stop()

    moved = Path(present(finding.kept_as))
    for each in last.log.directory.iterdir():
        if each.is_file() and each.name != "partition.metadata":
            each.unlink()
    for each in moved.iterdir():
        each.rename(last.log.directory / each.name)
    (tmp_path / START_OFFSETS).unlink()
    mended = Broker(tmp_path)
    assert read_values(mended.log) == values, "the segments that were moved aside are intact"
    mended.stop()


def test_a_second_log_that_is_moved_aside_has_another_folder(tmp_path: Path) -> None:
    """Nothing is overwritten, and no file in such a folder is mistaken for a segment."""
    for _ in range(2):
        broker = Broker(tmp_path)
        broker.fill(4)
        broker.stop()
        write_offsets(str(tmp_path / START_OFFSETS), {TP: 500})
        broker = Broker(tmp_path)
        broker.log.truncate_fully_and_start_at(0)
        broker.stop()
        (tmp_path / START_OFFSETS).unlink()
    assert sorted(each.name for each in (tmp_path / str(TP)).glob("*.moved-aside")) == [
        f"{500:020d}.2.moved-aside", f"{500:020d}.moved-aside",
    ]  # fmt: skip


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"0\n2\nevents 0 5\n", b"1\n1\nevents 0 5\n", None])
def test_a_lost_log_start_is_told_with_what_it_means(tmp_path: Path, content: bytes | None) -> None:
    """The log reports that deleted records may be back, also if the file is missing."""
    broker = Broker(tmp_path, segment_bytes=1000)
    broker.fill()
    broker.log.increment_log_start_offset(5)
    broker.stop()
    path = tmp_path / START_OFFSETS
    path.unlink() if content is None else path.write_bytes(content)
    again = Broker(tmp_path, segment_bytes=1000)
    assert again.log.log_start_offset == 0
    (finding,) = again.told
    assert again.paths == [START_OFFSETS]
    assert "records that DeleteRecords deleted may be back" in finding.meaning
    if content is None:
        assert (finding.problem, finding.kept_as) == ("is missing", None)
    else:
        assert Path(present(finding.kept_as)).read_bytes() == content
    restarts_silently(again, segment_bytes=1000).stop()


def test_a_first_start_and_one_after_a_kill_tell_nothing(tmp_path: Path) -> None:
    """No file exists yet, or no checkpoint has been written."""
    for _ in range(2):
        broker = Broker(tmp_path)
        broker.fill(3)
        broker.stop(clean=False)
        assert not broker.told


@pytest.mark.parametrize("name", [RECOVERY_POINTS, "replication-offset-checkpoint"])
def test_other_checkpoints_of_a_directory_are_told_as_well(tmp_path: Path, name: str) -> None:
    """The loss of such a checkpoint makes a recovery longer, or resets high watermarks."""
    broker = Broker(tmp_path)
    broker.fill()
    broker.manager.upkeep.checkpoint()
    broker.manager.upkeep.checkpoint_high_watermarks()
    broker.stop(clean=False)
    (tmp_path / name).write_bytes(b"0\n1\nevents 0 x\n")
    again = Broker(tmp_path)
    assert again.paths == [name] and "'x' is not a number" in again.told[0].problem
    assert read_offsets(again.log) == list(range(10))
    again.manager.upkeep.checkpoint_high_watermarks()
    restarts_silently(again).stop()


@pytest.mark.parametrize("clean", [True, False])
def test_a_recovery_point_that_no_segment_can_hold_is_not_believed(tmp_path: Path, clean: bool) -> None:
    """If the start used it, the log would continue at that offset after a torn batch at its end."""
    broker = Broker(tmp_path)
    broker.fill()
    active = broker.log.segments.active.path
    broker.stop(clean=clean)
    write_offsets(str(tmp_path / RECOVERY_POINTS), {TP: 1 << 60})
    if not clean:
        os.truncate(active, os.path.getsize(active) - 5)
    again = Broker(tmp_path)
    assert again.log.log_end_offset == (10 if clean else 9)
    assert any(str(1 << 60) in finding.problem for finding in again.told)
    restarts_silently(again).stop()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("content", [b"\0\0\0", b"", b"0\n0\n", b"0\n2\n4 4\n2 0\n", None])
def test_leader_epochs_come_back_from_the_batches(tmp_path: Path, clean: bool, content: bytes | None) -> None:
    """All epochs are restored, also those in closed segments. A missing file is noticed if batches have epochs."""
    broker = Broker(tmp_path)
    for epoch in (0, 2, 4):
        broker.fill(4, epoch)
    broker.log.flush()
    broker.manager.upkeep.checkpoint()
    epochs = broker.log.leader_epochs.entries
    assert epochs == [(0, 0), (2, 4), (4, 8)]
    path = broker.log.directory / "leader-epoch-checkpoint"
    broker.stop(clean=clean)
    path.unlink() if content is None else path.write_bytes(content)
    again = Broker(tmp_path)
    assert again.log.leader_epochs.entries == epochs
    assert again.paths == [f"{TP}/leader-epoch-checkpoint"]
    assert path.read_bytes() == format_checkpoint(epochs)
    restarts_silently(again).stop()


def test_an_idle_log_needs_no_leader_epochs(tmp_path: Path) -> None:
    """The log has no file, so none is reported as missing."""
    broker = Broker(tmp_path)
    broker.log.leader_epochs.begin(3, 0)
    restarts_silently(broker).stop()


@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_snapshot_is_told_and_kept(tmp_path: Path, clean: bool) -> None:
    """The producers are restored from the log."""
    broker = Broker(tmp_path)
    for sequence in range(10):
        append(broker.log, batch(value=b"x" * 40, producer_id=1, producer_epoch=0, base_sequence=sequence))
    newest = max(broker.log.directory.glob("*.snapshot"))
    if clean:
        broker.stop()
        newest = max(newest.parent.glob("*.snapshot"))
    else:
        broker.stop(clean=False)
    newest.write_bytes(newest.read_bytes()[:-1] + b"?")
    again = Broker(tmp_path)
    assert again.paths == [f"{TP}/{newest.name}"] and "the CRC does not match" in again.told[0].problem
    assert Path(present(again.told[0].kept_as)).exists()
    duplicate = append(again.log, batch(value=b"x" * 40, producer_id=1, producer_epoch=0, base_sequence=9))
    assert (duplicate.duplicate, duplicate.first_offset) == (True, 9)
    restarts_silently(again).stop()


@pytest.mark.parametrize("content", [b"", b"version: 0\ntopic_id: ?\n", b"\xff"])
def test_a_damaged_topic_id_keeps_nobody_from_starting(tmp_path: Path, content: bytes) -> None:
    """The log is served, and gets its topic id again from the next caller that knows it."""
    broker = Broker(tmp_path)
    broker.fill()
    broker.stop()
    (tmp_path / str(TP) / "partition.metadata").write_bytes(content)
    again = Broker(tmp_path)
    assert again.paths == [f"{TP}/partition.metadata"]
    assert again.log.topic_id == "YTI9vJfzQOepxQr8vcaMoQ", "get_or_create set the topic id"
    assert read_offsets(again.log) == list(range(10))
    restarts_silently(again).stop()


def damage_index(path: Path, kind: str) -> None:
    data = path.read_bytes()
    if kind == "missing":
        path.unlink()
    elif kind == "noise":
        path.write_bytes(b"\x5a" * 40)
    else:
        path.write_bytes(data[: len(data) - 12])


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    ("suffix", "kind"), [("index", "noise"), ("index", "missing"), ("timeindex", "noise"), ("timeindex", "missing"),
                         ("timeindex", "cut")],
)  # fmt: skip
def test_a_damaged_index_is_made_anew(tmp_path: Path, clean: bool, suffix: str, kind: str) -> None:
    """Indexes of closed segments are rebuilt, too: no record becomes unreadable, and none expires early."""
    config = {"segment_bytes": 1000, "retention_ms": 100_000}
    broker = Broker(tmp_path, **config)
    broker.fill(12)
    broker.log.flush()
    broker.manager.upkeep.checkpoint()
    path = broker.log.directory / f"{0:020d}.{suffix}"
    assert len(broker.log.segments) == 2
    content = path.read_bytes()
    broker.stop(clean=clean)
    damage_index(path, kind)
    again = Broker(tmp_path, **config)
    assert again.paths == [f"{TP}/{path.name}"]
    assert path.read_bytes() == content
    assert read_offsets(again.log) == list(range(12))
    for offset in range(12):
        found = offset_for_timestamp(again.log, T0 + 1000 * offset)
        assert found is not None and found.offset == offset
    assert again.log.delete_old_segments(T0 + 100_000) == 0
    restarts_silently(again, **config).stop()


def test_an_index_of_a_kafka_follower_is_as_good(tmp_path: Path) -> None:
    """For each append of a follower, Kafka 3.9 adds one entry: the last offset and the position of the first batch."""
    broker = Broker(tmp_path, segment_bytes=1 << 20)
    broker.fill(40)
    broker.log.roll(T0)
    spans = list(broker.log.segments[0].spans())
    broker.stop()
    path = broker.log.directory / f"{0:020d}.index"
    rows = [(spans[at + 3].last_offset, spans[at].position) for at in range(4, 36, 4)]
    path.write_bytes(b"".join(struct.pack(">ii", *row) for row in rows))
    content = path.read_bytes()
    again = Broker(tmp_path, segment_bytes=1 << 20)
    assert not again.told
    for offset in range(40):
        found = offset_for_timestamp(again.log, T0 + 1000 * offset)
        assert found is not None and found.offset == offset
        assert again.log.read(offset, 1).next_offset == offset + 1
    restarts_silently(again, segment_bytes=1 << 20).stop()
    assert path.read_bytes() == content


@pytest.mark.slow
def test_a_flip_within_an_index_leads_nobody_astray(tmp_path: Path) -> None:
    """A start does not check every entry, so a lookup compares the entries that it uses with the log."""
    broker = Broker(tmp_path, segment_bytes=1 << 20)
    broker.fill(40)
    broker.log.roll(T0)
    broker.stop()
    for suffix, size in (("index", 8), ("timeindex", 12)):
        path = broker.log.directory / f"{0:020d}.{suffix}"
        sound = path.read_bytes()
        for entry in range(1, len(sound) // size - 1):
            for byte in range(size):
                path.write_bytes(sound[: entry * size + byte] + b"\x77" + sound[entry * size + byte + 1 :])
                again = Broker(tmp_path, segment_bytes=1 << 20)
                for offset in range(40):
                    found = offset_for_timestamp(again.log, T0 + 1000 * offset)
                    assert found is not None and found.offset == offset
                    read = again.log.read(offset, 1)
                    assert read.slice is not None and read.next_offset == offset + 1
                    assert again.log.read(offset, 300).next_offset > offset
                again.stop()
        path.write_bytes(sound)


def test_a_segment_that_a_crash_left_open_and_a_later_one_closed_has_its_newest_timestamp(tmp_path: Path) -> None:
    """There are two crashes in a row. After the first, the segment is rolled but not flushed; it becomes durable before
    the second.
    """
    broker = Broker(tmp_path, segment_bytes=1000, index_interval_bytes=300)
    broker.fill(12)
    assert len(broker.log.segments) == 2
    broker.stop(clean=False)
    (tmp_path / str(TP) / f"{0:020d}.timeindex").write_bytes(b"")  # the state that a power loss leaves
    broker = Broker(tmp_path, segment_bytes=1000, index_interval_bytes=300)
    broker.log.flush()
    broker.manager.upkeep.checkpoint()
    broker.stop(clean=False)
    again = Broker(tmp_path, segment_bytes=1000, index_interval_bytes=300)
    assert not again.told
    for offset in range(12):
        found = offset_for_timestamp(again.log, T0 + 1000 * offset)
        assert found is not None and found.offset == offset
    again.stop()


def test_the_index_of_no_segment_is_told(tmp_path: Path) -> None:
    """Kafka reports it, too."""
    broker = Broker(tmp_path)
    broker.fill(4)
    broker.stop()
    stray = tmp_path / str(TP) / f"{77:020d}.index"
    stray.write_bytes(b"")
    again = Broker(tmp_path)
    assert again.paths == [f"{TP}/{stray.name}"] and not stray.exists()
    restarts_silently(again).stop()


def test_damage_to_what_was_durable_is_told_when_the_log_goes_on_behind_it(tmp_path: Path) -> None:
    """The bytes stay, so that readers report the damage. The log begins a new segment at the recovery point."""
    broker = Broker(tmp_path)
    broker.fill()
    broker.log.flush()
    broker.manager.upkeep.checkpoint()
    active = broker.log.segments.active.path
    broker.stop(clean=False)
    os.truncate(active, os.path.getsize(active) - 5)
    again = Broker(tmp_path)
    assert again.log.log_end_offset == 10
    assert again.paths[-1] == os.path.relpath(active, tmp_path)
    assert "the log continues at offset 10" in again.told[-1].meaning
    again.stop()


@pytest.mark.parametrize(
    "name",
    [
        START_OFFSETS, RECOVERY_POINTS, "replication-offset-checkpoint", ".kafka_cleanshutdown", START_OFFSETS + ".tmp",
        f"{TP}/leader-epoch-checkpoint", f"{TP}/leader-epoch-checkpoint.tmp", f"{TP}/partition.metadata",
        f"{TP}/{0:020d}.index", f"{TP}/{0:020d}.timeindex", f"{TP}/{10:020d}.snapshot", f"{TP}/{10:020d}.log",
        f"{TP}/{0:020d}.log.deleted",
    ],
)  # fmt: skip
def test_a_directory_in_a_files_place_goes_out_of_the_way(tmp_path: Path, name: str) -> None:
    """If the directory stayed, the first write would take the log directory offline."""
    broker = Broker(tmp_path)
    broker.fill()
    broker.manager.upkeep.checkpoint_high_watermarks()
    broker.stop()
    path = tmp_path / name
    path.unlink(missing_ok=True)
    path.mkdir()
    (path / "something").write_bytes(b"in it")
    again = Broker(tmp_path)
    assert name in again.paths
    kept_as = next(finding.kept_as for finding in again.told if finding.kept_as)
    assert (Path(kept_as) / "something").exists()
    assert read_offsets(again.log) == list(range(10))
    again.manager.upkeep.checkpoint_high_watermarks()
    restarts_silently(again).stop()


def test_what_is_kept_has_a_name_of_its_own(tmp_path: Path) -> None:
    """The name is never that of a partition directory."""
    kept = []
    for number in range(3):
        (tmp_path / "a").write_bytes(b"%d" % number)
        kept.append(present(discard(str(tmp_path / "a"), "why", "so").kept_as))
    assert [os.path.basename(path) for path in kept] == ["a.damaged", "a.2.damaged", "a.3.damaged"]
    assert [Path(path).read_bytes() for path in kept] == [b"0", b"1", b"2"]
    assert free_path(str(tmp_path / "b"), ".damaged") == str(tmp_path / "b.damaged")


def test_a_directory_whose_partition_nobody_could_have_made_is_left_alone(tmp_path: Path) -> None:
    """The directory's partition number is too large for a checkpoint, and would make the whole checkpoint
    unreadable.
    """
    (tmp_path / "events-99999999999").mkdir()
    (tmp_path / "events-007").mkdir()
    broker = Broker(tmp_path)
    broker.fill(3)
    assert [log.tp for log in broker.manager.all_logs()] == [TopicPartition("events", 0)]
    restarts_silently(broker).stop()
