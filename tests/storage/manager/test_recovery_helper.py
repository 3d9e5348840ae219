"""Recoveries in helper processes give the same result as in this process, even if the helper dies, and never block the
owner.
"""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.recovery_work import ScanWork, Work
from kafka_zk.storage.manager.log_manager import LogManager, ManagerSettings
from kafka_zk.storage.manager.log_start import DirectoryOpening, StartProgress
from kafka_zk.storage.manager.recovery_helper import HelperPool
from tests.storage.helpers import Clock, append, batch, present, read_values

BIG = TopicPartition("big", 0)
SMALL = TopicPartition("small", 0)
DEADLINE_S = 30
Crashed = tuple[Path, dict[TopicPartition, list[tuple[int, bytes | None]]]]


def manager(path: Path, helper_count: int = 1) -> LogManager:
    config = LogConfig(segment_bytes=1 << 20)
    return LogManager(
        [path],
        config,
        broker_id=0,
        cluster_id="c",
        clock_ms=Clock(),
        settings=ManagerSettings(recovery_helper_count=helper_count),
    )


def crash(logs: LogManager) -> None:
    for log_dir in logs.hosted.live_dirs:
        log_dir.close()


def fill(log: Log, size_bytes: int, value_bytes: int = 16_000) -> None:
    """Append batches of an idempotent producer."""
    number = 0
    while log.size_bytes < size_bytes:
        value = (b"%d " % number).ljust(value_bytes, b".")
        append(log, batch(1, value=value, producer_id=9, producer_epoch=0, base_sequence=number), leader_epoch=1)
        number += 1


@pytest.fixture
def crashed(tmp_path: Path) -> Crashed:
    """A folder with a small log and a log of three segments, the last one torn; and the contents of both."""
    logs = manager(tmp_path)
    logs.start({})
    fill(logs.get_or_create(BIG), 2_500_000)
    fill(logs.get_or_create(SMALL), 50_000)
    expected = {tp: read_values(present(logs.get(tp))) for tp in (BIG, SMALL)}
    path = present(logs.get(BIG)).segments.active.path
    crash(logs)
    os.truncate(path, os.path.getsize(path) - 10)
    return tmp_path, expected


def scan_work(logs_path: Path, **changes: Any) -> ScanWork:
    path = logs_path / "big-0" / f"{0:020d}"
    work = ScanWork(f"{path}.log", f"{path}.index", f"{path}.timeindex", 0, 0, 4096, 1 << 20, 0)
    return work._replace(**changes)


def answer(pool: HelperPool) -> tuple[Any, Any]:
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        for found in pool.results(1):
            return found
    raise AssertionError("no answer")


@pytest.mark.parametrize("helper_count", [0, 1, 3])
def test_a_helper_finds_what_a_scan_here_finds(
    crashed: Crashed, monkeypatch: pytest.MonkeyPatch, helper_count: int
) -> None:
    """Records, producers, epochs and dropped bytes are the same. Small logs are recovered in this process."""
    path, expected = crashed
    submitted: list[Work] = []
    submit = HelperPool.submit

    def noted(pool: HelperPool, token: object, work: Work) -> None:
        submitted.append(work)
        submit(pool, token, work)

    monkeypatch.setattr(HelperPool, "submit", noted)
    logs = manager(path, helper_count)
    progress: list[StartProgress] = []
    report = logs.start({}, on_progress=progress.append)
    (dropped,) = report.dropped
    assert dropped.tp == BIG and dropped.bytes_dropped > 10 and "bytes" in dropped.reason
    assert read_values(present(logs.get(BIG))) == expected[BIG][:-1]
    assert read_values(present(logs.get(SMALL))) == expected[SMALL]
    assert present(logs.get(BIG)).producers.producers[9].last_sequence == len(expected[BIG]) - 2
    assert present(logs.get(BIG)).leader_epochs.latest_epoch == 1
    assert all("big-0" in str(work) for work in submitted) and bool(submitted) == bool(helper_count)
    assert progress[-1].log_count == progress[-1].total_log_count == 2
    assert progress[-1].scanned_bytes == progress[-1].bytes_to_scan == report.scanned_bytes > 2_500_000
    logs.shutdown()


def test_a_helper_that_dies_leaves_its_work_to_the_broker(tmp_path: Path, crashed: Crashed) -> None:
    """An out-of-memory killer must not cost a log."""
    pool = HelperPool(1)
    pool.submit("first", scan_work(tmp_path))
    pool._helpers[0].process.send_signal(signal.SIGSTOP)
    pool._helpers[0].process.kill()
    assert answer(pool) == ("first", None)
    pool.submit("second", scan_work(tmp_path))
    token, result = answer(pool)
    assert token == "second" and result.valid_bytes == os.path.getsize(scan_work(tmp_path).log_path)
    pool.close()


def test_a_helper_that_died_since_its_last_work_is_no_failing_disk(tmp_path: Path, crashed: Crashed) -> None:
    """The kernel may kill a helper at any time when memory is short."""
    pool = HelperPool(1)
    pool.submit("first", scan_work(tmp_path))
    assert answer(pool)[1] is not None
    (helper,) = pool._helpers
    helper.process.kill()
    helper.process.wait()
    pool.submit("second", scan_work(tmp_path))
    assert answer(pool) == ("second", None)
    assert not pool.is_busy
    pool.close()


def test_where_no_process_can_be_started_the_broker_does_the_work(
    crashed: Crashed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container may have reached its process limit."""

    def refuse(*arguments: object, **options: object) -> NoReturn:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    path, expected = crashed
    logs = manager(path)
    report = logs.start({})
    assert report.offline_directories == {} and report.log_count == 2
    assert read_values(present(logs.get(BIG))) == expected[BIG][:-1]
    logs.shutdown()


def test_what_a_helper_meets_on_the_disk_is_the_owners_to_hear(tmp_path: Path, crashed: Crashed) -> None:
    """The owner gets the OSError of an unreadable file."""
    pool = HelperPool(1)
    pool.submit(1, scan_work(tmp_path, log_path=str(tmp_path / "gone.log")))
    token, error = answer(pool)
    assert token == 1 and isinstance(error, FileNotFoundError)
    pool.close()


def test_a_failing_disk_under_a_helper_is_an_error_of_the_directory(tmp_path: Path, crashed: Crashed) -> None:
    """Access to an unreadable page kills a process with SIGBUS; this must not be the broker."""
    pool = HelperPool(1)
    pool.submit(1, scan_work(tmp_path))
    pool._helpers[0].process.send_signal(signal.SIGBUS)
    _, error = answer(pool)
    assert isinstance(error, OSError) and "big-0" in str(error)
    pool.close()


def test_an_owner_gets_its_turn_while_a_helper_works(crashed: Crashed) -> None:
    """Each step is short, and once all small logs are open the progress says that only helpers are busy."""
    path, _ = crashed
    logs = manager(path)
    steps = logs.start_steps({})
    assert [progress for progress in steps if progress.is_waiting]
    assert len(logs.all_logs()) == 2
    logs.shutdown()


def test_a_start_that_is_given_up_changes_nothing(crashed: Crashed) -> None:
    """Such a start leaves no marker, checkpoint or helper, and the next start finds everything."""
    path, expected = crashed
    before = {entry.name for entry in path.iterdir()}
    logs = manager(path)
    steps = logs.start_steps({})
    next(steps)
    helpers = [helper.process for helper in present(present(logs._start)._openings[0]._helpers)._helpers]
    logs.shutdown(broker_epoch=5)
    assert helpers and all(process.poll() is not None for process in helpers)
    assert {entry.name for entry in path.iterdir()} == before
    again = manager(path)
    assert len(again.start({}).dropped) == 1
    assert read_values(present(again.get(BIG))) == expected[BIG][:-1]
    again.shutdown()


def test_a_directory_that_fails_in_a_helper_goes_offline_alone(
    tmp_path: Path, crashed: Crashed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report contains the reason."""
    path, _ = crashed
    monkeypatch.setattr(ScanWork, "run", None)  # the helper does not use this function, and this process must not scan
    monkeypatch.setattr(HelperPool, "results", lambda self, timeout_s=0: [(self._queue_token, OSError("broken disk"))])
    monkeypatch.setattr(HelperPool, "submit", lambda self, token, work: setattr(self, "_queue_token", token))
    monkeypatch.setattr(HelperPool, "is_busy", property(lambda self: hasattr(self, "_queue_token")))
    other = tmp_path / "other"
    logs = LogManager(
        [path, other],
        LogConfig(),
        broker_id=0,
        cluster_id="c",
        clock_ms=Clock(),
        settings=ManagerSettings(recovery_helper_count=1),
    )
    report = logs.start({})
    assert report.offline_directories == {str(path): "broken disk"}
    assert logs.live_directories == [other]
    logs.shutdown()


def test_without_partitions_a_directory_is_opened_at_once() -> None:
    opening = DirectoryOpening([], lambda tp, path: None, helper_count=1)  # type: ignore[arg-type, return-value]
    assert opening.step() == [] and opening.is_done and not opening.is_waiting
