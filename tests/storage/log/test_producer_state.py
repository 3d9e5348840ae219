"""Idempotent producers: the rules against a model, expiry, transactions, snapshots."""

from itertools import pairwise
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.storage.files.errors import (
    CorruptSnapshot,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    RecordTooLarge,
    StorageError,
)
from kafka_zk.storage.log import producer_reload
from kafka_zk.storage.log.producer_snapshot import (
    MAX_SEQUENCE,
    ProducedBatch,
    ProducerEntry,
    decode_snapshot,
    encode_snapshot,
    snapshot_offsets,
)
from kafka_zk.storage.log.producer_state import ProducerState
from kafka_zk.storage.log.verification_state import UNVERIFIED
from kafka_zk.storage.records.end_transaction_marker import (
    ABORT_MARKER,
    COMMIT_MARKER,
    NO_TYPE,
    EndTransactionMarker,
    marker_of,
    parse_marker,
)
from kafka_zk.storage.records.record_batch import BatchHeader, read_header
from kafka_zk.storage.segments.segment import Segment
from tests.storage.helpers import T0, append, batch, new_log, reopen


def header(sequence: int, count: int = 1, epoch: int = 0, producer_id: int = 1, attributes: int = 0) -> BatchHeader:
    raw = read_header(batch())
    return raw._replace(
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        last_offset_delta=count - 1,
        record_count=count,
        attributes=attributes,
    )


SENDS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 3), st.integers(0, 2)), max_size=40)


@given(SENDS)
def test_accepted_batches_form_one_gapless_sequence_per_epoch(sends: list[tuple[int, int, int]]) -> None:
    """For any batches, the next sequence is accepted, a repeated batch gets its first offsets, and all others are
    refused."""
    state = ProducerState()
    accepted: list[tuple[int, int, int]] = []
    offset = 0
    for sequence, count, epoch in sends:
        sent = header(sequence, count, epoch)
        try:
            known = state.check(sent)
        except StorageError:
            continue
        if known is not None:
            assert (epoch, sequence, sequence + count - 1) in accepted[-5:]
            continue
        state.update(sent, offset, T0)
        offset += count
        accepted.append((epoch, sequence, sequence + count - 1))
    for before, after in pairwise(accepted):
        assert after[0] >= before[0]
        assert after[1] == (before[2] + 1 if after[0] == before[0] else 0)


def test_the_sequence_after_the_largest_is_zero() -> None:
    """Sequences wrap after 2^31-1, also within a batch."""
    state = ProducerState()
    state.update(header(MAX_SEQUENCE), 0, T0)
    assert state.check(header(0)) is None
    state.update(header(MAX_SEQUENCE - 1, 4), 0, T0)
    assert state.producers[1].last_sequence == 1
    assert state.check(header(2)) is None


def test_expired_producers_are_forgotten_unless_a_transaction_is_open() -> None:
    """A producer's age counts from its last batch's timestamp."""
    state = ProducerState()
    state.update(header(0, producer_id=1), 0, T0)
    state.update(header(0, producer_id=2), 1, T0 + 500)
    state.update(header(0, producer_id=3, attributes=0x10), 2, T0)
    assert state.remove_expired(T0 + 1000, 1000) == 1
    assert sorted(state.producers) == [2, 3]


def test_open_transactions_bound_what_is_stable() -> None:
    """The first unstable offset is that of the oldest open transaction, until its marker is committed."""
    state = ProducerState()
    state.update(header(0, producer_id=1, attributes=0x10), 10, T0)
    state.update(header(0, producer_id=2, attributes=0x10), 20, T0)
    assert state.transactions.first_offset(100) == 10
    with pytest.raises(InvalidTransactionState):
        state.check(header(1, producer_id=1))
    marker = batch(key=b"\0\0\0\1", value=b"\0\0\0\0\0\7", producer_id=1, producer_epoch=0, control=True)
    state.apply_marker(marker, read_header(marker), 30, T0)
    assert state.transactions.first_offset(30) == 10
    assert state.transactions.first_offset(31) == 20
    assert state.producers[1].coordinator_epoch == 7
    assert parse_marker(b"\0\0\0\0", None) == (0, -1)


def test_the_end_of_a_transaction_costs_the_same_after_many_others() -> None:
    """A replay keeps all ended transactions, because it does not know which part of the log is committed."""
    state = ProducerState()
    begun, ended = header(0, attributes=0x10), header(0)
    marker = EndTransactionMarker(ABORT_MARKER, 0)
    begun_s = process_time()
    for offset in range(0, 40_000, 2):
        state.update(begun, offset, T0)
        aborted = state.end_transaction(ended, marker, offset + 1, T0)
        assert aborted is not None and aborted[2:] == (offset, offset + 1, offset + 2)
    assert process_time() - begun_s < 3


@pytest.mark.parametrize("marker_type", [2, 5, 32767, NO_TYPE])
def test_a_control_record_of_another_kind_ends_no_transaction(marker_type: int) -> None:
    state = ProducerState()
    state.update(header(0, attributes=0x10), 10, T0)
    key = None if marker_type == NO_TYPE else b"\0\0" + marker_type.to_bytes(2, "big")
    other = batch(key=key, value=b"\0\0\0\0\0\7", producer_id=1, producer_epoch=0, control=True)
    assert state.apply_marker(other, read_header(other), 11, T0) is None
    assert 1 in state.producers and state.producers[1].current_txn_first_offset == 10
    assert state.transactions.first_offset(100) == 10


ENTRIES = st.lists(
    st.builds(
        lambda pid, epoch, coordinator, time, txn, last: _entry(pid, epoch, coordinator, time, txn, last),
        st.integers(0, 1 << 60), st.integers(0, 32767), st.integers(-1, 100), st.integers(-1, 1 << 50),
        st.integers(-1, 1 << 50),
        st.none() | st.tuples(st.integers(0, MAX_SEQUENCE), st.integers(0, 9), st.integers(9, 1 << 50)),
    ),
    max_size=10, unique_by=lambda entry: entry.producer_id,
)  # fmt: skip


def _entry(
    producer_id: int,
    epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    txn_offset: int,
    last: tuple[int, int, int] | None,
) -> ProducerEntry:
    entry = ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp_ms, txn_offset)
    if last is not None:
        last_sequence, delta, last_offset = last
        first_sequence = (last_sequence - delta) % (1 << 31)
        entry.add((first_sequence, last_sequence, last_offset - delta, last_offset, timestamp_ms))
    return entry


def fields(entry: ProducerEntry) -> list[object]:
    return [getattr(entry, name) for name in ProducerEntry.__slots__]


@given(ENTRIES)
def test_snapshots_round_trip(entries: list[ProducerEntry]) -> None:
    """Every field of every producer survives."""
    data = encode_snapshot({entry.producer_id: entry for entry in entries})
    assert [fields(entry) for entry in decode_snapshot(data)] == [fields(entry) for entry in entries]


@given(ENTRIES, st.data())
def test_a_damaged_snapshot_is_noticed(entries: list[ProducerEntry], data: st.DataObject) -> None:
    """Any flipped byte and any truncation is detected."""
    raw = bytearray(encode_snapshot({entry.producer_id: entry for entry in entries}))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(bytes(raw))
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(bytes(raw)[: data.draw(st.integers(0, len(raw) - 1))])


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", [False, True])
def test_duplicates_are_known_after_a_restart(tmp_path: Path, clean: bool, damage: bool) -> None:
    """Duplicates are recognized from the snapshot and the batches after it, or from all batches if the snapshot is
    damaged.
    """
    log = new_log(tmp_path, segment_bytes=250)
    sent = [batch(2, producer_id=1, producer_epoch=0, base_sequence=2 * number) for number in range(10)]
    infos = [append(log, data) for data in sent]
    assert len(log.segments) > 2
    if clean:
        log.close()
    if damage:
        for path in log.directory.glob("*.snapshot"):
            path.write_bytes(b"damaged")
    recovered, _ = reopen(log, clean=clean, recovery_point=20 if clean else 0)
    again = append(recovered, sent[-1])
    assert again.duplicate and again.first_offset == infos[-1].first_offset
    assert append(recovered, batch(1, producer_id=1, producer_epoch=0, base_sequence=20)).first_offset == 20


@pytest.mark.parametrize("segment_bytes", [250, 1_000_000])
@pytest.mark.parametrize("damage", [False, True])
def test_all_five_duplicates_are_known_after_a_clean_restart(tmp_path: Path, segment_bytes: int, damage: bool) -> None:
    """A snapshot contains only the last batch of a producer. The others are read from the log, between another
    producer's batches."""
    log = new_log(tmp_path, segment_bytes=segment_bytes)
    sent = [batch(2, producer_id=1, producer_epoch=0, base_sequence=2 * number) for number in range(10)]
    infos = []
    for number, data in enumerate(sent):
        infos.append(append(log, data))
        append(log, batch(1, producer_id=2, producer_epoch=0, base_sequence=number))
    log.close()
    if damage:  # the first bytes, so that no later batch is found
        first = min(log.directory.glob("*.log"))
        first.write_bytes(bytes(60) + first.read_bytes()[60:])
    recovered, _ = reopen(log, clean=True, recovery_point=30)
    if damage and segment_bytes > 250:
        with pytest.raises(OutOfOrderSequence):
            append(recovered, sent[-2])
    else:
        for position in (-4, -2, -5, -1, -3):
            again = append(recovered, sent[position])
            assert again.duplicate and again.first_offset == infos[position].first_offset
    with pytest.raises(OutOfOrderSequence):
        append(recovered, sent[-6])
    following = append(recovered, batch(1, producer_id=1, producer_epoch=0, base_sequence=20))
    assert (following.duplicate, following.first_offset) == (False, 30)


def test_the_log_is_read_once_for_a_producer_that_does_not_fit(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for number in range(7):
        append(log, batch(1, producer_id=1, producer_epoch=0, base_sequence=number))
    log.close()
    recovered, _ = reopen(log, clean=True, recovery_point=7)
    asked: list[int] = []
    recall = recovered.producers.recall

    def counting(entry: ProducerEntry, offset: int) -> list[ProducedBatch]:
        asked.append(offset)
        return recall(entry, offset)

    recovered.producers.recall = counting
    for sequence in (90, 91, 1, 0):
        with pytest.raises(OutOfOrderSequence):
            append(recovered, batch(1, producer_id=1, producer_epoch=0, base_sequence=sequence))
    assert asked == [6]
    assert append(recovered, batch(1, producer_id=1, producer_epoch=0, base_sequence=2)).duplicate


def test_many_producers_that_do_not_fit_make_no_endless_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One client can have thousands of producer ids, and each of them can cause a search of the log."""
    monkeypatch.setattr(producer_reload, "RECALLED_HEADERS", 100, raising=False)
    log = new_log(tmp_path)
    for number in range(40):
        append(log, batch(1, producer_id=number % 10, producer_epoch=0, base_sequence=number // 10))
    log.close()
    recovered, _ = reopen(log, clean=True, recovery_point=40)
    read: list[int] = []
    header_at = Segment.header_at

    def counted(segment: Segment, position: int) -> BatchHeader:
        read.append(position)
        return header_at(segment, position)

    monkeypatch.setattr(Segment, "header_at", counted)
    for producer_id in range(10):
        with pytest.raises(OutOfOrderSequence):
            append(recovered, batch(1, producer_id=producer_id, producer_epoch=0, base_sequence=9))
    assert len(read) <= 101
    assert append(recovered, batch(1, producer_id=0, producer_epoch=0, base_sequence=1)).duplicate, "below the bound"


def test_a_transaction_is_verified_once_and_for_itself_only() -> None:
    """A verification is valid until the transaction's first batch, and for no other transaction."""
    state = ProducerState()
    first = header(0, attributes=0x10)
    with pytest.raises(InvalidTransactionState):
        state.check_transactional(first, UNVERIFIED)
    assert state.check_transactional(first, None) is None
    guard = state.begin_verification(1, 0, 0, T0)
    assert guard is not None and state.begin_verification(1, 0, 0, T0) is guard
    assert state.check_transactional(first, guard) is None
    state.update(first, 0, T0)
    assert state.begin_verification(1, 1, 0, T0) is None, "the transaction is open"
    assert state.check_transactional(header(1, attributes=0x10), UNVERIFIED) is None
    state.end_transaction(first, EndTransactionMarker(COMMIT_MARKER, 0), 1, T0)
    with pytest.raises(InvalidTransactionState):
        state.check_transactional(header(1, attributes=0x10), guard)
    assert state.check_transactional(first, UNVERIFIED) is not None, "a repeated batch is accepted as a duplicate"


def test_the_lowest_sequence_that_was_to_be_verified_comes_first() -> None:
    """A newer epoch resets the lowest sequence."""
    state = ProducerState()
    for sequence, epoch, lowest in ((5, 0, 5), (3, 0, 3), (4, 0, 3), (9, 1, 9), (1, 0, 9)):
        guard = state.begin_verification(1, sequence, epoch, T0)
        assert guard is not None and guard.lowest_sequence == lowest
    with pytest.raises(OutOfOrderSequence):
        state.check_transactional(header(10, epoch=1, attributes=0x10), guard)
    assert state.check_transactional(header(9, epoch=1, attributes=0x10), guard) is None


def test_verifications_that_came_to_nothing_are_forgotten() -> None:
    state = ProducerState()
    guard = state.begin_verification(1, 0, 0, T0)
    state.remove_expired(T0 + 999, 1000)
    assert state.begin_verification(1, 0, 0, T0) is guard
    state.remove_expired(T0 + 1000, 1000)
    assert state.begin_verification(1, 0, 0, T0) is not guard


def test_what_the_broker_writes_itself_has_an_epoch_and_no_sequences() -> None:
    """An example is the offsets committed in a transaction."""
    state = ProducerState()
    own = header(-1, epoch=3, attributes=0x10)
    state.check_own(own, None)
    state.update(own, 0, T0)
    state.check_own(own, UNVERIFIED)
    with pytest.raises(InvalidProducerEpoch):
        state.check_own(header(-1, epoch=2, attributes=0x10), None)
    with pytest.raises(InvalidTransactionState):
        state.check_own(header(-1, epoch=3), None)


@pytest.mark.parametrize("producer_id", [0, 1])
def test_a_batch_of_the_broker_itself_has_no_sequence(tmp_path: Path, producer_id: int) -> None:
    """An example is the offsets committed in a transaction. Producer id 0 is also valid."""
    log = new_log(tmp_path)
    for _ in range(2):
        data = batch(producer_id=producer_id, producer_epoch=0, transactional=True)
        log.append_as_leader(data, read_header(data), leader_epoch=0, now_ms=T0, from_client=False)
    assert log.producers.producers[producer_id].current_txn_first_offset == 0
    late = batch(producer_id=producer_id, producer_epoch=0)
    with pytest.raises(InvalidTransactionState):
        log.append_as_leader(late, read_header(late), leader_epoch=0, now_ms=T0, from_client=False)


def test_only_the_brokers_own_control_batches_may_be_larger_than_max_message_bytes(tmp_path: Path) -> None:
    """A larger limit for control batches is needed so that every transaction can end."""
    log = new_log(tmp_path, max_message_bytes=10)
    marker = batch(key=b"\0\0\0\1", value=b"\0\0\0\0\0\7", producer_id=1, producer_epoch=0, control=True)
    log.append_as_leader(marker, read_header(marker), leader_epoch=0, now_ms=T0, from_client=False)
    data = batch()
    with pytest.raises(RecordTooLarge):
        log.append_as_leader(data, read_header(data), leader_epoch=0, now_ms=T0, from_client=False)
    assert log.log_end_offset == 1


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_a_marker_says_the_same_in_whatever_batch_it_is(compression: str) -> None:
    """A leader of another version may encode the marker differently."""
    for headers in ((), (("h", b"x"),)):
        data = batch(
            key=b"\0\0\0\1", value=b"\0\0\0\0\0\7", headers=headers, compression=compression, producer_id=1,
            producer_epoch=0, control=True,
        )  # fmt: skip
        assert marker_of(data, read_header(data)) == EndTransactionMarker(COMMIT_MARKER, 7)


def test_snapshots_beyond_what_is_asked_for_are_removed(tmp_path: Path) -> None:
    """Other records follow at these offsets. The newest remaining snapshot is used."""
    state = ProducerState()
    for offset in (10, 20, 30):
        state.update(header(0, producer_id=offset), offset - 1, T0)
        state.write_snapshot(str(tmp_path), offset)
    again = ProducerState()
    assert again.load_snapshot(str(tmp_path), 0, 25) == 20
    assert sorted(again.producers) == [10, 20]
    assert snapshot_offsets(str(tmp_path)) == [10, 20]
    assert ProducerState().load_snapshot(str(tmp_path), 20, 25) == 20, "no snapshot lies between them"
