"""A process with more logs than it may have open files: the logs share its file descriptors."""

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files.log_config import LogConfig
from tests.storage.helpers import T0, append, batch
from tests.storage.manager.test_log_manager import TPS, manager


def test_more_logs_than_the_process_may_open_files(tmp_path: Path) -> None:
    """A container may allow few descriptors, and connections need some of them. The test uses a new process without
    open files.
    """
    command = [sys.executable, "-m", "tests.storage.manager.test_log_manager_few_descriptors", str(tmp_path)]
    subprocess.run(command, check=True, timeout=60)
    assert (tmp_path / ".kafka_cleanshutdown").exists()


class Flushes:
    """Logs that are always due for a flush. The flushes end when a test calls ``finish``."""

    def __init__(self, folder: Path, max_open_files: int) -> None:
        self._under_way: list[tuple[Callable[[], None], Callable[[OSError | None], None]]] = []
        self.logs = manager(
            folder,
            default_config=LogConfig(flush_ms=0),
            max_open_files=max_open_files,
            run_blocking=lambda work, done: self._under_way.append((work, done)),
        )
        self.logs.start({})

    def begin(self) -> int:
        """The number of flushes that have begun."""
        return self.logs.upkeep.flush_dirty(T0 + 1)

    def finish(self) -> None:
        under_way, self._under_way = self._under_way, []
        for work, done in under_way:
            work()
            done(None)


def test_flushes_under_way_hold_no_more_files_than_the_pool(tmp_path: Path) -> None:
    """Each flush keeps one file open. Logs that have waited longest come first."""
    flushes = Flushes(tmp_path, max_open_files=2)
    logs = flushes.logs
    for tp in TPS:
        append(logs.get_or_create(tp), batch())
    assert (flushes.begin(), flushes.begin()) == (2, 0)
    flushes.finish()
    assert [logs.get_or_create(tp).recovery_point > 0 for tp in TPS] == [True, True, False]
    append(logs.get_or_create(TPS[0]), batch())
    assert (flushes.begin(), flushes.begin()) == (2, 0)
    logs.shutdown()


def test_a_log_that_is_always_written_to_does_not_keep_others_from_their_flush(tmp_path: Path) -> None:
    flushes = Flushes(tmp_path, max_open_files=1)
    busy, quiet = (flushes.logs.get_or_create(tp) for tp in TPS[:2])
    append(busy, batch())
    append(quiet, batch())
    for _ in range(2):
        assert flushes.begin() == 1
        append(busy, batch())
        flushes.finish()
    assert quiet.recovery_point == quiet.log_end_offset
    flushes.logs.shutdown()


def test_a_log_that_was_truncated_during_its_flush_is_flushed_again(tmp_path: Path) -> None:
    flushes = Flushes(tmp_path, max_open_files=1)
    log = flushes.logs.get_or_create(TPS[0])
    append(log, batch())
    flushes.begin()
    flushes.finish()
    flushed = log.recovery_point
    append(log, batch())
    assert flushes.begin() == 1
    log.truncate_to(flushed)
    flushes.finish()
    append(log, batch())
    for _ in range(2):  # the first flush may have nothing to do
        flushes.begin()
        flushes.finish()
    assert log.recovery_point == log.log_end_offset > flushed
    flushes.logs.shutdown()


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    all_logs = manager(Path(sys.argv[1]))
    all_logs.start({})
    for number in range(150):
        append(all_logs.get_or_create(TopicPartition("t", number)), batch())
    all_logs.shutdown()
