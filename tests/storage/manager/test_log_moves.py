"""Which copies of moves a start promotes after a crash. Another log must never take the place of the complete one."""

import random
from pathlib import Path

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.sim.machine.disk import SimDisk
from kafka_zk.storage.files import files
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.log_dir import LogDir
from kafka_zk.storage.manager.log_manager import LogManager
from tests.storage.helpers import T0, Clock, present, read_offsets
from tests.storage.power_history import LEADER, Killed
from tests.storage.test_power_loss import CONFIG, crash, filled, manager


def _fails_to_adopt(self: LogDir, tp: TopicPartition) -> None:
    """The broker dies before it renames the complete copy of a move."""
    raise Killed


def move(logs: LogManager, log: Log, target: Path, *, deleted_before: int = 0) -> None:
    """Copy a log, delete records of the copy as DeleteRecords does, flush it, and replace the log by the copy."""
    future = logs.moves.begin_future(log.tp, target)
    future.truncate_fully_and_start_at(log.log_start_offset)
    while (found := log.read(future.log_end_offset, 1_000).slice) is not None:
        future.append_as_follower(found.read(), now_ms=T0)
    future.follow_log_end()
    future.increment_log_start_offset(deleted_before)
    future.flush()
    logs.moves.replace_by_future(log.tp)


def test_a_complete_copy_keeps_its_checkpoints_while_a_directory_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its log start offset, deleted records would be back. A start without one of the directories writes
    checkpoints, and cannot tell whether the copy is complete."""
    logs = manager(tmp_path)
    logs.start({})
    log = filled(logs)
    log.flush()
    log.increment_log_start_offset(5)
    assert log.delete_old_segments(T0) == 2
    source = logs.log_dir_of(LEADER)
    (target,) = (each for each in logs.live_directories if each != source)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(LogDir, "adopt_future", _fails_to_adopt)
        move(logs, log, target, deleted_before=6)
    crash(logs)
    missing = source.rename(tmp_path / "missing")
    source.write_text("not a directory")
    without = manager(tmp_path)
    assert without.start({}).offline_directories.keys() == {str(source)}
    without.upkeep.checkpoint()
    crash(without)
    source.unlink()
    missing.rename(source)
    again = manager(tmp_path)
    report = again.start({})
    assert (present(again.get(LEADER)).log_start_offset, report.dropped) == (6, ())


def test_a_copy_whose_log_is_served_does_not_count_as_a_later_complete_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier start lacked a directory, but not the one with the log, so that this start could judge the copy."""
    folders = [tmp_path / name for name in "abcd"]

    def begun() -> LogManager:
        logs = LogManager(folders, CONFIG, broker_id=0, cluster_id="c", clock_ms=Clock())
        logs.start({})
        return logs

    logs = begun()
    log = filled(logs)
    log.flush()
    assert logs.log_dir_of(LEADER) == folders[0]
    logs.moves.begin_future(LEADER, folders[1])
    crash(logs)
    missing = folders[2].rename(tmp_path / "missing")
    folders[2].write_text("not a directory")
    without = begun()
    assert without.moves.interrupted == {LEADER: folders[1]}
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(LogDir, "adopt_future", _fails_to_adopt)
        move(without, present(without.get(LEADER)), folders[3])
    crash(without)
    folders[2].unlink()
    missing.rename(folders[2])
    assert read_offsets(present(begun().get(LEADER))) == list(range(12))


@pytest.mark.parametrize("seed", range(10))
def test_a_copy_that_was_given_up_does_not_count_as_a_later_complete_one(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimDisk(lambda: T0)
    folders = [Path("/broker", name) for name in "abc"]
    with files.use(disk):
        logs = LogManager(folders, CONFIG, broker_id=0, cluster_id="c", clock_ms=Clock())
        logs.start({})
        log = filled(logs)
        log.flush()
        assert logs.log_dir_of(LEADER) == folders[0]
        logs.moves.begin_future(LEADER, folders[1]).flush()
        logs.moves.delete_future(LEADER)
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(LogDir, "adopt_future", _fails_to_adopt)
            move(logs, log, folders[2])
        disk.lose_power("/broker", random.Random(seed))
        again = LogManager(folders, CONFIG, broker_id=0, cluster_id="c", clock_ms=Clock())
        again.start({})
        assert read_offsets(present(again.get(LEADER))) == list(range(12))
