"""All logs of a broker: start, second start, several directories, deletion, failure, shutdown."""

import json
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, NoReturn

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files.errors import InconsistentLogDir, LogDirLocked
from kafka_zk.storage.files.file_pool import FilePool
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.manager.hosted_logs import LogCallbacks
from kafka_zk.storage.manager.log_manager import LogManager, ManagerSettings
from kafka_zk.storage.manager.meta_properties import MetaProperties, read_meta_properties
from tests.storage.faults import FaultyFiles
from tests.storage.helpers import T0, Clock, append, batch, present, read_offsets


def manager(*paths: Path | str, clock: Clock | None = None, **arguments: Any) -> LogManager:
    """Create a log manager; keyword arguments are fields of its settings and callbacks."""
    settings = {name: arguments.pop(name) for name in ManagerSettings._fields if name in arguments}
    callbacks = {name: arguments.pop(name) for name in LogCallbacks._fields if name in arguments}
    return LogManager(
        list(paths),
        arguments.pop("default_config", LogConfig()),
        broker_id=arguments.pop("broker_id", 3),
        cluster_id=arguments.pop("cluster_id", "cluster"),
        clock_ms=clock or Clock(),
        settings=ManagerSettings(**settings),
        callbacks=LogCallbacks(**callbacks),
        **arguments,
    )


def crash(logs: LogManager) -> None:
    """Simulate a killed process: release its locks without writing anything."""
    for log_dir in logs.hosted.live_dirs:
        log_dir.close()


MARK = "__kafka_zk_contiguous 0 0\n"
TPS = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b-c", 0)]


def test_deleted_segments_are_unlinked_where_blocking_work_is_done(tmp_path: Path) -> None:
    """Unlinking 20 MB takes milliseconds, so it does not run on the owner's thread."""
    works: list[Callable[[], None]] = []
    logs = manager(
        tmp_path,
        default_config=LogConfig(retention_ms=1, file_delete_delay_ms=0),
        run_blocking=lambda work, done: works.append(work),
    )
    logs.start({})
    append(logs.get_or_create(TPS[0]), batch())
    assert logs.upkeep.cleanup(T0 + 10) == 1
    works.clear()
    assert logs.upkeep.delete_due(T0 + 10) == 1
    assert len(list(tmp_path.glob("*/*.log.deleted"))) == 1
    for work in works:
        work()
    assert not list(tmp_path.glob("*/*.deleted"))
    assert logs.upkeep.delete_due(T0 + 10) == 0


def test_logs_survive_a_clean_restart_without_a_scan(tmp_path: Path) -> None:
    """Offsets, start offsets and topic ids survive. The clean-shutdown marker is used once and then removed."""
    logs = manager(tmp_path)
    assert logs.start({}).log_count == 0
    for tp in TPS:
        log = logs.get_or_create(tp, None, "AAAAAAAAAAAAAAAAAAAAAQ")
        append(log, batch(5))
    present(logs.get(TPS[0])).increment_log_start_offset(2)
    logs.shutdown(broker_epoch=77)
    marker = tmp_path / ".kafka_cleanshutdown"
    assert json.loads(marker.read_text()) == {"version": 0, "brokerEpoch": 77}

    def never(*arguments: object) -> NoReturn:
        raise AssertionError("scanned after a clean shutdown")

    again = manager(tmp_path, scan=never)
    report = again.start({"a": {"retention.ms": "5"}})
    assert (report.log_count, report.recovered_count, report.dropped) == (3, 0, ())
    assert not marker.exists()
    assert [log.topic_id for log in again.all_logs()] == ["AAAAAAAAAAAAAAAAAAAAAQ"] * 3
    assert present(again.get(TPS[0])).log_start_offset == 2
    assert present(again.get(TPS[0])).config.retention_ms == 5
    assert present(again.get(TPS[2])).config.retention_ms == LogConfig().retention_ms
    assert read_offsets(present(again.get(TPS[0]))) == [2, 3, 4]
    again.shutdown()


@pytest.mark.parametrize(
    ("marker", "is_clean"),
    [
        ('{"version":0,"brokerEpoch":77}', True),
        ("", True),  # Kafka's before 3.7
        ('{"version":0,"brokerEpoch":-1}', False),  # it never registered: no controller learned what its start found
        (None, False),
        ("\0" * 30, False),
        ("[]", False),
    ],
)
def test_a_start_is_clean_after_a_registered_broker_shut_down(
    tmp_path: Path, marker: str | None, is_clean: bool
) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    logs = manager(first, second)
    assert not logs.start({}).is_clean  # nothing shows that the directory was new
    logs.shutdown(broker_epoch=77)
    if marker is None:
        (second / ".kafka_cleanshutdown").unlink()
    else:
        (second / ".kafka_cleanshutdown").write_text(marker)
    again = manager(first, second)
    assert again.start({}).is_clean is is_clean
    crash(again)


def test_a_crash_is_recovered_and_what_was_lost_is_told(tmp_path: Path) -> None:
    """One log is damaged, and the others are intact."""
    logs = manager(tmp_path)
    logs.start({})
    for tp in TPS:
        append(logs.get_or_create(tp), batch(5))
    path = present(logs.get(TPS[1])).segments.active.path
    crash(logs)
    os.truncate(path, 30)
    progress = []
    again = manager(tmp_path)
    report = again.start({}, on_progress=lambda found: progress.append(found[:2]))
    assert (report.log_count, report.recovered_count) == (3, 3)
    (dropped,) = report.dropped
    assert (dropped.tp, dropped.bytes_dropped, dropped.log_end_offset) == (TPS[1], 30, 0)
    assert progress == [(1, 3), (2, 3), (3, 3), (3, 3)]
    assert [present(again.get(tp)).log_end_offset for tp in TPS] == [5, 0, 5]
    again.shutdown()


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    """Neither a second manager in this process nor another process can lock the directory."""
    logs = manager(tmp_path)
    logs.start({})
    with pytest.raises(LogDirLocked):
        manager(tmp_path).start({})
    logs.shutdown()
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(str(tmp_path), ready, stop))
    other.start()
    try:
        assert ready.wait(20)
        with pytest.raises(LogDirLocked):
            manager(tmp_path).start({})
    finally:
        stop.set()
        other.join(20)
    freed = manager(tmp_path)
    freed.start({})
    freed.shutdown()


def _hold(path: str, ready: Event, stop: Event) -> None:
    logs = manager(path)
    logs.start({})
    ready.set()
    stop.wait(20)


def test_a_directory_of_another_broker_or_cluster_is_refused(tmp_path: Path) -> None:
    """meta.properties is Kafka's, version 0; a directory.id is kept."""
    logs = manager(tmp_path)
    logs.start({})
    logs.shutdown()
    assert read_meta_properties(str(tmp_path)) == MetaProperties(3, "cluster")
    for other in ({"broker_id": 4}, {"cluster_id": "other"}):
        with pytest.raises(InconsistentLogDir):
            manager(tmp_path, **other).start({})
    (tmp_path / "meta.properties").write_text("#\n#Sat Nov 21\nbroker.id=3\nversion=0\ndirectory.id=abc\n")
    logs = manager(tmp_path)
    logs.start({})
    assert read_meta_properties(str(tmp_path)) == MetaProperties(3, "cluster", "abc")
    logs.shutdown()
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=3\n")
    with pytest.raises(InconsistentLogDir):
        manager(tmp_path).start({})


def test_partitions_spread_over_the_directories(tmp_path: Path) -> None:
    """A new partition goes to the directory with the fewest. After a restart, each is found in its directory."""
    first, second = tmp_path / "1", tmp_path / "2"
    logs = manager(first, second)
    logs.start({})
    for number in range(6):
        append(logs.get_or_create(TopicPartition("t", number)), batch(number + 1))
    assert len(list(first.glob("t-*"))) == len(list(second.glob("t-*"))) == 3
    homes = {log.tp: logs.log_dir_of(log.tp) for log in logs.all_logs()}
    logs.shutdown()
    again = manager(first, second)
    again.start({})
    assert {log.tp: again.log_dir_of(log.tp) for log in again.all_logs()} == homes
    assert [present(again.get(TopicPartition("t", number))).log_end_offset for number in range(6)] == [1, 2, 3, 4, 5, 6]
    again.shutdown()


def test_a_partition_in_two_directories_is_refused(tmp_path: Path) -> None:
    """The log manager cannot know which of the two is valid."""
    for name in ("1", "2"):
        (tmp_path / name / "t-0").mkdir(parents=True)
    with pytest.raises(InconsistentLogDir):
        manager(tmp_path / "1", tmp_path / "2").start({})


def test_a_start_that_is_refused_costs_no_recovery(tmp_path: Path) -> None:
    """Another directory may be completely open before the partly remote log is found."""
    first, second = tmp_path / "1", tmp_path / "2"
    logs = manager(first, second)
    logs.start({})
    for number in range(5):
        log = logs.get_or_create(TopicPartition("t", number))
        append(log, batch(1))
        log.roll(0)
        append(log, batch(1))
    logs.delete(TopicPartition("t", 3))
    logs.shutdown()
    refused = first / "t-4"
    for path in refused.glob(f"{0:020d}.*"):
        path.unlink()
    (refused / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (first / "log-start-offset-checkpoint").write_text("0\n1\nt 4 0\n")
    with pytest.raises(InconsistentLogDir, match="the records 0 to 0 of t-4 are only in remote storage"):
        manager(first, second).start({})
    assert all((directory / ".kafka_cleanshutdown").exists() for directory in (first, second))


def test_deletion_renames_at_once_and_removes_after_the_delay(tmp_path: Path) -> None:
    """The name is free for a new topic, a reader can continue, and a restart finishes the deletion."""
    clock = Clock()
    logs = manager(tmp_path, clock=clock)
    logs.start({})
    append(logs.get_or_create(TPS[0]), batch(3))
    file_slice = present(present(logs.get(TPS[0])).read(0, 1000).slice).retain()
    logs.delete(TPS[0])
    assert logs.get(TPS[0]) is None
    (renamed,) = tmp_path.glob("*-delete")
    assert renamed.name.startswith("a-0.") and not (tmp_path / "a-0").exists()
    fresh = logs.get_or_create(TPS[0])
    assert fresh.log_end_offset == 0
    assert logs.upkeep.delete_due(clock() + 59_999) == 0
    assert logs.upkeep.delete_due(clock() + 60_000) == 1
    assert not renamed.exists()
    assert len(file_slice.read()) == file_slice.size_bytes
    file_slice.release()
    logs.delete(TPS[0])
    logs.shutdown()
    again = manager(tmp_path, clock=clock)
    assert again.start({}).log_count == 0
    assert again.upkeep.delete_due(clock()) == 1
    assert list(tmp_path.glob("*-delete")) == []
    again.shutdown()


@pytest.mark.parametrize("count", [0, 10])
def test_checkpoints_of_a_deleted_log_do_not_count_for_the_next_one_of_its_name(tmp_path: Path, count: int) -> None:
    """The checkpoints do not count even if the broker is killed before it rewrites them."""
    tp = TPS[0]
    logs = manager(tmp_path)
    logs.start({})
    append(logs.get_or_create(tp, topic_id="AAAAAAAAAAAAAAAAAAAAAQ"), batch(count=500))
    old = logs.get(tp)
    assert old is not None
    old.flush()
    old.increment_log_start_offset(400)
    logs.upkeep.checkpoint()
    logs.upkeep.checkpoint_high_watermarks()
    logs.delete(tp)
    new = logs.get_or_create(tp, topic_id="AAAAAAAAAAAAAAAAAAAAAg")
    if count:
        append(new, batch(count=count))
    crash(logs)
    logs = manager(tmp_path)
    logs.start({})
    again = logs.get(tp)
    assert again is not None and (again.log_start_offset, again.log_end_offset) == (0, count)
    assert again.recovery_point == 0 and not list(tmp_path.glob("*/*aside*"))


def test_a_deleted_log_does_not_disturb_the_file_pool(tmp_path: Path) -> None:
    """The deleted log's index entries are not written to the removed directory."""
    clock = Clock()
    logs = manager(tmp_path, clock=clock, max_open_files=1, default_config=LogConfig(index_interval_bytes=0))
    logs.start({})
    for _ in range(3):
        append(logs.get_or_create(TPS[0]), batch())
    logs.delete(TPS[0])
    logs.upkeep.delete_due(clock() + 10**6)
    append(logs.get_or_create(TPS[1]), batch())
    logs.shutdown()


def test_flushes_are_begun_when_due_and_never_twice_at_once(tmp_path: Path) -> None:
    """The injected ``run_blocking`` delays the flush; the recovery point does not move before it has run."""
    waiting = []
    logs = manager(
        tmp_path,
        default_config=LogConfig(flush_ms=1000),
        run_blocking=lambda work, done: waiting.append((work, done)),
    )
    logs.start({})
    log = logs.get_or_create(TPS[0])
    append(log, batch(), now_ms=T0)
    assert logs.upkeep.flush_dirty(T0 + 999) == 0
    assert logs.upkeep.flush_dirty(T0 + 1000) == 1
    assert logs.upkeep.flush_dirty(T0 + 1000) == 0
    ((work, done),) = waiting
    work()
    assert log.recovery_point == 0
    done(None)
    assert log.recovery_point == 1
    assert logs.upkeep.flush_dirty(T0 + 10**9) == 0
    logs.shutdown()


def test_a_failing_directory_goes_offline_with_its_logs_only(tmp_path: Path, faults: FaultyFiles) -> None:
    """The other directories stay online. The owner is notified of the lost partitions."""
    failures = []
    first, second = tmp_path / "1", tmp_path / "2"
    logs = manager(
        first,
        second,
        default_config=LogConfig(flush_ms=0),
        on_directory_failure=lambda path, error, lost: failures.append((path, lost)),
    )
    logs.start({})
    for number in range(4):
        append(logs.get_or_create(TopicPartition("t", number)), batch())

    faults.fail("sync_data", first)
    logs.upkeep.flush_dirty(T0 + 1)
    ((path, lost),) = failures
    assert path == first and len(lost) == 2
    assert logs.live_directories == [second]
    assert len(logs.all_logs()) == 2
    logs.get_or_create(TopicPartition("t", 9))
    assert logs.log_dir_of(TopicPartition("t", 9)) == second
    logs.shutdown()
    assert not (first / ".kafka_cleanshutdown").exists()


def test_an_unusable_directory_at_start_is_offline_but_none_at_all_is_an_error(tmp_path: Path) -> None:
    """One directory is enough to start."""
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    logs = manager(blocked, tmp_path / "good")
    assert logs.start({}).offline_directories.keys() == {str(blocked)}
    logs.shutdown()
    with pytest.raises(OSError):
        manager(blocked).start({})


def test_checkpoints_are_kafkas(tmp_path: Path) -> None:
    """There are three text files. Start offsets are written only if they differ from the first segment's base offset.
    One row of the recovery points belongs to no partition, and Kafka ignores it."""
    logs = manager(tmp_path)
    logs.start({})
    for tp in TPS:
        append(logs.get_or_create(tp), batch(4))
    present(logs.get(TPS[0])).flush()
    present(logs.get(TPS[1])).increment_log_start_offset(1)
    logs.upkeep.checkpoint()
    present(logs.get(TPS[2])).update_high_watermark(2)
    logs.upkeep.checkpoint_high_watermarks()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == f"0\n4\n{MARK}a 0 4\na 1 0\nb-c 0 0\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\na 1 1\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n3\na 0 4\na 1 4\nb-c 0 2\n"
    crash(logs)
    again = manager(tmp_path)
    again.start({})
    assert [present(again.get(tp)).high_watermark for tp in TPS] == [4, 4, 2]
    assert present(again.get(TPS[1])).log_start_offset == 1
    again.shutdown()


def test_an_older_checkpoint_that_comes_late_changes_nothing(tmp_path: Path) -> None:
    """Threads may finish in any order; a newer checkpoint is not overwritten."""
    waiting = []
    logs = manager(tmp_path, run_blocking=lambda work, done: waiting.append(work))
    logs.start({})
    append(logs.get_or_create(TPS[1]), batch(4))
    logs.upkeep.checkpoint()
    present(logs.get(TPS[1])).increment_log_start_offset(3)
    ((newer, _),) = logs.upkeep.prepare_start_offsets([TPS[1], TPS[0]])
    newer()
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\na 1 3\n"
    waiting.pop()()
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\na 1 3\n"
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == f"0\n2\n{MARK}a 1 0\n"


def test_cleanup_applies_retention_and_producers_expire_apart_from_it(tmp_path: Path) -> None:
    """Both run on every log, at log.retention.check.interval.ms and producer.id.expiration.check.interval.ms."""
    logs = manager(tmp_path, default_config=LogConfig(retention_ms=1000), producer_id_expiration_ms=5000)
    logs.start({})
    log = logs.get_or_create(TPS[0])
    append(log, batch(producer_id=1, producer_epoch=0, base_sequence=0))
    assert logs.upkeep.cleanup(T0 + 1000) == 0
    assert logs.upkeep.cleanup(T0 + 1001) == 1
    logs.upkeep.cleanup(T0 + 5000)
    assert sum(logs.upkeep.expire_producers_steps(T0 + 4999)) == 0 and log.producers.producers
    assert sum(logs.upkeep.expire_producers_steps(T0 + 5000)) == 1 and not log.producers.producers
    logs.shutdown()


def test_idle_logs_hold_no_descriptor(tmp_path: Path) -> None:
    """An idle log holds no descriptor after its creation and after a start."""
    logs = manager(tmp_path)
    logs.start({})
    for number in range(50):
        logs.get_or_create(TopicPartition("t", number))
    assert logs.pool.open_count == 0
    append(logs.get_or_create(TPS[0]), batch())
    logs.shutdown()
    assert logs.pool.open_count == 0
    again = manager(tmp_path)
    again.start({})
    assert again.pool.open_count == 0
    again.shutdown()


def test_damaged_checkpoints_cost_a_scan_but_no_data(tmp_path: Path) -> None:
    """Damaged checkpoints count as empty."""
    logs = manager(tmp_path)
    logs.start({})
    append(logs.get_or_create(TPS[0]), batch(4))
    logs.upkeep.checkpoint()
    crash(logs)
    for path in tmp_path.glob("*checkpoint"):
        path.write_bytes(b"\x00\xffgarbage")
    again = manager(tmp_path)
    again.start({})
    assert present(again.get(TPS[0])).log_end_offset == 4
    again.shutdown()


def test_the_pool_gives_a_second_chance() -> None:
    """Files that were used since the last pass stay open, and so do pinned files."""

    class File:
        def __init__(self, name: str, pinned: bool = False) -> None:
            self.name, self.is_pinned, self.recently_used, self.closed = name, pinned, False, False

        def close_file(self) -> None:
            self.closed = True

    pool = FilePool(max_open_files=2)
    used, pinned, idle, new = File("used"), File("pinned", pinned=True), File("idle"), File("new")
    for file in (used, pinned):
        pool.opened(file)
    used.recently_used = True
    pool.opened(idle)
    pool.opened(new)
    assert idle.closed and used.closed  # its second chance was used up when idle was opened
    assert not pinned.closed and not new.closed
    assert pool.open_count == 2


def test_paths_may_be_strings_or_paths(tmp_path: Path) -> None:
    """log.dirs comes from a configuration file."""
    logs = manager(str(tmp_path / "x"))
    logs.start({})
    assert logs.live_directories == [tmp_path / "x"]
    logs.shutdown()


def test_what_replaces_truncated_records_does_not_count_as_durable_after_a_crash(tmp_path: Path) -> None:
    """A follower was truncated below its recovery point. A checkpoint with the old recovery point would make the log
    continue there, after a hole."""
    logs = manager(tmp_path)
    logs.start({})
    log = logs.get_or_create(TPS[0])
    for _ in range(4):
        append(log, batch(5))
    log.flush()
    logs.upkeep.checkpoint()
    log.truncate_to(10)
    append(log, batch(2), leader_epoch=1)
    append(log, batch(5), leader_epoch=1)
    path = log.directory / "00000000000000000000.log"
    os.truncate(path, path.stat().st_size - 10)
    crash(logs)
    again = manager(tmp_path)
    again.start({})
    log = present(again.get(TPS[0]))
    assert (log.log_end_offset, read_offsets(log)) == (12, list(range(12)))
    assert log.recovery_point == 10
    again.shutdown()
