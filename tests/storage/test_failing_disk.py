"""A disk that fails during operation: which owners are notified, which logs continue, and which resources are
released."""

from pathlib import Path

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.log_manager import LogManager
from tests.storage.faults import IO_ERROR, NO_SPACE, FaultyFiles
from tests.storage.helpers import T0, Clock, append, batch, present, read_values
from tests.storage.manager.test_log_manager import manager


class Disks:
    """Two log directories, the first of which fails at the operations that a test selects."""

    def __init__(self, tmp_path: Path, **arguments: object) -> None:
        self.bad, self.good = tmp_path / "1", tmp_path / "2"
        self.failed: list[Path] = []
        self.clock = Clock()
        self.logs: LogManager = manager(
            self.bad,
            self.good,
            clock=self.clock,
            on_directory_failure=lambda path, error, lost: self.failed.append(path),
            **arguments,
        )
        self.logs.start({})

    def log_in(self, directory: Path) -> Log:
        """A new log with a record in one of the two."""
        number = len(self.logs.all_logs())
        while True:
            tp = TopicPartition("t", number)
            log = self.logs.get_or_create(tp)
            if self.logs.log_dir_of(tp) == directory:
                append(log, batch())
                return log
            number += 1


def test_an_index_that_cannot_be_written_before_a_flush_costs_its_directory_alone(
    tmp_path: Path, faults: FaultyFiles
) -> None:
    """The other directory's logs are flushed, and nothing stays pinned."""
    disks = Disks(tmp_path, default_config=LogConfig(flush_ms=0, index_interval_bytes=0))
    bad = [disks.log_in(disks.bad) for _ in range(2)]
    good = [disks.log_in(disks.good) for _ in range(2)]
    for log in bad + good:
        append(log, batch())
        append(log, batch())
    faults.fail("open", disks.bad, NO_SPACE)
    disks.logs.upkeep.flush_dirty(T0 + 1)
    assert disks.failed == [disks.bad]
    assert [log.recovery_point for log in good] == [3, 3]
    assert not any(log.segments.active.is_pinned for log in bad)
    disks.logs.shutdown()


def test_files_that_cannot_be_removed_cost_their_directory_alone(tmp_path: Path, faults: FaultyFiles) -> None:
    """Files that are due in the other directory are removed."""
    disks = Disks(tmp_path, default_config=LogConfig(retention_ms=1, file_delete_delay_ms=0))
    bad, good = disks.log_in(disks.bad), disks.log_in(disks.good)
    disks.logs.upkeep.cleanup(T0 + 10)
    assert bad.segments.pending_removals and good.segments.pending_removals
    faults.fail("remove", disks.bad)
    disks.logs.upkeep.delete_due(T0 + 10)
    assert disks.failed == [disks.bad]
    assert list(disks.good.glob("*/*.deleted")) == []
    disks.logs.shutdown()


def test_a_deleted_topic_that_cannot_be_removed_costs_its_directory_alone(tmp_path: Path, faults: FaultyFiles) -> None:
    """Without the failure, the topic's space would stay occupied, unreported, until the next start."""
    disks = Disks(tmp_path)
    for log in (disks.log_in(disks.bad), disks.log_in(disks.good)):
        disks.logs.delete(log.tp)
    faults.fail("remove_tree", disks.bad)
    assert disks.logs.upkeep.delete_due(T0 + 10**6) == 2
    assert disks.failed == [disks.bad]
    assert list(disks.good.glob("*-delete")) == []
    disks.logs.shutdown()


def test_a_partition_that_cannot_be_renamed_for_deletion_costs_its_directory(
    tmp_path: Path, faults: FaultyFiles
) -> None:
    """The partition's records must not appear in the next topic of that name."""
    disks = Disks(tmp_path)
    log = disks.log_in(disks.bad)
    faults.fail("rename", disks.bad)
    with pytest.raises(OSError):
        disks.logs.delete(log.tp)
    assert disks.failed == [disks.bad]
    assert disks.logs.get(log.tp) is None
    disks.logs.shutdown()


def test_a_late_failure_of_a_deleted_log_leaves_its_successor_alone(tmp_path: Path) -> None:
    """The topic was deleted and recreated in the other directory during the flush of the first log."""
    waiting = []
    disks = Disks(
        tmp_path,
        default_config=LogConfig(flush_ms=0),
        run_blocking=lambda work, done: waiting.append(done),
    )
    old = disks.log_in(disks.bad)
    disks.logs.upkeep.flush_dirty(T0 + 1)
    disks.logs.delete(old.tp)
    disks.logs.get_or_create(TopicPartition("other", 0))
    disks.logs.get_or_create(old.tp)
    assert disks.logs.log_dir_of(old.tp) == disks.good
    waiting[0](OSError(5, "I/O error"))
    assert disks.failed == []
    disks.logs.shutdown()


def test_a_checkpoint_that_comes_after_the_shutdown_is_dropped(tmp_path: Path) -> None:
    """The checkpoint would bring back records that were deleted after it was prepared."""
    waiting = []
    logs = manager(tmp_path, run_blocking=lambda work, done: waiting.append(work))
    logs.start({})
    log = logs.get_or_create(TopicPartition("t", 0))
    append(log, batch(5))
    log.increment_log_start_offset(1)
    logs.upkeep.checkpoint()
    log.increment_log_start_offset(4)
    logs.shutdown()
    for work in waiting:
        work()
    again = manager(tmp_path)
    again.start({})
    assert present(again.get(log.tp)).log_start_offset == 4
    again.shutdown()


def test_a_full_disk_is_not_blamed_on_the_log_that_opens_a_file(tmp_path: Path, faults: FaultyFiles) -> None:
    """To make room, the pool closes a file of another directory, whose index cannot be written."""
    disks = Disks(tmp_path, default_config=LogConfig(index_interval_bytes=0), max_open_files=1)
    bad, good = disks.log_in(disks.bad), disks.log_in(disks.good)
    for _ in range(3):
        append(bad, batch())
    faults.fail("open", disks.bad, NO_SPACE)
    append(good, batch())
    assert disks.failed == []
    faults.heal()
    assert len(read_values(bad)) == 4
    disks.logs.shutdown()
    again = manager(disks.bad, disks.good)
    again.start({})
    assert present(again.get(bad.tp)).segments.active.offset_index.count == 3
    again.shutdown()


def test_a_directory_that_cannot_be_listed_at_start_is_offline(tmp_path: Path, faults: FaultyFiles) -> None:
    """The other directories start."""
    disks = Disks(tmp_path)
    log = disks.log_in(disks.good)
    disks.logs.shutdown()
    faults.fail("entries", disks.bad)
    again = manager(disks.bad, disks.good)
    report = again.start({})
    assert list(report.offline_directories) == [str(disks.bad)]
    assert again.live_directories == [disks.good]
    assert len(read_values(present(again.get(log.tp)))) == 1
    again.shutdown()


def test_a_disk_that_fails_during_a_move_leaves_the_incomplete_copy(tmp_path: Path) -> None:
    """If the disk never works again, the copy has the only records. The operator removes the disk from log.dirs."""
    disks = Disks(tmp_path)
    log = disks.log_in(disks.bad)
    copied = read_values(log)
    future = disks.logs.moves.begin_future(log.tp, disks.good)
    future.append_as_follower(present(log.read(0, 1_000).slice).read(), now_ms=T0)
    append(log, batch())
    disks.logs.fail_directory(log, IO_ERROR)
    assert disks.logs.moves.future(log.tp) is None
    disks.logs.upkeep.delete_due(T0 + 10**6)
    disks.logs.shutdown()
    again = manager(disks.good)
    again.start({})
    assert read_values(present(again.get(log.tp))) == copied != []
    again.shutdown()


@pytest.mark.parametrize("is_clean", [True, False])
def test_an_incomplete_copy_that_is_served_is_checked(tmp_path: Path, is_clean: bool) -> None:
    """It was never flushed, so that a clean stop does not account for its records, and it has no recovery point that
    explains where it begins."""
    disks = Disks(tmp_path, default_config=LogConfig(segment_bytes=150))
    log = disks.log_in(disks.bad)
    for _ in range(7):
        append(log, batch())
    future = disks.logs.moves.begin_future(log.tp, disks.good)
    future.truncate_fully_and_start_at(2)
    while (found := log.read(future.log_end_offset, 1).slice) is not None:
        future.append_as_follower(found.read(), now_ms=T0)
    assert [segment.base_offset for segment in future.segments] == [2, 4, 6]
    disks.logs.fail_directory(log, IO_ERROR)
    if is_clean:
        disks.logs.shutdown()
    else:
        for log_dir in disks.logs.hosted.live_dirs:  # the process is killed
            log_dir.close()
    (damaged,) = disks.good.glob("*-future/*4.log")
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-10] + bytes(10))  # a power loss leaves zeros
    again = manager(disks.good)
    again.start({})
    served = present(again.get(log.tp))
    assert [offset for offset, _ in read_values(served)] == [2, 3, 4]
    assert (served.log_start_offset, append(served, batch()).first_offset) == (2, 5)
    again.shutdown()


def test_a_disk_that_fails_at_the_end_of_a_move_leaves_the_copy_with_its_checkpoints(
    tmp_path: Path, faults: FaultyFiles
) -> None:
    """Without the log start offset, deleted records would be back."""
    disks = Disks(tmp_path)
    log = disks.log_in(disks.bad)
    for _ in range(3):
        append(log, batch())
    future = disks.logs.moves.begin_future(log.tp, disks.good)
    future.truncate_fully_and_start_at(2)
    future.append_as_follower(present(log.read(2, 1_000).slice).read(), now_ms=T0)
    future.follow_log_end()
    future.increment_log_start_offset(3)
    future.flush()
    faults.fail("sync", disks.bad)
    with pytest.raises(OSError):
        disks.logs.moves.replace_by_future(log.tp)
    disks.logs.upkeep.checkpoint()
    for log_dir in disks.logs.hosted.live_dirs:  # the process is killed
        log_dir.close()
    faults.heal()
    again = manager(disks.bad, disks.good)
    report = again.start({})
    assert [offset for offset, _ in read_values(present(again.get(log.tp)))] == [3]
    assert report.dropped == ()
    again.shutdown()


def test_a_deleted_topic_gives_back_the_files_that_were_aged_out_before(tmp_path: Path) -> None:
    """If the files were forgotten, their space would stay occupied until the broker stops."""
    clock = Clock()
    logs = manager(tmp_path, clock=clock, default_config=LogConfig(retention_ms=1))
    logs.start({})
    log = logs.get_or_create(TopicPartition("t", 0))
    append(log, batch())
    logs.upkeep.cleanup(T0 + 10)
    assert log.segments.pending_removals
    logs.delete(log.tp)
    logs.upkeep.delete_due(clock() + 10**6)
    assert logs.pool.open_count == 0
    logs.shutdown()


@pytest.mark.parametrize("name", ["recovery-point", "log-start", "replication"])
def test_a_checkpoint_that_cannot_be_read_at_start_costs_its_directory_alone(
    tmp_path: Path, faults: FaultyFiles, name: str
) -> None:
    """The checkpoint is not damaged, so it must not be ignored."""
    disks = Disks(tmp_path)
    log = disks.log_in(disks.good)
    disks.log_in(disks.bad)
    disks.logs.upkeep.checkpoint()
    disks.logs.upkeep.checkpoint_high_watermarks()
    disks.logs.shutdown()
    faults.fail("read", disks.bad / f"{name}-offset-checkpoint")
    again = manager(disks.bad, disks.good)
    assert list(again.start({}).offline_directories) == [str(disks.bad)]
    assert len(read_values(present(again.get(log.tp)))) == 1
    again.shutdown()
