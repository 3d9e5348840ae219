"""What a log knows about idempotent and transactional producers: last sequences, epochs, open transactions.

Rules (KIP-98, ProducerAppendInfo.java@3.9): a batch equal to one of the producer's last five is a duplicate and is
answered with its first offsets; a lower epoch is fenced; within an epoch sequences follow each other without a
gap (after 2^31-1 comes 0); a new epoch starts at 0; a producer that the log does not know may start anywhere, since
retention may have removed its past. Entries expire ``producer.id.expiration.ms`` after their last batch.

A transaction begins with its producer's first transactional batch and ends with the marker. What the broker itself
appends (markers, a group's offsets) has no sequences; a marker of an older producer or coordinator epoch is fenced. The
first batch of a client's transaction needs a verification (``verification_state``).

A snapshot has only the last one of each
producer. Kafka's broker takes a repetition of one before it for a gap, its client then numbers its batches anew, and
they are in the log twice; here they are read in the log again, once for each producer, when a sequence does not fit.

Source: ProducerStateManager.java@3.9.
Tests: tests/storage/log/test_producer_state.py.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from kafka_zk.storage.files.errors import (
    CorruptRecord,
    CorruptSnapshot,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from kafka_zk.storage.files.files import read_file, remove_file, sync_path, write_atomically
from kafka_zk.storage.files.findings import Observe, discard, ignore
from kafka_zk.storage.log.producer_id_budget import UNBOUNDED
from kafka_zk.storage.log.producer_snapshot import (
    MAX_SEQUENCE,
    NO_OFFSET,
    REMEMBERED_BATCHES,
    ProducedBatch,
    ProducerEntry,
    SnapshotUnderWay,
    decode_snapshot,
    encode_snapshot,
    snapshot_offsets,
    snapshot_path,
)
from kafka_zk.storage.log.unstable_transactions import UnstableTransactions
from kafka_zk.storage.log.verification_state import VerificationStateEntry
from kafka_zk.storage.records.end_transaction_marker import EndTransactionMarker, MarkerBatch, marker_of
from kafka_zk.storage.records.record_batch import (
    CONTROL_FLAG,
    NO_PRODUCER_EPOCH,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    check_crc,
    last_sequence,
)
from kafka_zk.storage.segments.segment import Segment
from kafka_zk.storage.segments.transaction_index import VERSION, AbortedTransaction

DEFAULT_EXPIRATION_MS = 86_400_000

MarkerRefusal = InvalidProducerEpoch | TransactionCoordinatorFenced

Recall = Callable[[ProducerEntry, int], list[ProducedBatch]]


class ProducerState:
    """The producers of one log. ``snapshot_offset`` is the offset of the newest snapshot file on disk.

    ``observe`` is told of snapshots that cannot be read. ``recall`` reads a producer's batches before an offset.
    """

    __slots__ = (
        "_abridged", "_observe", "_owed_offset", "_verifications", "budget", "producers", "recall", "snapshot_offset",
        "transactions", "under_way",
    )  # fmt: skip

    def __init__(self, observe: Observe = ignore) -> None:
        self._observe = observe
        self.producers: dict[int, ProducerEntry] = {}
        self.transactions = UnstableTransactions()
        self._verifications: dict[int, VerificationStateEntry] | None = None  # by producer id
        self._abridged: set[int] = set()  # producers of which the snapshot had the last batch only
        self.recall: Recall = _nothing_to_recall
        self.budget = UNBOUNDED
        self.snapshot_offset = -1
        self.under_way: SnapshotUnderWay | None = None
        self._owed_offset = -1  # of the newest snapshot that was not written in one go

    # -- what may be appended -----------------------------------------------------------------------------------

    def check(self, header: BatchHeader) -> ProducedBatch | None:
        """Judge a client's batch before it is appended; returns the earlier batch that it repeats, else None.

        A transactional one is for ``check_transactional``.
        Raises: InvalidProducerEpoch, OutOfOrderSequence, InvalidTransactionState, TooManyProducers.
        """
        entry = self.producers.get(header.producer_id)
        if entry is None:
            self.budget.check_room(header.producer_id)
            return None
        sequence = header.base_sequence
        if header.producer_epoch == entry.producer_epoch:
            last = entry.last_sequence
            following = last + 1 if last != MAX_SEQUENCE else 0
            if sequence != following:
                known = _repeated(entry, header) or self._repeated_before(entry, header)
                if known is not None:
                    return known
                raise OutOfOrderSequence(
                    f"producer {header.producer_id}: sequence {sequence} arrived, {following} was expected"
                )
        elif header.producer_epoch < entry.producer_epoch:
            raise _fenced(entry, header)
        elif sequence and entry.producer_epoch != NO_PRODUCER_EPOCH:
            raise OutOfOrderSequence(
                f"producer {header.producer_id}: epoch {header.producer_epoch} begins with sequence {sequence}, not 0"
            )
        if entry.current_txn_first_offset != NO_OFFSET and not header.attributes & TRANSACTIONAL_FLAG:
            raise InvalidTransactionState(f"producer {header.producer_id}: a batch outside its open transaction")
        return None

    def check_transactional(self, header: BatchHeader, guard: VerificationStateEntry | None) -> ProducedBatch | None:
        """As ``check``, for a batch inside a transaction. ``guard`` is what ``begin_verification`` gave before the
        coordinator confirmed the transaction, UNVERIFIED if it was not asked, None if it need not be.
        """
        entry = self.producers.get(header.producer_id)
        follows = False
        if entry is not None and header.producer_epoch == entry.producer_epoch:
            follows = header.base_sequence == entry.last_sequence + 1  # as nearly every batch does
            known = None if follows else _repeated(entry, header)
            if known is not None:
                return known
        verification = self._check_verified(entry, header.producer_id, guard)
        if entry is not None and header.producer_epoch < entry.producer_epoch:
            raise _fenced(entry, header)
        if verification is not None and header.base_sequence > verification.lowest_sequence:
            raise OutOfOrderSequence(
                f"producer {header.producer_id}: sequence {header.base_sequence} arrived, but "
                f"{verification.lowest_sequence} was refused before"
            )
        return None if follows else self.check(header)

    def check_of_broker(self, batch: Buffer, header: BatchHeader, guard: VerificationStateEntry | None) -> None:
        """As ``check``, for a batch of the broker's own: of a producer, or one that ends a transaction."""
        marker = marker_of(batch, header) if header.attributes & CONTROL_FLAG else None
        if marker is None:
            self.check_own(header, guard)
        else:
            self.check_marker(header, marker)

    def check_own(self, header: BatchHeader, guard: VerificationStateEntry | None) -> None:
        """Judge a batch of the broker itself for a producer, which has no sequences; ``guard`` as above.

        Raises: InvalidProducerEpoch, InvalidTransactionState.
        """
        entry = self.producers.get(header.producer_id)
        if header.attributes & TRANSACTIONAL_FLAG:
            self._check_verified(entry, header.producer_id, guard)
        if entry is None:
            return
        if header.producer_epoch < entry.producer_epoch:
            raise _fenced(entry, header)
        if entry.current_txn_first_offset != NO_OFFSET and not header.attributes & TRANSACTIONAL_FLAG:
            raise InvalidTransactionState(f"producer {header.producer_id}: a batch outside its open transaction")

    def check_marker(self, header: BatchHeader, marker: EndTransactionMarker) -> None:
        """Judge the marker of a coordinator. Raises: InvalidProducerEpoch, TransactionCoordinatorFenced."""
        entry = self.producers.get(header.producer_id)
        if entry is None:
            return
        if header.producer_epoch < entry.producer_epoch:
            raise _fenced(entry, header)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"producer {header.producer_id}: a marker of coordinator epoch {marker.coordinator_epoch}, which is "
                f"older than {entry.coordinator_epoch}"
            )

    def refused_markers(self, batches: Sequence[MarkerBatch]) -> dict[int, MarkerRefusal]:
        """As ``check_marker``, of several: what it raises, by places. Nearly always empty."""
        refused: dict[int, MarkerRefusal] = {}
        for place, (_, header, marker) in enumerate(batches):
            try:
                self.check_marker(header, marker)
            except (InvalidProducerEpoch, TransactionCoordinatorFenced) as error:
                refused[place] = error.with_traceback(None)
        return refused

    def _repeated_before(self, entry: ProducerEntry, header: BatchHeader) -> ProducedBatch | None:
        """As ``_repeated``, of the batches before the one in the snapshot."""
        if entry.producer_id not in self._abridged:
            return None
        self._abridged.remove(entry.producer_id)
        known = entry.batches
        missing = REMEMBERED_BATCHES - len(known)
        if missing > 0 and known:
            entry.forget_batches()
            for batch in (*self.recall(entry, known[0][2])[-missing:], *known):
                entry.add(batch)
        return _repeated(entry, header)

    def begin_verification(
        self, producer_id: int, sequence: int, producer_epoch: int, now_ms: int
    ) -> VerificationStateEntry | None:
        """What is to be shown with a batch once the coordinator has confirmed its transaction; None if that is open
        already, and nobody needs to be asked."""
        producer = self.producers.get(producer_id)
        if producer is not None and producer.current_txn_first_offset != NO_OFFSET:
            return None
        verifications = self._verifications
        if verifications is None:
            verifications = self._verifications = {}
        entry = verifications.get(producer_id)
        if entry is None:
            entry = verifications[producer_id] = VerificationStateEntry(now_ms, sequence, producer_epoch)
        else:
            entry.meet(sequence, producer_epoch)
        return entry

    def _check_verified(
        self, entry: ProducerEntry | None, producer_id: int, guard: VerificationStateEntry | None
    ) -> VerificationStateEntry | None:
        """Raises InvalidTransactionState unless the transaction is open or verified; returns the verification."""
        verification = None if self._verifications is None else self._verifications.get(producer_id)
        is_open = entry is not None and entry.current_txn_first_offset != NO_OFFSET
        if guard is not None and not is_open and guard is not verification:
            raise InvalidTransactionState(f"producer {producer_id}: a batch outside of an ongoing transaction")
        return verification

    # -- what has been appended ---------------------------------------------------------------------------------

    def update(self, header: BatchHeader, base_offset: int, max_timestamp_ms: int) -> None:
        """Remember a data batch that has been appended at ``base_offset``."""
        entry = self.producers.get(header.producer_id)
        if entry is None:
            entry = self.producers[header.producer_id] = ProducerEntry(header.producer_id)
            self.budget.count += 1
        elif self.under_way is not None:
            self.under_way.keep(entry)
        if entry.producer_epoch != header.producer_epoch:
            entry.producer_epoch = header.producer_epoch
            entry.forget_batches()
        delta, sequence = header.last_offset_delta, header.base_sequence
        last = last_sequence(sequence, delta) if delta else sequence
        entry.add((sequence, last, base_offset, base_offset + delta, max_timestamp_ms))
        entry.last_timestamp_ms = max_timestamp_ms
        if header.attributes & TRANSACTIONAL_FLAG:
            if entry.current_txn_first_offset == NO_OFFSET:
                entry.current_txn_first_offset = base_offset
                self.transactions.begin(base_offset)
            if self._verifications is not None:
                self._verifications.pop(header.producer_id, None)

    def end_transaction(
        self, header: BatchHeader, marker: EndTransactionMarker, marker_offset: int, timestamp_ms: int
    ) -> AbortedTransaction | None:
        """Remember a marker that has been appended; returns what the transaction index must say of it."""
        entry = self.producers.get(header.producer_id)
        if entry is None:
            entry = self.producers[header.producer_id] = ProducerEntry(header.producer_id)
        elif self.under_way is not None:
            self.under_way.keep(entry)
        if entry.producer_epoch != header.producer_epoch:
            entry.producer_epoch = header.producer_epoch
            entry.forget_batches()
        first_offset = entry.current_txn_first_offset
        entry.current_txn_first_offset = NO_OFFSET
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp_ms = timestamp_ms
        if self._verifications is not None:
            self._verifications.pop(header.producer_id, None)
        if first_offset == NO_OFFSET:
            return None
        transactions = self.transactions
        transactions.end(first_offset, marker_offset)
        if not marker.is_abort:
            return None
        stable_offset = transactions.oldest_open(marker_offset + 1)
        return AbortedTransaction(VERSION, header.producer_id, first_offset, marker_offset, stable_offset)

    def load(self, entries: list[ProducerEntry], snapshot_offset: int) -> None:
        """Start from the entries of a snapshot."""
        self.give_up_snapshot()
        self.producers = {entry.producer_id: entry for entry in entries}
        opened = sorted(entry.current_txn_first_offset for entry in entries)
        self.transactions = UnstableTransactions({first: NO_OFFSET for first in opened if first != NO_OFFSET})
        self._abridged = set(self.producers)
        self.snapshot_offset = snapshot_offset

    def take(self, replayed: "Replayed") -> None:
        """Go on with what a replay of the same log came to elsewhere."""
        self.give_up_snapshot()
        self.producers = {entry.producer_id: entry for entry in replayed.producers}
        self.transactions = UnstableTransactions(replayed.unstable)

    def take_over(self, other: "ProducerState") -> None:
        """This log takes the place of one with the same records: go on with all that is known there."""
        other.give_up_snapshot()
        self.give_up_snapshot()
        self.producers = other.producers
        self.transactions = other.transactions
        self._verifications = other._verifications
        self._abridged = other._abridged

    def clear(self) -> None:
        self.give_up_snapshot()
        self.producers = {}
        self.transactions = UnstableTransactions()
        self._verifications = None
        self._abridged = set()
        self.snapshot_offset = -1

    def remove_expired(self, now_ms: int, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> int:
        """Forget producers without an open transaction whose last batch is too old; returns how many.

        Verifications that have come to nothing go likewise.
        """
        expired = [
            producer_id
            for producer_id, entry in self.producers.items()
            if entry.current_txn_first_offset == NO_OFFSET and now_ms - entry.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self.producers[producer_id]
            self._abridged.discard(producer_id)
        if self._verifications is not None:
            left = {
                producer_id: entry
                for producer_id, entry in self._verifications.items()
                if now_ms - entry.timestamp_ms < expiration_ms
            }
            self._verifications = left or None
        return len(expired)

    # -- what is in the log already -----------------------------------------------------------------------------

    def apply_marker(
        self, batch: Buffer, header: BatchHeader, base_offset: int, max_timestamp_ms: int
    ) -> AbortedTransaction | None:
        """``end_transaction`` with the marker in a control batch; an empty one (compacted away) changes nothing, nor
        does one that says something else."""
        marker = marker_of(batch, header)
        if marker is None or not marker.ends_transaction:
            return None
        return self.end_transaction(header, marker, base_offset, max_timestamp_ms)

    def replay(self, segments: Iterable[Segment], start_offset: int, end_offset: int) -> "Replayed":
        """Take the headers of all batches in ``[start_offset, end_offset)``; only markers are read whole."""
        aborted = []
        for header, batch in _produced_batches(segments, start_offset, end_offset):
            if batch is None:
                self.update(header, header.base_offset, header.max_timestamp)
                continue
            with suppress(CorruptRecord):  # durable and damaged since: its readers find out, the log opens
                check_crc(batch, 0, header)
                found = self.apply_marker(batch, header, header.base_offset, header.max_timestamp)
                if found is not None:
                    aborted.append(found)
        return Replayed(list(self.producers.values()), dict(self.transactions.unstable), aborted)

    def write_snapshot(self, directory: str, offset: int) -> None:
        """Write the snapshot for ``offset`` unless the newest one is of that offset already."""
        if offset <= self.snapshot_offset:
            return
        self.give_up_snapshot()
        content = encode_snapshot(self.producers)
        write_atomically(snapshot_path(directory, offset), content, durable=bool(self.producers))
        self.snapshot_offset = offset

    def begin_snapshot(self, offset: int) -> SnapshotUnderWay | None:
        """Begin the snapshot for ``offset``, to be ended by ``end_snapshot``; None while another one is under way.

        That one is completed first, so that a log that rolls all the time gets one now and then.
        """
        self._owed_offset = offset
        if self.under_way is not None:
            return None
        self.under_way = SnapshotUnderWay(self.producers.values(), offset)
        return self.under_way

    def end_snapshot(self, snapshot: SnapshotUnderWay) -> None:
        """The file of a snapshot that is not void has its name."""
        self.under_way = None
        self.snapshot_offset = snapshot.offset

    def give_up_snapshot(self) -> None:
        """What is under way says nothing of this log any more, or is not wanted."""
        if self.under_way is not None:
            self.under_way.is_void = True
            self.under_way = None
        self._owed_offset = -1

    def lacks_snapshot(self, offset: int) -> bool:
        """Whether the log before ``offset`` must stay: a snapshot of it is under way, or was left out for another."""
        return self.snapshot_offset < min(offset, self._owed_offset)

    def load_snapshot(self, directory: str, low: int, high: int, newest: int | None = None) -> int:
        """Begin anew with the newest readable snapshot with ``low < offset <= high``, and not beyond ``newest``.

        Damaged ones are discarded on the way, and those beyond ``high`` removed, durably: other records follow, and a
        power loss must not bring back what a snapshot says of the old ones. Returns its offset, from which on
        ``replay`` has to follow; ``low`` without one.
        """
        self.clear()
        offsets = snapshot_offsets(directory)
        beyond = [offset for offset in offsets if offset > high]
        for offset in beyond:
            remove_file(snapshot_path(directory, offset))
        if beyond:
            sync_path(directory)
        for offset in reversed(offsets):
            if low < offset <= (high if newest is None else min(high, newest)):
                path = snapshot_path(directory, offset)
                try:
                    self.load(decode_snapshot(read_file(path) or b""), offset)
                    return offset
                except CorruptSnapshot as error:
                    meaning = "what it said of the producers is taken from the log and from an older snapshot, if any"
                    self._observe(discard(path, error, meaning))
        return low


class Replayed(NamedTuple):
    """What a replay came to: the producers, ``UnstableTransactions.unstable``, and which transactions were aborted."""

    producers: list[ProducerEntry]
    unstable: dict[int, int]
    aborted: list[AbortedTransaction]


def _produced_batches(
    segments: Iterable[Segment], start_offset: int, end_offset: int
) -> Iterator[tuple[BatchHeader, bytes | None]]:
    """The headers of all batches that have a producer, and the whole batch of markers."""
    for segment in segments:
        if segment.base_offset >= end_offset:
            return
        for span in segment.sound_spans(segment.position_for(start_offset)):
            if span.last_offset < start_offset or span.magic != 2:
                continue
            if span.base_offset >= end_offset:
                return
            header = segment.header_at(span.position)
            if header.producer_id >= 0:
                is_marker = header.attributes & CONTROL_FLAG
                yield header, segment.read(span.position, span.size_bytes) if is_marker else None


def _nothing_to_recall(entry: ProducerEntry, offset: int) -> list[ProducedBatch]:
    return []


def _repeated(entry: ProducerEntry, header: BatchHeader) -> ProducedBatch | None:
    """The batch of the same epoch that has the same sequences."""
    end = last_sequence(header.base_sequence, header.last_offset_delta)
    for batch in entry.batches:
        if batch[0] == header.base_sequence and batch[1] == end:
            return batch
    return None


def _fenced(entry: ProducerEntry, header: BatchHeader) -> InvalidProducerEpoch:
    return InvalidProducerEpoch(
        f"producer {header.producer_id}: epoch {header.producer_epoch} is older than {entry.producer_epoch}"
    )
