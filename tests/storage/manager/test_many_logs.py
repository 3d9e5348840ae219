"""Thousands of idle logs: their cost is counted in system calls, so that any growth is noticed."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files.file_pool import FilePool
from kafka_zk.storage.files.findings import Finding
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.manager.hosted_logs import LogCallbacks
from kafka_zk.storage.manager.log_dir import LOGS_AT_ONCE, Works, close_logs_steps
from kafka_zk.storage.manager.log_loader import LogDependencies, create_log
from kafka_zk.storage.manager.log_manager import LogManager
from tests.storage.faults import FaultyFiles
from tests.storage.helpers import TP, Clock, append, batch, max_timestamp_offset, offset_for_timestamp, present, reopen

COUNTED = ("sync", "sync_data", "rename", "make_directory", "open")


def manager(*directories: Path) -> LogManager:
    return LogManager(directories, LogConfig(), broker_id=1, cluster_id="c", clock_ms=Clock())


def carry_out(steps: Iterable[Works]) -> None:
    """Run the work as an owner without threads does."""
    for works in steps:
        for work in works:
            work()


@pytest.fixture
def calls(faults: FaultyFiles) -> Counter[str]:
    """The number of files opened for writing, synced, and renamed."""
    return faults.calls


def lead(logs: LogManager, count: int) -> None:
    for number in range(count):
        logs.get_or_create(TopicPartition("t", number), topic_id="YTI9vJfzQOepxQr8vcaMoQ").leader_epochs.begin(0, 0)


def cost_per_log(calls: Counter[str], work: Callable[[int], None]) -> dict[str, float]:
    """Calls per log made by ``work(count)``, without calls that occur only once."""
    found = []
    for count in (10, 30):
        calls.clear()
        work(count)
        found.append(Counter(calls))
    few, many = found
    return {name: (many[name] - few[name]) / 20 for name in COUNTED if many[name] != few[name]}


def test_creation(tmp_path: Path, calls: Counter[str]) -> None:
    """Creation makes only a folder, and syncs nothing."""

    def create(count: int) -> None:
        logs = manager(tmp_path / str(count))
        logs.start({})
        calls.clear()
        lead(logs, count)

    assert cost_per_log(calls, create) == {"make_directory": 1}


def test_first_records(tmp_path: Path, calls: Counter[str]) -> None:
    """The first append creates three files of the segment, one with the topic's id and one with the leader epochs; it
    syncs nothing.
    """

    def write(count: int) -> None:
        logs = manager(tmp_path / str(count))
        logs.start({})
        lead(logs, count)
        calls.clear()
        for log in logs.all_logs():
            append(log, batch())

    assert cost_per_log(calls, write) == {"open": 5, "rename": 2}


def test_topic_ids_of_empty_logs_are_written_later(tmp_path: Path, calls: Counter[str]) -> None:
    """The broker writes them periodically, and only once. A stop does not write them, because the controller sends them
    again."""
    logs = manager(tmp_path)
    logs.start({})
    lead(logs, 5)
    append(present(logs.get(TopicPartition("t", 0))), batch())
    calls.clear()
    assert len(list(logs.upkeep.write_topic_ids_steps())) == calls["rename"] == 4
    assert len(list(tmp_path.glob("t-*/partition.metadata"))) == 5
    calls.clear()
    assert not list(logs.upkeep.write_topic_ids_steps()) and not calls["open"]
    logs.get_or_create(TopicPartition("u", 0), topic_id="YTI9vJfzQOepxQr8vcaMoQ")
    logs.shutdown()
    assert not list((tmp_path / "u-0").iterdir())


def test_an_empty_log_is_read_and_opened_without_files(tmp_path: Path) -> None:
    """After a crash, only its folder exists. The next start opens it as a log that begins at 0, for any topic id."""
    logs = manager(tmp_path)
    logs.start({})
    lead(logs, 1)
    [log] = logs.all_logs()
    assert log.read(0, 1000).slice is None
    assert offset_for_timestamp(log, 0) is None and max_timestamp_offset(log) is None
    assert log.aborted_transactions(0, 1) == [] and log.segments.active.modified_ms() > 0
    assert not log.truncate_to(0) and log.delete_old_segments(2**60) == 0
    for log_dir in logs.hosted.live_dirs:
        log_dir.close()
    assert not list((tmp_path / "t-0").iterdir())
    findings: list[Finding] = []
    again = LogManager(
        [tmp_path],
        LogConfig(),
        broker_id=1,
        cluster_id="c",
        clock_ms=Clock(),
        callbacks=LogCallbacks(observe=findings.append),
    )
    again.start({})
    other_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    log = again.get_or_create(TopicPartition("t", 0), topic_id=other_id)
    assert (log.log_end_offset, log.topic_id, findings) == (0, other_id, [])
    append(log, batch(3))
    again.shutdown()
    third = manager(tmp_path)
    third.start({})
    log = present(third.get(TopicPartition("t", 0)))
    assert (log.log_end_offset, log.topic_id) == (3, other_id)
    third.shutdown()


def test_an_empty_log_that_does_not_begin_at_0_has_files(tmp_path: Path) -> None:
    """Only the file names contain the next offset."""
    logs = manager(tmp_path)
    logs.start({})
    lead(logs, 1)
    [log] = logs.all_logs()
    log.truncate_fully_and_start_at(7)
    for log_dir in logs.hosted.live_dirs:
        log_dir.close()
    again = manager(tmp_path)
    again.start({})
    assert present(again.get(TopicPartition("t", 0))).log_end_offset == 7
    again.shutdown()


def test_an_empty_log_that_ends_later_begins_where_it_did(tmp_path: Path) -> None:
    """Such a log is the copy of a log from which compaction removed all records. It was not flushed."""
    log = create_log(TP, str(tmp_path / "t-0"), LogConfig(cleanup_policy=("compact",)), LogDependencies(FilePool()), 0)
    log.extend_to(7, 0)
    assert log.recovery_point == 7
    log.segments.close_files()
    again, _ = reopen(log, recovery_point=7)
    assert (again.log_start_offset, again.log_end_offset) == (0, 7)


@pytest.mark.parametrize("refused", [f"{0:020d}.log", f"{0:020d}.index", "partition.metadata.tmp"])
def test_a_disk_that_refuses_the_files_takes_no_record(tmp_path: Path, faults: FaultyFiles, refused: str) -> None:
    """The first append raises the error, as any other append would."""
    logs = manager(tmp_path)
    logs.start({})
    lead(logs, 1)
    [log] = logs.all_logs()
    faults.fail("open", tmp_path / "t-0" / refused)
    with pytest.raises(OSError):
        append(log, batch())
    assert log.log_end_offset == 0 and logs.pool.open_count == 0
    faults.heal()
    append(log, batch())
    assert log.log_end_offset == 1
    logs.shutdown()


@pytest.mark.parametrize("is_clean", [True, False])
def test_restarts(tmp_path: Path, calls: Counter[str], is_clean: bool) -> None:
    """Neither a stop nor a start writes or syncs anything for a log without records."""

    def restart(count: int) -> None:
        logs = manager(tmp_path / str(count))
        logs.start({})
        lead(logs, count)
        assert len(list(logs.upkeep.write_topic_ids_steps())) == count
        calls.clear()
        if is_clean:
            logs.shutdown()
        else:
            for log_dir in logs.hosted.live_dirs:
                log_dir.close()
        again = manager(tmp_path / str(count))
        assert again.start({}).log_count == count
        lead(again, count)
        again.shutdown()

    assert cost_per_log(calls, restart) == {}


def test_new_logs_go_where_the_fewest_are(tmp_path: Path) -> None:
    """The rule also applies after deletions and a restart."""
    logs = manager(*(tmp_path / name for name in "abc"))
    logs.start({})
    lead(logs, 9)
    assert [len(log_dir.logs) for log_dir in logs.hosted.live_dirs] == [3, 3, 3]
    emptied = logs.log_dir_of(TopicPartition("t", 4))
    for number in range(9):
        if logs.log_dir_of(TopicPartition("t", number)) == emptied:
            logs.delete(TopicPartition("t", number))
    logs.shutdown()
    again = manager(*(tmp_path / name for name in "abc"))
    again.start({})
    new = [TopicPartition("u", number) for number in range(3)]
    for tp in new:
        again.get_or_create(tp)
    assert {again.log_dir_of(tp) for tp in new} == {emptied}
    again.shutdown()


def test_closing_makes_everything_durable(tmp_path: Path, calls: Counter[str]) -> None:
    """For each log with records, the segment, both indexes, the folder and its parent are synced; for other logs
    nothing is.
    """
    logs = manager(tmp_path)
    logs.start({})
    lead(logs, 20)
    for number in range(10):
        append(present(logs.get(TopicPartition("t", number))), batch())
    calls.clear()
    carry_out(close_logs_steps(logs.all_logs()))
    assert calls["sync_data"] == 10
    # the folder and its parent, the time index with its last entry, the epochs, the topic id
    assert calls["sync"] == 10 * 5
    assert [log.recovery_point for log in logs.all_logs()] == [1] * 10 + [0] * 10
    assert logs.pool.open_count == 0


def test_a_broker_does_other_things_between_the_steps_of_a_shutdown(tmp_path: Path) -> None:
    """For example, it sends heartbeats; each step makes a bounded number of logs durable."""
    logs = manager(tmp_path)
    logs.start({})
    lead(logs, 2 * LOGS_AT_ONCE + 1)
    all_logs = logs.all_logs()
    for log in all_logs:
        append(log, batch())
    closed = [0]
    for works in logs.shutdown_steps():
        for work in works:
            work()
        closed.append(sum(log.recovery_point == 1 for log in all_logs))
    assert list(dict.fromkeys(closed)) == [0, LOGS_AT_ONCE, 2 * LOGS_AT_ONCE, len(all_logs)]
    assert logs.all_logs() == []
    again = manager(tmp_path)
    assert again.start({}).recovered_count == 0, "the stop was clean"
    again.shutdown()


def test_the_owner_syncs_where_it_likes(tmp_path: Path, calls: Counter[str]) -> None:
    """Closing does not wait for the disk: it hands out the fsyncs, and closes the files when they are done."""
    logs = manager(tmp_path)
    logs.start({})
    lead(logs, 1)
    append(present(logs.get(TopicPartition("t", 0))), batch())
    calls.clear()
    steps = close_logs_steps(logs.all_logs())
    works = next(steps)
    assert logs.pool.open_count == 1 and not calls["sync"] + calls["sync_data"]
    for work in works:
        work()
    assert calls["sync_data"] == 1
    carry_out(steps)
    assert logs.pool.open_count == 0


def test_names_and_jitter_come_from_the_given_randomness(tmp_path: Path) -> None:
    """Two managers with the same seed behave the same."""

    def names_and_jitters(folder: Path) -> tuple[list[str], list[int]]:
        config = LogConfig(segment_jitter_ms=1_000_000)
        logs = LogManager(
            [folder],
            config,
            broker_id=1,
            cluster_id="c",
            clock_ms=Clock(),
            callbacks=LogCallbacks(random=Random(7)),
        )
        logs.start({})
        lead(logs, 2)
        log = present(logs.get(TopicPartition("t", 0)))
        jitters = [log.segments.active.roll_jitter_ms]
        append(log, batch())
        log.roll(0)
        jitters.append(log.segments.active.roll_jitter_ms)
        logs.delete(TopicPartition("t", 1))
        logs.shutdown()
        again = LogManager(
            [folder],
            config,
            broker_id=1,
            cluster_id="c",
            clock_ms=Clock(),
            callbacks=LogCallbacks(random=Random(8)),
        )
        again.start({})
        jitters.append(present(again.get(TopicPartition("t", 0))).segments.active.roll_jitter_ms)
        again.shutdown()
        return [path.name for path in sorted(folder.glob("*-delete"))], jitters

    one, other = names_and_jitters(tmp_path / "one"), names_and_jitters(tmp_path / "other")
    assert one == other and len(one[0]) == 1 and len(set(one[1])) == 3


def test_a_failed_sync_fails_the_whole_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: FaultyFiles
) -> None:
    """The error is raised after all other syncs, because a file must not be closed while a thread syncs it."""
    logs = manager(tmp_path)
    logs.start({})
    lead(logs, 5)
    for log in logs.all_logs():
        append(log, batch())
    synced = []

    def fail_once(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 1:
            raise OSError(5, "I/O error")

    monkeypatch.setattr(faults, "sync_data", fail_once)
    with pytest.raises(OSError, match="I/O error"):
        carry_out(close_logs_steps(logs.all_logs()))
    assert len(synced) == 5
    assert not any(log.segments.active.is_pinned for log in logs.all_logs())
    assert sorted(log.recovery_point for log in logs.all_logs()) == [0, 1, 1, 1, 1]
