"""``cleaner-offset-checkpoint`` never applies to a log other than the existing one, even if the broker is killed at any
time."""

from pathlib import Path

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files.checkpoints import read_offsets as read_checkpoint
from kafka_zk.storage.files.checkpoints import write_offsets
from kafka_zk.storage.files.findings import Finding
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.hosted_logs import LogCallbacks
from kafka_zk.storage.manager.log_manager import LogManager
from tests.storage.compacted import SMALL
from tests.storage.done_here import clean_here
from tests.storage.helpers import T0, Clock, append, batch, present

TP = TopicPartition("events", 0)
CHECKPOINT = "cleaner-offset-checkpoint"


def started(path: Path, told: list[Finding] | None = None) -> LogManager:
    config = LogConfig(cleanup_policy=("compact",), file_delete_delay_ms=0)
    told = [] if told is None else told
    logs = LogManager(
        [path],
        config,
        broker_id=1,
        cluster_id="c",
        clock_ms=Clock(),
        callbacks=LogCallbacks(observe=told.append),
    )
    logs.start({})
    return logs


def killed(logs: LogManager) -> None:
    """Simulate a killed process: release its locks without writing anything."""
    for log_dir in logs.hosted.live_dirs:
        log_dir.close()


def grown(logs: LogManager, end_offset: int) -> Log:
    log = logs.get_or_create(TP)
    log.follow_log_end()
    while log.log_end_offset < end_offset:
        append(log, batch(1, key=b"k"))
    log.flush()
    return log


def cleaned(path: Path) -> tuple[LogManager, Log]:
    """A log that is clean up to offset 8, and its checkpoint."""
    logs = started(path)
    log = grown(logs, 8)
    log.roll(T0)
    log = grown(logs, 10)
    clean_here(log, SMALL, T0)
    logs.upkeep.checkpoint_cleaner_offsets()
    assert read_checkpoint(f"{path}/{CHECKPOINT}") == {TP: 8}
    return logs, log


def test_a_recreated_log_is_dirty_from_its_beginning(tmp_path: Path) -> None:
    logs, _ = cleaned(tmp_path)
    logs.delete(TP)
    grown(logs, 12)
    killed(logs)
    again = started(tmp_path)
    assert present(again.get(TP)).cleaned_offset is None
    again.shutdown()


@pytest.mark.parametrize("to", [0, 9])
def test_a_log_that_was_truncated_is_dirty_from_there_on(tmp_path: Path, to: int) -> None:
    logs, log = cleaned(tmp_path)
    log.truncate_to(to)
    grown(logs, 12)
    killed(logs)
    again = started(tmp_path)
    assert present(again.get(TP)).cleaned_offset == min(8, to)
    again.shutdown()


def test_a_log_that_was_deleted_is_forgotten_at_the_next_start_at_the_latest(tmp_path: Path) -> None:
    """The broker was killed after it had renamed the directory."""
    logs, log = cleaned(tmp_path)
    log.rename_to_delete(f"{tmp_path}/events-0.0123456789abcdef0123456789abcdef-delete")
    killed(logs)
    again = started(tmp_path)
    grown(again, 12)
    killed(again)
    last = started(tmp_path)
    assert present(last.get(TP)).cleaned_offset is None
    last.shutdown()


@pytest.mark.parametrize(("says", "start", "is_told"), [(11, 0, True), (10, 0, False), (3, 5, False)])
def test_no_log_is_clean_beyond_its_end(tmp_path: Path, says: int, start: int, is_told: bool) -> None:
    logs, log = cleaned(tmp_path)
    log.increment_log_start_offset(start)
    logs.upkeep.checkpoint()
    killed(logs)
    write_offsets(f"{tmp_path}/{CHECKPOINT}", {TP: says})
    told: list[Finding] = []
    again = started(tmp_path, told)
    found = present(again.get(TP))
    assert found.cleaned_offset == (None if is_told else max(says, start))
    assert bool(told) == is_told and all("compacted" in finding.problem for finding in told)
    again.shutdown()


def test_a_file_that_kafka_created_is_not_damaged(tmp_path: Path) -> None:
    """Apache Kafka creates it empty when it starts, and first writes it after a cleaning."""
    cleaned(tmp_path)[0].shutdown()
    (tmp_path / CHECKPOINT).write_bytes(b"")
    told: list[Finding] = []
    started(tmp_path, told).shutdown()
    assert not told
