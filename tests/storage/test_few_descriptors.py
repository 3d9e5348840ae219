"""More logs than files that the process may have open: what it has is shared out."""

import os
import resource

from storage.log_config import LogConfig
from storage.types import TopicPartition

from .helpers import T0, append, batch
from .test_log_manager import TPS, manager


def test_more_logs_than_the_process_may_open_files(tmp_path):
    """A container with few descriptors; connections need some, too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    first_free = os.open(tmp_path, os.O_RDONLY)
    os.close(first_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first_free + 100, hard))
    try:
        logs = manager(tmp_path)
        logs.start({})
        for number in range(150):
            append(logs.get_or_create(TopicPartition("t", number)), batch())
        logs.shutdown()
        assert (tmp_path / ".kafka_cleanshutdown").exists()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_flushes_under_way_hold_no_more_files_than_the_pool(tmp_path):
    """Each keeps one open; the others' turn comes."""
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
    assert logs.flush_dirty(T0 + 1) == 1
    logs.shutdown()
