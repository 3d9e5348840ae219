"""Compaction of transactions: committed records are compacted by key, aborted ones are removed, markers are removed in
two steps."""

from pathlib import Path

import pytest

from kafka_zk.storage.cleaner.log_to_clean import examine
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from kafka_zk.storage.segments.transaction_index import (
    AbortedTransaction,
    decode_transaction_index,
    encode_transaction_index,
)
from tests.storage.compacted import SMALL, batches, records
from tests.storage.done_here import clean_here
from tests.storage.helpers import T0, append, new_log, remove_due

RETENTION_MS = 1_000
LATER = T0 + RETENTION_MS


class Written:
    """A compacted log to which producers write transactions; each batch closes a segment if asked to."""

    def __init__(self, path: Path, rolls: bool = False) -> None:
        self.log = new_log(path, cleanup_policy=("compact",), delete_retention_ms=RETENTION_MS, file_delete_delay_ms=0)
        self.rolls = rolls
        self._sequences: dict[int, int] = {}

    def put(self, key: bytes, value: bytes | None, producer_id: int = -1) -> int:
        """Append one record, in the producer's transaction unless it has no id; returns its offset."""
        sequence = self._sequences.get(producer_id, 0)
        producer = (producer_id, 0, sequence) if producer_id >= 0 else (-1, -1, -1)
        builder = RecordBatchBuilder("none", *producer, transactional=producer_id >= 0)
        builder.append(T0, key, value)
        self._sequences[producer_id] = sequence + 1
        return self._appended(append(self.log, bytearray(builder.build())).first_offset)

    def end(self, producer_id: int, *, commit: bool, epoch: int = 0) -> int:
        builder = RecordBatchBuilder("none", producer_id, epoch, -1, transactional=True, control=True)
        builder.append(T0, b"\0\0\0\1" if commit else b"\0\0\0\0", b"\0\0\0\0\0\7")
        offset = self.log.log_end_offset
        self.log.append_as_follower(builder.build(base_offset=offset, partition_leader_epoch=0), now_ms=T0)
        return self._appended(offset)

    def _appended(self, offset: int) -> int:
        if self.rolls:
            self.log.roll(T0)
        return offset

    def clean(self, now_ms: int = T0) -> None:
        self.log.roll(T0)
        self.log.flush()
        assert clean_here(self.log, SMALL, now_ms) is not None
        remove_due(self.log.segments, now_ms)


def left(log: Log) -> list[tuple[int, bytes | None]]:
    """(offset, value) of each remaining record that is not a marker."""
    return [(each.offset, each.value) for header, found in batches(log) for each in found if not header.is_control]


def markers(log: Log) -> list[int]:
    """Offsets of the markers that have a record."""
    return [header.base_offset for header, found in batches(log) if header.is_control and found]


def index_entries(log: Log) -> list[AbortedTransaction]:
    return [
        entry
        for path in sorted(log.directory.glob("*.txnindex"))
        for entry in decode_transaction_index(path.read_bytes())
    ]


@pytest.mark.parametrize("rolls", [False, True])
def test_a_deleted_key_stays_deleted(tmp_path: Path, rolls: bool) -> None:
    """The value was written in a transaction. The tombstone, which is removed later, was not."""
    made = Written(tmp_path, rolls)
    made.put(b"k", b"1", 7)
    made.end(7, commit=True)
    made.put(b"k", None)
    made.clean()
    assert [value for _, value in left(made.log)] == [None]
    made.put(b"other", b"x")
    made.clean(LATER)
    assert [value for _, value in left(made.log)] == [b"x"]


def test_a_committed_record_replaces_others_and_is_replaced(tmp_path: Path) -> None:
    made = Written(tmp_path)
    made.put(b"a", b"1")
    made.put(b"b", b"1", 7)
    made.put(b"a", b"2", 7)
    made.end(7, commit=True)
    made.put(b"b", b"2")
    made.clean()
    assert left(made.log) == [(2, b"2"), (4, b"2")] and markers(made.log) == [3]


@pytest.mark.parametrize("rolls", [False, True])
def test_aborted_records_go_and_replace_nothing(tmp_path: Path, rolls: bool) -> None:
    """Transactions of the same producer, and those of different producers, are told apart."""
    made = Written(tmp_path, rolls)
    made.put(b"k", b"1")
    made.put(b"k", b"aborted", 7)
    made.put(b"j", b"1", 8)
    made.end(7, commit=False)
    made.put(b"k", None, 7)
    made.end(8, commit=True)
    made.end(7, commit=False)
    made.put(b"i", b"1", 7)
    made.end(7, commit=True)
    made.clean()
    assert left(made.log) == [(0, b"1"), (2, b"1"), (7, b"1")]


def test_aborted_records_go_where_the_index_was_lost(tmp_path: Path) -> None:
    """The log itself shows which records are aborted, including those for which the map has no room left."""
    made = Written(tmp_path)
    for number in range(5):
        made.put(b"key-%d" % number, b"aborted", 7)
    made.end(7, commit=False)
    made.put(b"k", b"1")
    for path in made.log.directory.glob("*.txnindex"):
        path.unlink()
    made.clean()
    assert left(made.log) == [(6, b"1")]


def test_a_transaction_may_end_beyond_what_is_cleaned(tmp_path: Path) -> None:
    """Another transaction, still open, limits what is cleaned. The marker of the first one comes after that limit."""
    made = Written(tmp_path, rolls=True)
    made.put(b"k", b"1")
    made.put(b"k", b"aborted", 7)
    made.put(b"j", b"1", 8)
    made.put(b"i", b"open", 9)
    made.end(7, commit=False)
    made.end(8, commit=True)
    made.log.flush()
    assert examine(made.log, T0).uncleanable_offset == 3
    made.clean()
    assert [record.value for record in records(made.log)][:3] == [b"1", b"1", b"open"]


def test_what_has_no_end_at_all_counts_as_readers_see_it(tmp_path: Path) -> None:
    """The producer has expired, so readers do not wait for its marker."""
    made = Written(tmp_path)
    made.put(b"k", b"1")
    made.put(b"k", b"2", 7)
    made.log.producers.clear()
    made.clean()
    assert left(made.log) == [(1, b"2")]


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_goes_in_two_steps_once_nothing_of_its_transaction_is_left(tmp_path: Path, commit: bool) -> None:
    made = Written(tmp_path)
    made.put(b"k", b"1", 7)
    first = made.end(7, commit=commit)
    made.put(b"k", b"2", 8)
    second = made.end(8, commit=True)
    made.put(b"j", b"1", 7)  # the batch of producer 7 that keeps its sequence does not belong to the first transaction
    made.end(7, commit=True)
    made.clean()
    assert first in markers(made.log), "this cleaning still saw the transaction"
    made.put(b"i", b"1")
    made.clean()
    (header,) = [header for header, _ in batches(made.log) if header.base_offset == first]
    assert header.has_delete_horizon and header.base_timestamp == LATER
    assert header.attributes & 0x30 == 0x30 and header.producer_id == 7
    made.put(b"h", b"1")
    made.clean(LATER - 1)
    assert first in markers(made.log), "its delete horizon has not passed"
    made.put(b"g", b"1")
    made.clean(LATER)
    assert first not in markers(made.log) and second in markers(made.log)


def test_the_last_marker_of_a_producer_that_wrote_nothing_keeps_its_epoch(tmp_path: Path) -> None:
    made = Written(tmp_path)
    offset = made.end(7, commit=False, epoch=3)
    made.put(b"k", b"1")
    made.clean()
    made.put(b"j", b"1")
    made.clean(LATER)
    (header, found) = batches(made.log)[0]
    assert (header.base_offset, header.producer_id, header.producer_epoch, header.is_control) == (offset, 7, 3, True)
    assert not found
    made.put(b"i", b"1")
    made.clean(LATER)
    assert batches(made.log)[0][0] == header, "without its record, a marker is not evaluated"


def test_the_index_tells_the_aborted_transactions_whose_markers_are_there(tmp_path: Path) -> None:
    made = Written(tmp_path)
    made.put(b"k", b"1", 7)
    made.put(b"j", b"1", 8)
    made.end(7, commit=False)
    made.end(8, commit=False)
    made.put(b"k", b"2")
    known = AbortedTransaction(0, 7, 0, 2, 1)
    (made.log.directory / f"{0:020d}.txnindex").write_bytes(encode_transaction_index([known]))
    made.clean()
    assert index_entries(made.log) == [known, AbortedTransaction(0, 8, 1, 3, 4)], "entries stay, or are recreated"
    made.put(b"k", b"3", 7)
    made.end(7, commit=True)
    made.put(b"k", b"4", 8)
    made.end(8, commit=True)
    made.clean()
    assert len(index_entries(made.log)) == 2, "the batches that kept the sequences are removed only now"
    made.put(b"j", b"1")
    made.clean()
    assert not index_entries(made.log)


def test_a_damaged_marker_decides_nothing(tmp_path: Path) -> None:
    made = Written(tmp_path, rolls=True)
    made.put(b"k", b"1", 7)
    offset = made.end(7, commit=True)
    made.put(b"j", b"1")
    path = made.log.directory / f"{offset:020d}.log"
    content = bytearray(path.read_bytes())
    content[-8] ^= 1
    path.write_bytes(content)
    made.log.flush()
    with pytest.raises(CorruptRecord, match="CRC"):
        clean_here(made.log, SMALL, T0)
