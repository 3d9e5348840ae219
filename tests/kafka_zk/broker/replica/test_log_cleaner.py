"""A broker's log cleaner: which log it cleans, when, and what cancels a cleaning. These tests use real helper
processes.
"""

import errno
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from twisted.internet.defer import Deferred, fail, succeed

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica import log_cleaner
from kafka_zk.broker.replica.log_cleaner import MOST_DEATHS, LogCleaner, LogCleanerSettings
from kafka_zk.sim.machine.scheduler import VirtualClock
from kafka_zk.storage.cleaner.cleaner import CleanerConfig
from kafka_zk.storage.files import files
from kafka_zk.storage.files.helper_process import FAILED, Helper
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.log_manager import LogManager
from tests.storage.helpers import T0, append, batch, read_offsets

COMPACT = LogConfig(cleanup_policy=("compact",), file_delete_delay_ms=0)
SETTINGS = LogCleanerSettings(dedupe_buffer_bytes=1 << 21, backoff_ms=1000)


def readable(descriptor: int) -> "Deferred[None]":
    """Wait for the descriptor synchronously."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    assert poll.poll(60_000)
    return succeed(None)


class Broker:
    """The parts of a broker that a log cleaner needs. ``before`` is called with the number of each work in a thread."""

    def __init__(self, path: Path, settings: LogCleanerSettings = SETTINGS) -> None:
        self.clock = VirtualClock(T0)
        self.logs = LogManager(
            [path / "one", path / "two"], COMPACT, broker_id=0, cluster_id="c", clock_ms=self.clock.wall_ms
        )
        self.logs.start({})
        self.before: Callable[[int], object] = lambda number: None
        self.work_count = 0
        self.is_in_thread = False
        self.role_state: dict[TopicPartition, object] = {}
        self.cleaner = LogCleaner(self.clock, self._run, readable, self.logs, settings, self.role_state.get)

    def _run(self, work: Callable[[], Any]) -> "Deferred[Any]":
        self.work_count += 1
        self.before(self.work_count)
        self.is_in_thread = True
        try:
            result = work()
        except Exception as error:
            return fail(error)
        finally:
            self.is_in_thread = False
        return succeed(result)

    def log(self, name: str, dirty: int = 4, **config: Any) -> Log:
        """A log of ``dirty`` closed segments, each with two records of one key, and an active segment."""
        log = self.logs.get_or_create(
            TopicPartition(name, 0), LogConfig(cleanup_policy=("compact",), file_delete_delay_ms=0, **config)
        )
        log.follow_log_end()
        self.write(log, dirty)
        return log

    def write(self, log: Log, segments: int) -> None:
        for _ in range(segments):
            append(log, batch(2, key=b"k", timestamp_ms=T0))
            log.roll(T0)
        append(log, batch(2, key=b"k", timestamp_ms=T0))
        log.flush()


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setattr(log_cleaner, "ATTENTION_S", 60)  # the works in threads can then be counted
    made = Broker(tmp_path)
    yield made
    made.cleaner.stop()
    made.logs.shutdown()


def leftovers(log: Log) -> list[str]:
    return [path.name for path in log.directory.iterdir() if path.suffix in (".cleaned", ".swap")]


def test_a_dirty_log_is_compacted_and_the_checkpoint_written(broker: Broker, tmp_path: Path) -> None:
    log = broker.log("t")
    broker.cleaner.start()
    assert read_offsets(log) == [7, 8, 9] and log.cleaned_offset == 8 and not leftovers(log)
    checkpoint = broker.logs.log_dir_of(log.tp) / "cleaner-offset-checkpoint"
    assert checkpoint.read_text() == "0\n1\nt 0 8\n"
    (stats,) = broker.cleaner.last_stats
    assert (stats.records_read, stats.records_kept, stats.map_records_read) == (8, 1, 8)


class SyncsInThreads(files.FileSystem):
    """Records the partition directories that are synced on the reactor, where requests wait."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.found: list[str] = []

    def sync(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if not self._broker.is_in_thread and path.endswith("t-0"):
            self.found.append(path)


def test_no_request_waits_for_the_fsyncs_of_a_swap(broker: Broker) -> None:
    log = broker.log("t")
    system = SyncsInThreads(broker)
    with files.use(system):
        broker.cleaner.start()
    assert log.cleaned_offset == 8 and not system.found


def test_it_goes_on_after_a_restart_where_it_ended(broker: Broker, tmp_path: Path) -> None:
    broker.log("t")
    broker.cleaner.start()
    broker.cleaner.stop()
    broker.logs.shutdown()
    again = Broker(tmp_path)
    log = again.logs.get(TopicPartition("t", 0))
    assert log is not None and log.cleaned_offset == 8
    again.logs.shutdown()


def test_it_rests_while_no_log_is_dirty_enough(broker: Broker) -> None:
    log = broker.log("t")
    broker.cleaner.start()
    broker.write(log, 2)
    broker.clock.advance(0.5)
    assert log.cleaned_offset == 8
    broker.clock.advance(0.5)
    assert log.cleaned_offset == 14 and read_offsets(log) == [13, 14, 15]


def test_the_dirtiest_comes_first(broker: Broker) -> None:
    mild, wild = broker.log("mild", 4), broker.log("wild", 4)
    mild.cleaned_offset = 2
    order: list[str] = []

    def look(number: int) -> None:
        order.extend(log.tp.topic for log in (mild, wild) if log.is_being_cleaned and log.tp.topic not in order)

    broker.before = look
    broker.cleaner.start()
    assert order == ["wild", "mild"]


def test_a_log_can_be_cleaned_at_once(broker: Broker) -> None:
    """The log is cleaned however little of it is dirty, unless its topic is not compacted."""
    log = broker.log("t", 4, min_cleanable_dirty_ratio=1.0)
    other = broker.log("u")
    other.update_config(LogConfig())
    broker.cleaner.start()
    assert [log.cleaned_offset] == [None]
    assert broker.cleaner.clean_now(log.tp) and log.cleaned_offset == 8
    assert not broker.cleaner.clean_now(other.tp) and not broker.cleaner.clean_now(TopicPartition("unknown", 0))


def test_a_topic_made_anew_is_cleaned_though_its_predecessor_could_not_be(broker: Broker) -> None:
    """The list of uncleanable logs may not have been read in the meantime."""
    broker.cleaner.manager.mark_uncleanable(broker.log("t"), "it is damaged")
    broker.logs.delete(TopicPartition("t", 0))
    log = broker.log("t")
    broker.cleaner.start()
    assert log.cleaned_offset == 8
    broker.cleaner.manager.mark_uncleanable(log, "this one, too")
    assert list(broker.cleaner.manager.uncleanable) == [log.tp]


def test_a_log_that_is_to_be_cleaned_at_once_is_so_when_it_is_durable(broker: Broker) -> None:
    """Cleaning continues with the part that was not durable, or not committed, when the first part was cleaned."""
    log = broker.log("t", 4, min_cleanable_dirty_ratio=1.0)
    durable, log.recovery_point = log.recovery_point, 0
    log.update_high_watermark(4)
    broker.cleaner.start()
    assert (broker.cleaner.clean_now(log.tp), log.cleaned_offset) == (True, None)
    log.recovery_point = durable
    broker.clock.advance(1)
    assert log.cleaned_offset == 4
    log.follow_log_end()
    broker.clock.advance(1)
    assert log.cleaned_offset == 8
    broker.write(log, 1)
    broker.clock.advance(1)
    assert log.cleaned_offset == 8, "the request is fulfilled"


def test_what_is_not_to_be_compacted_is_left_alone(broker: Broker) -> None:
    log = broker.log("t")
    log.update_config(LogConfig())
    broker.cleaner.start()
    assert len(read_offsets(log)) == 10


def test_nothing_runs_without_the_cleaner(tmp_path: Path) -> None:
    broker = Broker(tmp_path, SETTINGS._replace(is_enabled=False))
    log = broker.log("t")
    broker.cleaner.start()
    assert not broker.cleaner.clean_now(log.tp) and log.cleaned_offset is None
    broker.logs.shutdown()


def test_retention_waits_for_the_cleaning_of_a_log(broker: Broker) -> None:
    log = broker.log("t")
    log.update_config(LogConfig(cleanup_policy=("compact", "delete"), retention_ms=0, file_delete_delay_ms=0))
    deleted: list[int] = []

    def clean_up(number: int) -> None:
        if log.is_being_cleaned:
            deleted.append(broker.logs.upkeep.cleanup(T0 + 10))

    broker.before = clean_up
    broker.cleaner.start()
    assert deleted and not any(deleted) and read_offsets(log) == [7, 8, 9]
    assert broker.logs.upkeep.cleanup(T0 + 10) == 2 and read_offsets(log) == []


# -- changes that void a cleaning -------------------------------------------------------------------------------------


STEPS = ["before", "begun", "amid", "recovery point", "sync 1", "sync 2", "sync 3", "at its end"]


@pytest.mark.parametrize("number", range(1, 9), ids=STEPS)
@pytest.mark.parametrize("what", ["truncated", "deleted", "recreated", "led by another", "stopped", "reconfigured"])
def test_a_log_that_changes_meanwhile_is_left_as_it_is(broker: Broker, what: str, number: int) -> None:
    """The change may happen at any point, and the cleaning then leaves nothing behind. A swap that has begun is
    completed first.
    """
    log = broker.log("t")

    def change(count: int) -> None:
        if count != number:
            return
        match what:
            case "truncated":
                log.truncate_to(5, T0)
            case "deleted":
                broker.logs.delete(log.tp)
            case "recreated":
                broker.logs.delete(log.tp)
                broker.log("t", 1, min_cleanable_dirty_ratio=1.0)
            case "led by another":
                broker.role_state[log.tp] = "another leader"
                log.update_config(LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=1.0))
            case "stopped":
                broker.cleaner.stop()
            case "reconfigured":
                log.update_config(LogConfig())

    broker.before = change
    broker.cleaner.start()
    present = broker.logs.get(log.tp)
    if present is not None:
        whole = {"truncated": [0, 1, 2, 3], "recreated": [0, 1, 2, 3]}.get(what, list(range(10)))
        swapped = {"truncated": [], "recreated": whole}.get(what, [7, 8, 9])
        is_log_the_same = what in ("stopped", "led by another")  # a swap that was requested is then carried out
        is_swapped = number >= 5 or (number == 4 and is_log_the_same)
        assert read_offsets(present) == (swapped if is_swapped else whole)
        may_count = is_swapped and is_log_the_same  # all segments were swapped
        assert present.cleaned_offset is None or may_count
        assert what == "stopped" or not leftovers(present)
        assert not present.is_being_cleaned
    assert not broker.cleaner.manager.uncleanable and len(broker.logs.live_directories) == 2


def test_a_helper_that_dies_is_replaced_until_the_log_is_given_up(broker: Broker) -> None:
    log = broker.log("bad")

    def kill(number: int) -> None:
        for lane in broker.cleaner._lanes:
            if lane._helper is not None and lane._helper.is_alive and log.is_being_cleaned:
                os.kill(lane._helper.process.pid, signal.SIGKILL)
                lane._helper.process.wait()

    broker.before = kill
    broker.cleaner.start()
    assert not broker.cleaner.manager.uncleanable
    for _ in range(MOST_DEATHS - 1):
        broker.clock.advance(1)
    assert list(broker.cleaner.manager.uncleanable) == [log.tp]
    assert len(read_offsets(log)) == 10 and not leftovers(log) and not broker.cleaner.dead_thread_count
    broker.before = lambda number: None
    other = broker.log("good")
    broker.clock.advance(1)
    assert other.cleaned_offset == 8


def test_a_helper_that_cannot_be_started_is_nothing_against_the_log(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The machine may have room for a process later; one line reports the failure."""

    def refuse(*arguments: object) -> NoReturn:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    log = broker.log("t")
    with monkeypatch.context() as patch:
        patch.setattr(broker.cleaner, "start_helper", refuse)
        broker.cleaner.start()
        for _ in range(2 * MOST_DEATHS):
            broker.clock.advance(1)
    assert not broker.cleaner.manager.uncleanable and not broker.cleaner.deaths and not log.is_being_cleaned
    broker.clock.advance(1)
    assert log.cleaned_offset == 8
    assert [record.levelname for record in caplog.records if "no helper process" in record.getMessage()] == ["WARNING"]


def test_deaths_are_forgotten_with_the_log(broker: Broker) -> None:
    log = broker.log("t")
    broker.cleaner.deaths[log] = MOST_DEATHS - 1
    broker.logs.delete(log.tp)
    broker.cleaner.start()
    assert not broker.cleaner.deaths


class Short(files.FileSystem):
    """A machine that temporarily lacks a resource when a partition's directory is synced."""

    def __init__(self, times: int, number: int) -> None:
        self._left = times
        self._number = number

    def sync(self, descriptor: int) -> None:
        if self._left and os.readlink(f"/proc/self/fd/{descriptor}").endswith("t-0"):
            self._left -= 1
            raise OSError(self._number, os.strerror(self._number))
        super().sync(descriptor)


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN])
def test_what_the_machine_is_short_of_is_waited_for(
    broker: Broker, number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The helper gives up, but the broker cannot give up during a swap. No disk goes offline for it."""
    log = broker.log("t")
    refused = FAILED, OSError(number, os.strerror(number))
    with monkeypatch.context() as patch:
        patch.setattr(Helper, "receive", lambda self: refused)
        broker.cleaner.start()
        broker.clock.advance(1)
    assert (log.cleaned_offset, log.is_being_cleaned, leftovers(log)) == (None, False, [])
    with files.use(Short(3, number)):
        for _ in range(4):
            broker.clock.advance(1)
    assert log.cleaned_offset == 8 and read_offsets(log) == [7, 8, 9] and not leftovers(log)
    assert len(broker.logs.live_directories) == 2 and not broker.cleaner.manager.uncleanable
    assert sum("tries again" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.ENOSPC])
def test_a_disk_that_fails_amid_a_swap_goes_offline(broker: Broker, number: int) -> None:
    log = broker.log("t")
    with files.use(Short(1, number)):
        broker.cleaner.start()
    assert broker.logs.get(log.tp) is None and len(broker.logs.live_directories) == 1


def test_no_thread_waits_for_a_helper(broker: Broker) -> None:
    """The reactor waits, and checks from time to time whether the cleaning is still wanted."""
    waiting: list[Deferred[None]] = []

    def later(descriptor: int) -> "Deferred[None]":
        waiting.append(Deferred())
        return waiting[-1]

    broker.cleaner.when_readable = later
    log = broker.log("t")
    broker.cleaner.start()
    assert (broker.work_count, len(waiting)) == (2, 1) and [log.is_being_cleaned] == [True]
    broker.clock.advance(log_cleaner.ATTENTION_S)
    assert (broker.work_count, len(waiting)) == (2, 2)
    log.truncate_to(9)
    log.update_config(LogConfig())
    broker.clock.advance(log_cleaner.ATTENTION_S)
    assert len(waiting) == 2 and not log.is_being_cleaned and not leftovers(log)


def test_a_damaged_log_is_marked_and_left_and_the_others_go_on(broker: Broker) -> None:
    log, other = broker.log("bad"), broker.log("good")
    path = log.directory / "00000000000000000002.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    log.cleaned_offset = 2  # the damage is in the dirty part, so the log stays unchanged
    broker.cleaner.start()
    for _ in range(3):
        broker.clock.advance(1)
    assert list(broker.cleaner.manager.uncleanable) == [log.tp] and other.cleaned_offset == 8
    assert path.read_bytes() == content and len(log.segments) == 5 and not leftovers(log)
    assert len(broker.logs.live_directories) == 2
    broker.logs.delete(log.tp)
    assert not broker.cleaner.manager.uncleanable


def test_a_failed_directory_takes_its_logs_only(broker: Broker) -> None:
    """The helper meets a disk error, and the directory goes offline as after every disk error."""
    log, other = broker.log("bad"), broker.log("good")
    path = log.directory / "00000000000000000002.log"
    path.unlink()
    path.mkdir()
    log.segments.close_files()
    broker.cleaner.start()
    broker.clock.advance(1)
    assert broker.logs.get(log.tp) is None and len(broker.logs.live_directories) == 1
    assert other.cleaned_offset == 8


def test_a_thread_that_fails_is_counted_and_lets_its_log_go(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = broker.log("t")
    monkeypatch.setattr(log_cleaner, "_tell_cleaned", lambda cleaning, cleaned: 1 / 0)
    broker.cleaner.start()
    assert broker.cleaner.dead_thread_count == 1
    assert not log.is_being_cleaned and log.cleaned_offset is None and read_offsets(log) == [7, 8, 9]


# -- settings ---------------------------------------------------------------------------------------------------------


def test_threads_share_what_they_may_take() -> None:
    settings = LogCleanerSettings(True, 4, 1 << 30, 0.9, 1 << 20, 100)
    assert settings.share == CleanerConfig(1 << 28, 0.9, 1 << 17, 25.0)
    assert LogCleanerSettings(dedupe_buffer_bytes=1 << 40).share.dedupe_buffer_bytes == (1 << 31) - 1


def test_a_change_of_the_settings_holds_at_once(broker: Broker) -> None:
    broker.cleaner.start()
    log = broker.log("t")
    broker.cleaner.reconfigure(SETTINGS._replace(threads=2, is_enabled=False))
    assert log.cleaned_offset == 8 and len(broker.cleaner.last_stats) == 2


# -- helper and lock --------------------------------------------------------------------------------------------------


def test_no_other_broker_opens_the_folder_while_a_helper_lives(broker: Broker, tmp_path: Path) -> None:
    """A kafka-zk broker waits for the helper to end. A Kafka broker locks the whole file and fails."""
    helper = Helper(0, 0, broker.logs.directory_locks)
    broker.logs.shutdown()
    descriptor = os.open(tmp_path / "one" / ".lock", os.O_RDWR)
    whole = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    command = [sys.executable, "-c", whole, str(tmp_path / "one" / ".lock")]
    assert not files.lock_inheritably(descriptor)
    assert subprocess.run(command, capture_output=True, check=False).returncode
    helper.end()
    assert files.lock_inheritably(descriptor)
    os.close(descriptor)
    assert not subprocess.run(command, check=False).returncode


@pytest.mark.integration
def test_a_helper_dies_with_its_broker_in_the_middle_of_its_work(tmp_path: Path) -> None:
    code = (
        "import os\n"
        "from kafka_zk.storage.files.helper_process import Helper\n"
        "from tests.kafka_zk.broker.replica.sleeper import Sleeper\n"
        "helper = Helper()\n"
        "helper.begin(Sleeper())\n"
        "assert helper.receive()\n"
        "print(helper.process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    pid = int(ended.stdout)
    deadline_s = time.monotonic() + 10
    while Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
