"""Snapshots of many producers: encoded in steps between appends, written by another thread, and dropped if the log is
truncated."""

import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.files.run_blocking import Done
from kafka_zk.storage.log import local_log, producer_snapshot
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.producer_id_budget import MAX_PRODUCERS
from kafka_zk.storage.log.producer_snapshot import ProducerEntry, encode_snapshot
from kafka_zk.storage.log.producer_state import ProducerState
from kafka_zk.storage.manager.hosted_logs import LogCallbacks
from kafka_zk.storage.manager.log_manager import LogManager
from kafka_zk.storage.records.record_batch import read_header
from kafka_zk.storage.segments import log_segments
from tests.storage.faults import FaultyFiles
from tests.storage.helpers import T0, Clock, append, batch, reopen

TP = TopicPartition("events", 0)
PRODUCERS = 5


class Broker:
    """One log, and a worker thread that runs only in ``finish``."""

    def __init__(self, path: Path) -> None:
        self.works: deque[tuple[Callable[[], None], Done]] = deque()
        config = LogConfig(retention_ms=1, file_delete_delay_ms=0)
        self.logs = LogManager(
            [path],
            config,
            broker_id=0,
            cluster_id="c",
            clock_ms=Clock(),
            callbacks=LogCallbacks(run_blocking=lambda work, done: self.works.append((work, done))),
        )  # fmt: skip
        self.logs.start({})
        self.log = self.logs.get_or_create(TP)

    def produce(self, sequence: int, producers: range = range(PRODUCERS)) -> None:
        for producer_id in producers:
            append(self.log, batch(producer_id=producer_id, producer_epoch=0, base_sequence=sequence))

    def encode(self) -> None:
        for _ in self.logs.large_snapshots.steps():
            pass

    def finish(self) -> None:
        """Run all of the thread's work, and the owner's steps after it."""
        while self.works:
            work, done = self.works.popleft()
            try:
                work()
            except OSError as error:
                done(error)
            else:
                done(None)


def snapshots(log: Log) -> list[str]:
    return sorted(path.name.lstrip("0") for path in log.directory.glob("*snapshot*"))


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """Two producers count as many, and each is encoded in a step of its own."""
    monkeypatch.setattr(local_log, "WRITTEN_AT_ONCE", 2)
    monkeypatch.setattr(producer_snapshot, "ENTRIES_A_STEP", 1)
    made = Broker(tmp_path)
    yield made
    for log_dir in made.logs.hosted.live_dirs:
        log_dir.close()


def test_a_roll_of_many_producers_keeps_the_others_for_milliseconds(tmp_path: Path) -> None:
    """The snapshot is encoded in steps, none longer than a turn."""
    broker = Broker(tmp_path)
    broker.produce(0, range(1))
    entries = [ProducerEntry(producer_id, 0, -1, T0) for producer_id in range(100_000)]
    for entry in entries:
        entry.add((0, 0, 0, 0, T0))
    broker.log.producers.load(entries, 0)
    expected = encode_snapshot(broker.log.producers.producers)
    begun = process_time()
    broker.log.roll(T0)
    durations = [process_time() - begun]
    steps = broker.logs.large_snapshots.steps()
    begun = process_time()
    for _ in steps:
        durations.append(process_time() - begun)
        begun = process_time()
    assert len(durations) > 100 and sorted(durations)[-3] < 0.01, sorted(durations)[-5:]
    broker.finish()
    assert (broker.log.directory / f"{1:020d}.snapshot").read_bytes() == expected


@pytest.mark.parametrize("steps_before", range(PRODUCERS + 1))
def test_a_snapshot_holds_the_producers_as_they_were_at_its_offset(broker: Broker, steps_before: int) -> None:
    """The snapshot is consistent even if producers write, expire or appear between two steps."""
    broker.produce(0)
    expected = encode_snapshot(broker.log.producers.producers)
    broker.log.roll(T0)
    steps = broker.logs.large_snapshots.steps()
    for _ in range(steps_before):
        next(steps)
    broker.produce(1)
    broker.produce(0, range(PRODUCERS, PRODUCERS + 3))
    broker.produce(2)
    broker.log.producers.remove_expired(T0 + 10**9, 1)
    list(steps)
    broker.finish()
    (path,) = broker.log.directory.glob("*.snapshot")
    assert (path.name, path.read_bytes()) == (f"{PRODUCERS:020d}.snapshot", expected)


@pytest.mark.parametrize("is_written", [False, True])
def test_a_start_knows_all_producers_with_and_without_the_snapshot(broker: Broker, is_written: bool) -> None:
    broker.produce(0)
    broker.log.roll(T0)
    broker.produce(1)
    broker.encode()
    if is_written:
        broker.finish()
    again, _ = reopen(broker.log)
    assert encode_snapshot(again.producers.producers) == encode_snapshot(broker.log.producers.producers)
    assert all("tmp" not in name for name in snapshots(again))


def test_a_snapshot_under_way_is_void_when_the_log_is_cut(broker: Broker) -> None:
    """A truncation also voids a snapshot that the thread is writing. A later snapshot of the same offset is independent
    of it.
    """
    for is_encoded in (False, True):
        broker.produce(0)
        broker.log.roll(T0)
        if is_encoded:
            broker.encode()
        broker.log.truncate_to(PRODUCERS - 2)
        broker.encode()
        broker.finish()
        assert snapshots(broker.log) == []
        broker.log.truncate_fully_and_start_at(0)
    broker.produce(0)
    broker.log.roll(T0)
    broker.encode()
    broker.log.truncate_fully_and_start_at(0)
    broker.produce(7)
    expected = encode_snapshot(broker.log.producers.producers)
    broker.log.roll(T0)
    broker.encode()
    assert len(broker.works) == 2
    broker.finish()
    (path,) = broker.log.directory.glob("*snapshot*")
    assert path.read_bytes() == expected


@pytest.mark.parametrize("is_encoded", [False, True])
def test_a_snapshot_is_never_written_to_a_later_log_of_the_same_name(broker: Broker, is_encoded: bool) -> None:
    broker.produce(0)
    broker.log.roll(T0)
    if is_encoded:
        broker.encode()
    broker.logs.delete(TP)
    broker.log = broker.logs.get_or_create(TP)
    broker.encode()
    broker.finish()
    broker.produce(3, range(9, 10))
    assert snapshots(broker.log) == [] and list(broker.log.producers.producers) == [9]
    assert broker.logs.live_directories


def test_rolls_meanwhile_have_no_snapshot_and_retention_waits_for_the_next(broker: Broker) -> None:
    """Only a snapshot has the producers of deleted segments."""
    broker.produce(0)
    broker.log.roll(T0)
    broker.produce(1)
    broker.log.roll(T0)
    assert broker.log.delete_old_segments(T0 + 10) == 0
    broker.encode()
    broker.finish()
    assert snapshots(broker.log) == [f"{PRODUCERS}.snapshot"]
    assert broker.log.delete_old_segments(T0 + 10) == 1
    assert broker.log.delete_old_segments(T0 + 10) == 0
    broker.produce(2)
    broker.log.roll(T0)
    broker.encode()
    broker.finish()
    assert broker.log.delete_old_segments(T0 + 10) == 2
    again, _ = reopen(broker.log, recovery_point=broker.log.log_end_offset, log_start_offset=3 * PRODUCERS)
    assert again.log_start_offset == 3 * PRODUCERS


def test_retention_waits_for_the_name_of_a_snapshot_to_be_durable(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flush after the roll may end before the snapshot file has its final name."""
    broker.produce(0)
    broker.log.roll(T0)
    broker.encode()
    broker.log.flush()
    broker.finish()
    synced: list[str] = []
    monkeypatch.setattr(log_segments, "sync_path", synced.append)
    assert (broker.log.recovery_point, broker.log.delete_old_segments(T0 + 10)) == (PRODUCERS, 1)
    directory = str(broker.log.directory)
    assert synced == [f"{directory}/{PRODUCERS:020}.snapshot", directory]


def test_a_clean_stop_writes_the_snapshot_itself(broker: Broker) -> None:
    """A snapshot of the same offset that is still in progress does not overwrite it."""
    broker.produce(0)
    broker.log.roll(T0)
    broker.encode()
    expected = encode_snapshot(broker.log.producers.producers)
    broker.logs.shutdown()
    broker.finish()
    (path,) = broker.log.directory.glob("*snapshot*")
    assert path.read_bytes() == expected


def test_a_disk_that_fails_takes_the_directory_offline(broker: Broker, faults: FaultyFiles) -> None:
    broker.produce(0)
    broker.log.roll(T0)
    broker.encode()
    faults.fail("sync_data")
    broker.finish()
    assert broker.logs.live_directories == []


def test_producers_within_the_bound_leave_a_broker_under_300_mb() -> None:
    """Each producer has five cached batches. A broker without producers takes 80 MB."""
    count = 5_000
    headers = read_header(batch(2))
    state = ProducerState()
    tracemalloc.start()
    try:
        for number in range(5 * count):
            header = headers._replace(
                producer_id=10**6 + number % count, producer_epoch=0, base_sequence=1000 + number // count * 2
            )
            state.update(header, 10**9 + 2 * number, T0 + number)
        per_producer_bytes = tracemalloc.get_traced_memory()[0] / count
    finally:
        tracemalloc.stop()
    assert [len(entry.batches) for entry in state.producers.values()] == [5] * count
    assert per_producer_bytes * MAX_PRODUCERS < 220e6, per_producer_bytes
