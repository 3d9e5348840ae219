"""Power losses with all of Kafka's ways to leave holes in a log. Removing any rule that makes them harmless must make a
test fail. ``tests/soak`` runs longer histories.
"""

import os
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.sim.machine.disk import SimDisk
from kafka_zk.storage.files import files
from kafka_zk.storage.files.filenames import RECOVERY_POINT_CHECKPOINT as RECOVERY_POINTS
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.producer_snapshot import SnapshotUnderWay
from kafka_zk.storage.log.producer_state import ProducerState
from kafka_zk.storage.manager.hosted_logs import HostedLogs, LogCallbacks
from kafka_zk.storage.manager.log_dir import LogDir
from kafka_zk.storage.manager.log_manager import LogManager
from kafka_zk.storage.manager.log_start import StartReport
from kafka_zk.storage.records.end_transaction_marker import marker_batch
from kafka_zk.storage.records.log_validator import validate_batch
from kafka_zk.storage.segments.index_check import next_offset
from kafka_zk.storage.segments.log_segments import LogSegments
from kafka_zk.storage.segments.segment import Segment
from kafka_zk.storage.segments.transaction_index import TransactionIndex
from tests.soak.power import JournaledDisk
from tests.storage.compacted import SMALL
from tests.storage.done_here import clean_here
from tests.storage.helpers import T0, Clock, append, batch, new_log, present, read_offsets, reopen
from tests.storage.power_history import LEADER, Lives

SEEDS = 60


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_left_is_what_was_durable_and_a_prefix(seed: int) -> None:
    Lives(seed).play()


def test_the_lives_meet_what_they_are_about() -> None:
    """A judge without such events would have nothing to check."""
    lives = [Lives(seed) for seed in range(10)]
    for each in lives:
        each.play()
    assert sum(each.cleaned_count for each in lives) > 10
    assert sum(each.dropped_count for each in lives) > 10
    assert sum(each.produced.aborted_count for each in lives) > 30
    assert sum(each.produced.exact_count for each in lives) > 5


def _recovery_keeps_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery keeps gaps as Kafka does."""
    monkeypatch.setattr(LogDir, "is_contiguous", property(lambda self: False, lambda self, value: None), raising=False)


def _recovery_point_is_written_some_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cleaner does not wait for the recovery point."""
    monkeypatch.setattr(HostedLogs, "prepare_recovery_point", lambda self, log, offset: None)


def _segments_begin_with_their_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower's segments are named as Kafka's are."""

    def roll_for(self: Log, base_offset: int, last_offset: int, now_ms: int) -> None:
        self.log_end_offset = base_offset
        self.roll(now_ms)

    monkeypatch.setattr(Log, "_roll_for", roll_for)


def _truncation_forgets_the_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that ends in a gap of compaction counts as durable up to its end."""
    monkeypatch.setattr(LogSegments, "end_before", lambda self, offset: offset)


def _flushes_leave_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshots stay in the page cache until the system writes them."""
    monkeypatch.setattr(ProducerState, "prepare_sync", lambda self, directory: ([], lambda: None))


def _retention_leaves_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention deletes segments even if no snapshot is durable."""
    monkeypatch.setattr(ProducerState, "has_unsynced_snapshots", False)
    monkeypatch.setattr(ProducerState, "lacks_snapshot", lambda self, offset: False)


def _large_snapshots_count_as_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    def end_snapshot(self: ProducerState, snapshot: SnapshotUnderWay) -> None:
        self.under_way = None
        self.snapshot_offset = self.durable_offset = snapshot.offset

    monkeypatch.setattr(ProducerState, "end_snapshot", end_snapshot)


def _compaction_ignores_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction removes markers that a start needs, because the newest snapshot precedes them."""
    everything = property(lambda self: 1 << 62, lambda self, offset: None)
    monkeypatch.setattr(ProducerState, "durable_offset", everything)


def _the_first_flush_takes_the_aborted_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second flush that ends earlier moves the recovery point without the index entries."""
    real = TransactionIndex.prepare_sync

    def prepare_sync(self: TransactionIndex) -> tuple[str | None, Callable[[], None]]:
        path, done = real(self)
        done()
        return path, done

    monkeypatch.setattr(TransactionIndex, "prepare_sync", prepare_sync)


def _flushes_leave_aborted_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Segment, "prepare_transactions_sync", lambda self: (None, lambda: None))


def _recovery_believes_aborted_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery does not compare the transaction indexes with the markers."""
    monkeypatch.setattr(LogSegments, "replace_aborted", lambda self, start_offset, aborted: None)


SAFEGUARDS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a gap beyond the recovery point is lost data": _recovery_keeps_gaps,
    "the recovery point on disk explains a gap before there is one": _recovery_point_is_written_some_day,
    "a follower's segment begins where its log ends": _segments_begin_with_their_first_batch,
    "a log that ends in a gap is durable only up to its last record": _truncation_forgets_the_gap,
    "a flush syncs the producer snapshots": _flushes_leave_snapshots,
    "retention waits for the producer snapshots": _retention_leaves_snapshots,
    "a flush syncs a large producer snapshot": _large_snapshots_count_as_durable,
    "compaction stays behind the durable producer snapshot": _compaction_ignores_snapshots,
    "each flush syncs the aborted transactions until one has ended": _the_first_flush_takes_the_aborted_transactions,
    "a flush syncs the aborted transactions": _flushes_leave_aborted_transactions,
    "recovery rebuilds the aborted transactions": _recovery_believes_aborted_transactions,
}


FOUND_BY = {
    "a log that ends in a gap is durable only up to its last record": 366,
    "a flush syncs the producer snapshots": 41,
    "retention waits for the producer snapshots": 36,
    "a flush syncs a large producer snapshot": 36,
    "compaction stays behind the durable producer snapshot": 98,
    "each flush syncs the aborted transactions until one has ended": 27,
}
"""Seeds that run first to save time; other seeds may also find the fault."""


@pytest.mark.parametrize("safeguard", SAFEGUARDS)
def test_a_missing_safeguard_is_noticed(safeguard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    SAFEGUARDS[safeguard](monkeypatch)
    for seed in (FOUND_BY.get(safeguard, 0), *range(10 * SEEDS)):
        try:
            Lives(seed).play()
        except Exception:
            return
    pytest.fail(f"{10 * SEEDS} seeds found nothing")


# -- one by one -------------------------------------------------------------------------------------------------------

CONFIG = LogConfig(cleanup_policy=("compact",), segment_bytes=250)


def manager(path: Path, **options: Any) -> LogManager:
    directories = [path / "a", path / "b"]
    callbacks = LogCallbacks(**options)
    return LogManager(directories, CONFIG, broker_id=0, cluster_id="c", clock_ms=Clock(), callbacks=callbacks)


def crash(logs: LogManager) -> None:
    """Simulate a killed process: nothing more is written."""
    for log_dir in logs.hosted.live_dirs:
        log_dir.close()
    for log in logs.all_logs():
        log.segments.close_files()


def restarted(logs: LogManager, path: Path, policy: str = "compact") -> tuple[Log, StartReport]:
    crash(logs)
    again = manager(path)
    report = again.start({"led": {"cleanup.policy": policy}})
    return present(again.get(LEADER)), report


def filled(logs: LogManager, count: int = 12) -> Log:
    """A leader's log with two records per segment, each with a different key."""
    log = logs.get_or_create(LEADER, CONFIG, "YTI9vJfzQOepxQr8vcaMoQ")
    for number in range(count):
        append(log, batch(key=b"k%d" % number, value=b"x" * 40))
    return log


def test_closed_segments_that_are_empty_after_a_power_loss_end_a_compacted_log(tmp_path: Path) -> None:
    """The replica fetches these records again instead of leading without them. Later records are moved aside."""
    logs = manager(tmp_path)
    logs.start({})
    log = filled(logs)
    log.flush(4)
    logs.upkeep.checkpoint()
    for segment in log.segments[2:4]:
        os.truncate(segment.path, 0)
    again, report = restarted(logs, tmp_path)
    assert (again.log_end_offset, read_offsets(again)) == (4, [0, 1, 2, 3])
    (dropped,) = report.dropped
    assert dropped.reason == "the records 4 to 5 are missing"
    kept = Path(present(dropped.kept_as))
    assert sorted(path.name for path in kept.glob("*.log")) == [f"{base:020d}.log" for base in (6, 8, 10)]


def test_a_folder_of_kafkas_keeps_its_gaps_and_explains_them_from_then_on(tmp_path: Path) -> None:
    """Kafka's brokers compact beyond the recovery point; they drop the row that states that our brokers do not."""
    logs = manager(tmp_path)
    logs.start({})
    log = filled(logs)
    path = logs.log_dir_of(LEADER) / RECOVERY_POINTS
    os.truncate(log.segments[2].path, 0)
    path.write_text("0\n1\nled 0 2\n")
    again, report = restarted(logs, tmp_path)
    expected = [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]
    assert (read_offsets(again), report.dropped) == (expected, ())
    assert path.read_text() == "0\n2\n__kafka_zk_contiguous 0 0\nled 0 12\n"


@pytest.mark.parametrize("content", [None, b"", b"\0" * 40])
def test_without_its_recovery_points_a_broker_keeps_every_record(tmp_path: Path, content: bytes | None) -> None:
    """The topic was compacted earlier, but no longer is."""
    logs = manager(tmp_path)
    logs.start({})
    log = filled(logs)
    for _ in range(8):
        append(log, batch(key=b"same", value=b"x" * 40))
    log.flush()
    logs.upkeep.checkpoint()
    present(clean_here(log, SMALL, T0))
    expected = read_offsets(log)
    assert any(next_offset(each) < after.base_offset for each, after in pairwise(log.segments)), "there is a gap"
    for name in (RECOVERY_POINTS, "cleaner-offset-checkpoint"):
        path = logs.log_dir_of(LEADER) / name
        path.unlink(missing_ok=True) if content is None else path.write_bytes(content)
    again, report = restarted(logs, tmp_path, "delete")
    assert (read_offsets(again), report.dropped) == (expected, ())


def test_a_clean_stop_leaves_no_mark_and_the_next_start_sets_it(tmp_path: Path) -> None:
    """Another broker may write to the folder in between."""
    logs = manager(tmp_path)
    logs.start({})
    filled(logs)
    path = logs.log_dir_of(LEADER) / RECOVERY_POINTS
    assert "contiguous" in path.read_text()
    logs.shutdown()
    assert path.read_text() == "0\n1\nled 0 12\n"
    again = manager(tmp_path)
    again.start({})
    assert "contiguous" in path.read_text()
    again.shutdown()


def test_a_moved_log_takes_its_recovery_point_along(tmp_path: Path) -> None:
    """The copy may end in a gap, which only the recovery point explains. In this test, the checkpoint after the move is
    never written."""
    logs = manager(tmp_path, run_blocking=lambda work, done: None)
    logs.start({})
    log = filled(logs, 3)
    log.extend_to(9, T0)
    (target,) = (each for each in logs.live_directories if each != logs.log_dir_of(LEADER))
    future = logs.moves.begin_future(LEADER, target)
    future.append_as_follower(b"".join(present(log.read(at, 1000).slice).read() for at in (0, 2)), now_ms=T0)
    future.extend_to(9, T0)
    logs.moves.replace_by_future(LEADER)
    again, report = restarted(logs, tmp_path)
    assert (again.log_end_offset, report.dropped) == (9, ())


@pytest.mark.parametrize("has_entry", [True, False])
def test_a_folder_that_is_moved_by_hand_needs_its_recovery_point(tmp_path: Path, has_entry: bool) -> None:
    """After an unclean stop, only the recovery point tells this log from a new one whose first segment is lost. Without
    it the records are moved aside."""
    logs = manager(tmp_path)
    logs.start({})
    log = filled(logs)
    log.flush()
    log.increment_log_start_offset(4)
    assert log.delete_old_segments(T0) == 2
    logs.upkeep.checkpoint()
    source = logs.log_dir_of(LEADER)
    (target,) = (each for each in logs.live_directories if each != source)
    crash(logs)
    (source / "led-0").rename(target / "led-0")
    assert (source / RECOVERY_POINTS).read_text() == "0\n2\n__kafka_zk_contiguous 0 0\nled 0 12\n"
    if has_entry:
        (target / RECOVERY_POINTS).write_text("0\n2\n__kafka_zk_contiguous 0 0\nled 0 12\n")
    again = manager(tmp_path)
    report = again.start({})
    if has_entry:
        assert (read_offsets(present(again.get(LEADER))), report.dropped) == (list(range(4, 12)), ())
    else:
        kept = Path(present(report.dropped[0].kept_as))
        assert sorted(path.name for path in kept.glob("*.log")) == [f"{base:020d}.log" for base in (4, 6, 8, 10)]


@pytest.mark.parametrize("seed", range(10))
def test_the_end_of_a_log_without_its_last_records_is_durable(tmp_path: Path, seed: int) -> None:
    """The log's end is the offset in the name of the segment that begins there."""
    folder, found = tmp_path / "before", tmp_path / "after"
    folder.mkdir()
    log = new_log(folder)
    append(log, batch(5))
    log.flush()
    disk = JournaledDisk(folder)
    with files.use(disk):
        log.extend_to(9, T0)
        assert log.recovery_point == 9
    log.segments.close_files()
    disk.lose_power(random.Random(seed), found)
    log.segments.directory = str(found / "events-0")
    again, _ = reopen(log, recovery_point=9)
    assert again.log_end_offset == 9


@pytest.mark.parametrize("seed", range(10))
def test_a_producer_whose_records_are_deleted_is_known_after_a_power_loss(seed: int) -> None:
    """The snapshot of a roll becomes durable at the latest when the recovery point passes it."""
    disk = SimDisk(lambda: T0)
    with files.use(disk):
        log = new_log(Path("/broker"), segment_bytes=200, retention_ms=1)
        append(log, batch(2, value=b"x" * 50, producer_id=9, producer_epoch=0, base_sequence=0))
        for number in range(6):
            append(log, batch(2, value=b"x" * 50, producer_id=8, producer_epoch=0, base_sequence=2 * number))
        log.flush()
        log.update_high_watermark(log.log_end_offset)
        log.increment_log_start_offset(log.segments[-2].base_offset)
        assert log.delete_old_segments(T0) == 5  # one snapshot is left that counts
        start, end = log.log_start_offset, log.log_end_offset
        disk.lose_power("/broker", random.Random(seed))
        again, _ = reopen(log, recovery_point=end, log_start_offset=start)
        assert {each: entry.last_sequence for each, entry in again.producers.producers.items()} == {9: 1, 8: 11}


@pytest.mark.parametrize("seed", range(10))
def test_retention_syncs_a_snapshot_that_the_recovery_point_has_reached_without_it(seed: int) -> None:
    """A flush of the log's end is followed by a roll there, whose snapshot is then the only one of the producer."""
    disk = SimDisk(lambda: T0)
    with files.use(disk):
        log = new_log(Path("/broker"), segment_bytes=200)
        append(log, batch(2, value=b"x" * 50, producer_id=9, producer_epoch=0, base_sequence=0))
        for number in range(2):
            append(log, batch(2, value=b"x" * 50, producer_id=8, producer_epoch=0, base_sequence=2 * number))
        log.flush()
        append(log, batch(2, value=b"x" * 50, producer_id=8, producer_epoch=0, base_sequence=4))
        log.update_high_watermark(log.log_end_offset)
        log.increment_log_start_offset(4)
        assert (log.recovery_point, log.delete_old_segments(T0)) == (6, 2)
        disk.lose_power("/broker", random.Random(seed))
        again, _ = reopen(log, recovery_point=6, log_start_offset=4)
        assert again.producers.producers[9].last_sequence == 1


@pytest.mark.parametrize("seed", range(10))
def test_retention_syncs_a_snapshot_that_a_killed_process_left_in_the_page_cache(seed: int) -> None:
    """The start after the kill uses the snapshot as if it were durable."""
    disk = SimDisk(lambda: T0)
    with files.use(disk):
        log = new_log(Path("/broker"))
        append(log, batch(2, producer_id=9, producer_epoch=0, base_sequence=0))
        log.roll(T0)
        log.flush()
        for number in range(2):
            append(log, batch(2, producer_id=8, producer_epoch=0, base_sequence=2 * number))
            log.roll(T0)
        disk.close_all("/broker")
        again, _ = reopen(log, recovery_point=2)
        again.flush()
        again.increment_log_start_offset(2)
        assert again.delete_old_segments(T0) == 1
        disk.lose_power("/broker", random.Random(seed))
        last, _ = reopen(again, recovery_point=6, log_start_offset=2)
        assert {each: entry.last_sequence for each, entry in last.producers.producers.items()} == {9: 1, 8: 3}


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_a_transaction_index_that_was_made_anew_is_durable(seed: int, is_clean: bool) -> None:
    """No flush syncs the index, because the recovery point has already passed it."""
    disk = SimDisk(lambda: T0)
    with files.use(disk):
        log = new_log(Path("/broker"))
        append(log, batch(producer_id=9, producer_epoch=0, base_sequence=0, transactional=True))
        marker = marker_batch(9, 0, 0, is_commit=False, timestamp_ms=T0)
        log.append_as_leader(marker, validate_batch(marker), leader_epoch=0, now_ms=T0, from_client=False)
        aborted = log.aborted_transactions(0, 2)
        log.roll(T0)
        append(log, batch())
        log.flush()
        log.close()
        path = f"{log.directory}/{0:020}.txnindex"
        files.write_file(path, b"damaged")
        files.sync_path(path)
        again, _ = reopen(log, clean=is_clean, recovery_point=3)
        again.flush()
        disk.lose_power("/broker", random.Random(seed))
        last, _ = reopen(again, recovery_point=3)
        assert last.aborted_transactions(0, 2) == aborted != []
