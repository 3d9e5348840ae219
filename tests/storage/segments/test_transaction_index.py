"""The transaction index, alone and with its log: searches, durability, truncation and rebuilds; and markers."""

from pathlib import Path

import pytest

from kafka_zk.storage.files import files
from kafka_zk.storage.files.errors import InvalidProducerEpoch, TransactionCoordinatorFenced
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.records.compression import compress
from kafka_zk.storage.records.end_transaction_marker import (
    ABORT_MARKER,
    COMMIT_MARKER,
    EndTransactionMarker,
    marker_batch,
    marker_of,
    parse_marker,
    plain_marker,
)
from kafka_zk.storage.records.log_validator import validate_batch
from kafka_zk.storage.records.record_batch import (
    CONTROL_FLAG,
    TRANSACTIONAL_FLAG,
    assemble_batch,
    encode_record,
    read_header,
)
from kafka_zk.storage.records.record_decoder import decode_records
from kafka_zk.storage.segments.transaction_index import (
    ENTRY_SIZE,
    AbortedTransaction,
    TransactionIndex,
    decode_transaction_index,
    encode_transaction_index,
    transaction_index_problem,
)
from tests.storage.faults import FaultyFiles
from tests.storage.helpers import T0, append, batch, new_log, remove_due, reopen

ENTRIES = [
    AbortedTransaction(0, 7, 0, 10, 5),  # another began at 5 and is still open
    AbortedTransaction(0, 8, 5, 12, 13),
    AbortedTransaction(0, 9, 20, 30, 31),
]


def put(log: Log, producer: int = 7, sequence: int = 0) -> int:
    """A batch inside a transaction."""
    data = batch(producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=True)
    return append(log, data).first_offset


def mark(log: Log, producer: int = 7, *, commit: bool = False, epoch: int = 0, coordinator_epoch: int = 0) -> int:
    data = marker_batch(producer, epoch, coordinator_epoch, is_commit=commit, timestamp_ms=T0)
    header = validate_batch(data)
    return log.append_as_leader(data, header, leader_epoch=0, now_ms=T0, from_client=False).first_offset


def index_of(log: Log, base_offset: int = 0) -> Path:
    return log.directory / f"{base_offset:020d}.txnindex"


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_says_how_a_transaction_ended(commit: bool) -> None:
    data = marker_batch(7, 3, 5, is_commit=commit, timestamp_ms=T0)
    header = validate_batch(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.attributes) == (7, 3, -1, 0x30)
    (record,) = decode_records(data)
    found = parse_marker(record.key, record.value)
    assert found == EndTransactionMarker(COMMIT_MARKER if commit else ABORT_MARKER, 5)
    assert found.is_abort is not commit


@pytest.mark.parametrize(
    ("is_plain", "key", "value", "codec", "time_delta_ms"),
    [
        (True, b"\0\0\0\1", b"\0\0\0\0\0\5", 0, 0),
        (False, b"\0\0\0\1", b"\0\0\0\0\0\5", 0, 1),
        (False, b"\0\0\0\1", b"\0\0\0\0\0\5more", 0, 0),
        (False, b"\0\0\0\1more", b"\0\0\0\0\0\5", 0, 0),
        (False, b"\0\0\0\1", b"\0\0\0\0\0\5", 1, 0),
    ],
    ids=["as brokers write it", "a later record", "a longer value", "a longer key", "compressed"],
)
def test_a_marker_is_read_in_whichever_form_it_comes(
    is_plain: bool, key: bytes, value: bytes, codec: int, time_delta_ms: int
) -> None:
    """The fast parser supports one format, and leaves others to the slow parser."""
    record = encode_record(time_delta_ms, 0, key, value)
    data = assemble_batch(
        compress(codec, record) if codec else record,
        attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG | codec, record_count=1, base_timestamp=T0,
        max_timestamp=T0 + time_delta_ms, producer=(7, 3, -1),
    )  # fmt: skip
    header = read_header(data)
    expected = EndTransactionMarker(COMMIT_MARKER, 5)
    assert plain_marker(data, header) == (expected if is_plain else None)
    assert marker_of(data, header) == expected
    assert plain_marker(data, header._replace(record_count=0)) is None


def test_a_search_ends_where_all_that_began_before_has_ended(tmp_path: Path) -> None:
    index = TransactionIndex(str(tmp_path / "0.txnindex"))
    assert index.collect(0, 100) == ([], False) and not Path(index.path).exists()
    for entry in ENTRIES:
        index.append(entry)
    assert index.collect(0, 100) == (ENTRIES, False)
    assert index.collect(0, 5) == ([ENTRIES[0]], True)
    assert index.collect(0, 6) == (ENTRIES[:2], True)
    assert index.collect(11, 14) == ([ENTRIES[1]], True)
    assert index.collect(13, 20) == ([], True)
    assert index.collect(31, 40) == ([], False)
    index.unload()
    assert index.entries == ENTRIES
    assert index.replace(12, [ENTRIES[2]]) and not index.replace(12, [ENTRIES[2]])
    assert Path(index.path).read_bytes() == encode_transaction_index([ENTRIES[0], ENTRIES[2]])


@pytest.mark.parametrize(
    "data",
    [
        encode_transaction_index(ENTRIES) + b"x",
        encode_transaction_index(ENTRIES[::-1]),
        encode_transaction_index([ENTRIES[0]._replace(version=1)]),
        encode_transaction_index([ENTRIES[0]._replace(first_offset=11)]),
        encode_transaction_index([ENTRIES[0]._replace(last_offset=-1)]),
        encode_transaction_index([ENTRIES[0]._replace(first_offset=-1)]),
        bytes(ENTRY_SIZE),
    ],
)
def test_an_index_that_cannot_be_is_noticed(data: bytes) -> None:
    assert transaction_index_problem(encode_transaction_index(ENTRIES), 0) is None
    assert transaction_index_problem(data, 0) is not None


def test_a_closed_log_believes_its_index_unless_it_cannot_be(tmp_path: Path) -> None:
    """The index of each segment is rebuilt from its batches and the transactions that were open before it."""
    log = new_log(tmp_path, segment_bytes=300)
    put(log, 7)
    put(log, 8)
    for producer in (7, 8):
        for _ in range(3):
            append(log, batch(value=b"x" * 50))
        mark(log, producer)
    expected = {path.name: path.read_bytes() for path in log.directory.glob("*.txnindex")}
    assert len(expected) == 2
    log.flush()
    log.close()
    damaged = sorted(log.directory.glob("*.txnindex"))[-1]
    damaged.write_bytes(b"?" * (ENTRY_SIZE + 1))
    log, dropped = reopen(log, clean=True, recovery_point=log.log_end_offset)
    assert dropped is None
    assert {path.name: path.read_bytes() for path in log.directory.glob("*.txnindex")} == expected
    assert [(each.producer_id, each.first_offset) for each in log.aborted_transactions(0, 2)] == [(7, 0), (8, 1)]


def test_what_a_flush_has_made_durable_is_in_the_index(tmp_path: Path) -> None:
    """A recovery trusts the index below the recovery point."""
    log = new_log(tmp_path)
    put(log)
    mark(log)
    synced: list[str] = []

    class Files(FaultyFiles):
        def sync(self, descriptor: int) -> None:
            synced.append(self.path_of(descriptor))
            super().sync(descriptor)

    with files.use(Files()):
        log.flush()
        assert str(index_of(log)) in synced and str(log.directory) in synced
        synced.clear()
        append(log, batch())
        log.flush()
        assert str(index_of(log)) not in synced


def test_a_truncation_cuts_the_index(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.update_high_watermark(0)
    for sequence in range(3):
        put(log, sequence=sequence)
        mark(log)
    assert len(decode_transaction_index(index_of(log).read_bytes())) == 3
    log.truncate_to(3)
    assert [entry.last_offset for entry in decode_transaction_index(index_of(log).read_bytes())] == [1]
    log.truncate_fully_and_start_at(10)
    assert log.aborted_transactions(0, 100) == [] and not index_of(log, 10).exists()


def test_indexes_go_with_their_segments(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=300, retention_bytes=0, file_delete_delay_ms=0)
    put(log)
    mark(log)
    for _ in range(4):
        append(log, batch(value=b"x" * 50))
    log.flush()
    assert index_of(log).exists()
    log.delete_old_segments(T0)
    assert not index_of(log).exists() and log.aborted_transactions(0, 100) == []
    remove_due(log.segments, T0)
    assert not list(log.directory.glob("*.deleted"))


def test_a_refused_marker_changes_nothing(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    mark(log, epoch=2, coordinator_epoch=5)
    put(log, 8)
    with pytest.raises(InvalidProducerEpoch):
        mark(log, epoch=1, coordinator_epoch=6)
    with pytest.raises(TransactionCoordinatorFenced):
        mark(log, epoch=2, coordinator_epoch=4)
    assert log.log_end_offset == 2 and log.last_stable_offset == 1


def test_records_before_the_log_start_hold_nobody_back(tmp_path: Path) -> None:
    """The transaction of such records may be open; its later records are not visible."""
    log = new_log(tmp_path)
    put(log)
    append(log, batch(3))
    assert log.last_stable_offset == 0
    log.increment_log_start_offset(2)
    assert log.last_stable_offset == 2


def test_a_power_loss_may_take_an_index_that_was_not_flushed(tmp_path: Path) -> None:
    """The index is rebuilt, even if a newer snapshot contains all producers."""
    log = new_log(tmp_path, segment_bytes=300)
    put(log)
    mark(log)
    for _ in range(4):
        append(log, batch(value=b"x" * 50))
    expected = index_of(log).read_bytes()
    assert len(log.segments) > 1 and list(log.directory.glob("*.snapshot"))
    index_of(log).unlink()
    log.segments.close_files()
    log, _ = reopen(log)
    assert index_of(log).read_bytes() == expected


class Cuts(files.FileSystem):
    """Records the positions at which files are truncated."""

    def __init__(self) -> None:
        self.positions: list[int] = []

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        self.positions.append(size_bytes)
        super().truncate(descriptor, size_bytes)


def test_entries_that_stay_are_not_written_again(tmp_path: Path) -> None:
    """The entries may be durable, and rewriting them would let a power loss cut the file at that position."""
    index = TransactionIndex(str(tmp_path / "index"))
    for entry in ENTRIES:
        index.append(entry)
    cuts = Cuts()
    with files.use(cuts):
        assert index.replace(0, ENTRIES[:2]) and index.replace(0, ENTRIES)
    assert cuts.positions == [2 * ENTRY_SIZE] * 2
    assert decode_transaction_index((tmp_path / "index").read_bytes()) == ENTRIES == index.entries


def test_a_damaged_index_stays_until_it_is_replaced(tmp_path: Path) -> None:
    """An empty index would seem valid after a power loss."""
    path = tmp_path / "index"
    path.write_bytes(b"damaged")
    index = TransactionIndex(str(path))
    index.clear()
    index.unload()
    assert index.entries == [] and path.read_bytes() == b"damaged"
    assert index.replace(0, ())
    assert path.read_bytes() == b""
