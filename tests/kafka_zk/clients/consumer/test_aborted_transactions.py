"""read_committed: the consumer never returns markers and records of aborted transactions, and its position moves past
them.
"""

import random
import struct
from dataclasses import dataclass, field

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.aborted_transactions import batches_with_aborted
from kafka_zk.clients.consumer.config import ReaderConfig
from kafka_zk.clients.consumer.fetch_state import FetchState
from kafka_zk.protocol.fetch import AbortedTransaction, FetchedPartition
from kafka_zk.storage.files.errors import InvalidRecord
from kafka_zk.storage.records.record_batch import RecordBatchBuilder

TP = TopicPartition("t", 0)
COMMIT, ABORT = 1, 0


@dataclass
class Log:
    """A log with transactions, and a broker's response to a fetch."""

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)  # base offset, next offset, bytes
    aborted: list[tuple[int, int, int]] = field(default_factory=list)  # producer, first offset, last offset
    committed: set[int] = field(default_factory=set)
    end: int = 0
    _open: dict[int, list[int]] = field(default_factory=dict)

    def append(self, producer_id: int, count: int, *, transactional: bool = True) -> None:
        offsets = list(range(self.end, self.end + count))
        builder = RecordBatchBuilder(producer_id=producer_id, producer_epoch=0, transactional=transactional)
        for _ in offsets:
            builder.append(1000, b"k", b"v")
        if transactional:
            self._open.setdefault(producer_id, []).extend(offsets)
        else:
            self.committed.update(offsets)
        self._write(builder, count)

    def end_transaction(self, producer_id: int, kind: int) -> None:
        offsets = self._open.pop(producer_id, [])
        if kind == COMMIT:
            self.committed.update(offsets)
        elif offsets:
            self.aborted.append((producer_id, offsets[0], self.end))
        builder = RecordBatchBuilder(producer_id=producer_id, producer_epoch=0, transactional=True, control=True)
        builder.append(1000, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
        self._write(builder, 1)

    def _write(self, builder: RecordBatchBuilder, count: int) -> None:
        self.batches.append((self.end, self.end + count, builder.build(base_offset=self.end)))
        self.end += count

    @property
    def last_stable_offset(self) -> int:
        return min((offsets[0] for offsets in self._open.values()), default=self.end)

    def fetch(self, offset: int, batch_count: int) -> FetchedPartition:
        stable = self.last_stable_offset
        found = [each for each in self.batches if each[1] > offset and each[1] <= stable][:batch_count]
        until = found[-1][1] if found else offset
        listed = [
            AbortedTransaction(producer, first)
            for producer, first, last in self.aborted
            if last >= offset and first < until
        ]
        data = memoryview(b"".join(each[2] for each in found))
        return FetchedPartition(0, 0, self.end, stable, 0, data, listed)


def read(log: Log, rng: random.Random, start: int, isolation_level: str) -> tuple[list[int], int | None]:
    """The offsets that a consumer gets by fetching and taking random portions, and its last position."""
    state = FetchState(ReaderConfig(isolation_level=isolation_level, max_poll_records=rng.randint(1, 7)))
    state.assign({TP: start})
    seen: list[int] = []
    while True:
        plans, _ = state.plan(lambda tp: 0, set(), 0)
        for wanted in plans.get(0, []):
            state.fetched(wanted, log.fetch(wanted.fetch_offset, rng.randint(1, 4)), 0)
        if not state.has_records:
            return seen, state.position(TP)
        seen += [record.offset for record in state.take()]


@pytest.mark.parametrize("seed", range(200))
def test_exactly_the_committed_records_are_seen(seed: int) -> None:
    """Random transactions of several producers are committed, aborted or left open, and read from any offset on."""
    rng = random.Random(seed)
    log = Log()
    for _ in range(rng.randint(1, 60)):
        producer = rng.randrange(4)
        roll = rng.random()
        if roll < 0.25:
            log.end_transaction(producer, rng.choice((COMMIT, ABORT)))
        elif roll < 0.35:
            log.append(10 + producer, rng.randint(1, 3), transactional=False)
        else:
            log.append(producer, rng.randint(1, 3))
    start = rng.randint(0, log.last_stable_offset)
    seen, position = read(log, rng, start, "read_committed")
    assert seen == sorted(each for each in log.committed if start <= each < log.last_stable_offset)
    assert position == log.last_stable_offset


def test_uncommitted_readers_see_all_but_the_markers() -> None:
    """Reading uncommitted records is the default, as in Kafka."""
    log = Log()
    log.append(1, 2)
    log.end_transaction(1, ABORT)
    log.append(1, 1)
    log.end_transaction(1, COMMIT)
    assert read(log, random.Random(0), 0, "read_uncommitted") == ([0, 1, 3], 5)


def test_a_producer_goes_on_after_its_abort() -> None:
    """The marker ends the aborted transaction: later records of the same producer count again."""
    log = Log()
    log.append(1, 2)
    log.end_transaction(1, ABORT)
    log.append(1, 1)
    log.end_transaction(1, COMMIT)
    records = log.fetch(0, 9).records
    assert isinstance(records, bytes | bytearray | memoryview)
    flags = [aborted for _, _, aborted in batches_with_aborted(records, [AbortedTransaction(1, 0)])]
    assert flags == [True, False, False, False]


def test_a_marker_without_a_type_is_an_error() -> None:
    """Such a marker must not count as a commit, because the records behind it may be invalid."""
    builder = RecordBatchBuilder(producer_id=1, producer_epoch=0, transactional=True, control=True)
    builder.append(1000, b"\0", b"")
    with pytest.raises(InvalidRecord, match="has no type"):
        list(batches_with_aborted(builder.build(), [AbortedTransaction(1, 0)]))
