"""More logs than files that the process may have open: what it has is shared out."""

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from kafka_zk.storage.log_config import LogConfig
from kafka_zk.storage.types import TopicPartition
from tests.storage.helpers import T0, append, batch
from tests.storage.test_log_manager import TPS, manager


def test_more_logs_than_the_process_may_open_files(tmp_path: Path) -> None:
    """A container with few descriptors; connections need some, too. In a process of its own, which has none open."""
    command = [sys.executable, "-m", "tests.storage.test_few_descriptors", str(tmp_path)]
    subprocess.run(command, check=True, timeout=60)
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_flushes_under_way_hold_no_more_files_than_the_pool(tmp_path: Path) -> None:
    """Each keeps one open; those that have waited for longest come first, then the others."""
    waiting = []
    logs = manager(
        tmp_path,
        default_config=LogConfig(flush_ms=0),
        max_open_files=2,
        run_blocking=lambda work, done: waiting.append((work, done)),
    )
    logs.start({})
    for tp in TPS:
        append(logs.get_or_create(tp), batch())
    assert logs.flush_dirty(T0 + 1) == 2
    assert logs.flush_dirty(T0 + 1) == 0
    for work, done in waiting:
        work()
        done(None)
    assert [logs.get_or_create(tp).recovery_point > 0 for tp in TPS] == [True, True, False]
    append(logs.get_or_create(TPS[0]), batch())
    assert logs.flush_dirty(T0 + 1) == 2
    assert logs.flush_dirty(T0 + 1) == 0
    logs.shutdown()


def test_a_log_that_is_always_written_to_does_not_keep_others_from_their_flush(tmp_path: Path) -> None:
    waiting = []
    logs = manager(
        tmp_path,
        default_config=LogConfig(flush_ms=0),
        max_open_files=1,
        run_blocking=lambda work, done: waiting.append((work, done)),
    )
    logs.start({})
    busy, quiet = (logs.get_or_create(tp) for tp in TPS[:2])
    append(busy, batch())
    append(quiet, batch())
    for _ in range(2):
        assert logs.flush_dirty(T0 + 1) == 1
        append(busy, batch())
        for work, done in waiting:
            work()
            done(None)
        waiting.clear()
    assert quiet.recovery_point == quiet.log_end_offset
    logs.shutdown()


def test_a_log_that_was_truncated_during_its_flush_is_flushed_again(tmp_path: Path) -> None:
    waiting: list[Any] = []
    logs = manager(
        tmp_path, default_config=LogConfig(flush_ms=0), run_blocking=lambda work, done: waiting.append((work, done))
    )

    def finish() -> None:
        for work, done in waiting:
            work()
            done(None)
        waiting.clear()

    logs.start({})
    log = logs.get_or_create(TPS[0])
    append(log, batch())
    logs.flush_dirty(T0 + 1)
    finish()
    flushed = log.recovery_point
    append(log, batch())
    assert logs.flush_dirty(T0 + 2) == 1
    log.truncate_to(flushed)
    finish()
    append(log, batch())
    for _ in range(2):  # the first one may be about nothing
        logs.flush_dirty(T0 + 3)
        finish()
    assert log.recovery_point == log.log_end_offset > flushed
    logs.shutdown()


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    all_logs = manager(Path(sys.argv[1]))
    all_logs.start({})
    for number in range(150):
        append(all_logs.get_or_create(TopicPartition("t", number)), batch())
    all_logs.shutdown()
