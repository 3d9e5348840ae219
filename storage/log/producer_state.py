"""A log's idempotent and transactional producers: sequences, epochs and open transactions.

Rules (KIP-98, ProducerAppendInfo.java@3.9): A repetition of one of the producer's last five batches is a duplicate, and
the append returns the offsets of the first append. A lower epoch is fenced. Within an epoch, sequences have no gap (0
follows 2^31-1). A new epoch starts at 0. An unknown producer may start anywhere, because retention may have removed its
batches. Entries expire ``producer.id.expiration.ms`` after their last batch.

A transaction lasts from the producer's first transactional batch to the marker. The broker's own batches (markers, a
group's offsets) have no sequences. A marker with an older producer or coordinator epoch is fenced. A client's first
batch in a transaction must be verified (``verification_state``).

A snapshot contains only each producer's last batch. After a restart, Kafka's broker rejects an earlier batch as a gap,
and the client appends it again with a new sequence. To avoid these duplicates, a producer's earlier batches are read
from the log, once, when a sequence does not match.

Source: ProducerStateManager.java@3.9.
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
    """The producers of one log.

    ``snapshot_offset``, ``durable_offset``: the offsets of the newest snapshot and of the newest durable snapshot.
    ``observe``: receives findings about unreadable snapshots. ``recall``: reads a producer's batches before an offset.
    """

    __slots__ = (
        "_abridged", "_observe", "_owed_offset", "_unsynced", "_verifications", "budget", "durable_offset", "producers",
        "recall", "snapshot_offset", "transactions", "under_way",
    )  # fmt: skip

    def __init__(self, observe: Observe = ignore) -> None:
        self._observe = observe
        self.producers: dict[int, ProducerEntry] = {}
        self.transactions = UnstableTransactions()
        self._verifications: dict[int, VerificationStateEntry] | None = None  # by producer id
        self._abridged: set[int] = set()  # producers loaded from a snapshot, so without earlier batches
        self.recall: Recall = _nothing_to_recall
        self.budget = UNBOUNDED
        self.snapshot_offset = self.durable_offset = -1
        self.under_way: SnapshotUnderWay | None = None
        self._owed_offset = -1  # offset of the newest incremental snapshot that was requested
        self._unsynced: set[int] = set()  # offsets of snapshots

    # -- what may be appended -----------------------------------------------------------------------------------

    def check(self, header: BatchHeader) -> ProducedBatch | None:
        """Check a client's batch. Returns the earlier batch if it is a duplicate.

        For transactional batches use ``check_transactional``.
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
                    f"producer {header.producer_id}: sequence {sequence} arrived, but {following} was expected"
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
        """Like ``check``, for a transactional batch.

        ``guard``: from ``begin_verification`` if the coordinator confirmed the transaction; UNVERIFIED if not; None if
        no confirmation is needed.
        """
        entry = self.producers.get(header.producer_id)
        follows = False
        if entry is not None and header.producer_epoch == entry.producer_epoch:
            follows = header.base_sequence == entry.last_sequence + 1  # the usual case: the next sequence
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
        """Check records or a marker that the broker built for a producer."""
        marker = marker_of(batch, header) if header.attributes & CONTROL_FLAG else None
        if marker is None:
            self.check_own(header, guard)
        else:
            self.check_marker(header, marker)

    def check_own(self, header: BatchHeader, guard: VerificationStateEntry | None) -> None:
        """Check the broker's records for a producer, which have no sequences. Raises: InvalidProducerEpoch,
        InvalidTransactionState."""
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
        """Raises: InvalidProducerEpoch, TransactionCoordinatorFenced."""
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
        """The errors of ``check_marker`` by index; usually there are none."""
        refused: dict[int, MarkerRefusal] = {}
        for place, (_, header, marker) in enumerate(batches):
            try:
                self.check_marker(header, marker)
            except (InvalidProducerEpoch, TransactionCoordinatorFenced) as error:
                refused[place] = error.with_traceback(None)
        return refused

    def _repeated_before(self, entry: ProducerEntry, header: BatchHeader) -> ProducedBatch | None:
        """Like ``_repeated``, for batches that the snapshot lacks."""
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
        """Begin to verify a transaction. The caller passes the result with the first batch, once the coordinator has
        confirmed it. Returns None if the transaction is open and needs no confirmation."""
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
            entry.update_lowest_sequence(sequence, producer_epoch)
        return entry

    def _check_verified(
        self, entry: ProducerEntry | None, producer_id: int, guard: VerificationStateEntry | None
    ) -> VerificationStateEntry | None:
        """Return the transaction's verification. Raises InvalidTransactionState unless it is open or verified."""
        verification = None if self._verifications is None else self._verifications.get(producer_id)
        is_open = entry is not None and entry.current_txn_first_offset != NO_OFFSET
        if guard is not None and not is_open and guard is not verification:
            raise InvalidTransactionState(f"producer {producer_id}: a batch outside of an ongoing transaction")
        return verification

    # -- what has been appended ---------------------------------------------------------------------------------

    def update(self, header: BatchHeader, base_offset: int, max_timestamp_ms: int) -> None:
        """Record a data batch that was appended at ``base_offset``."""
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
        """Record an appended marker. Returns the entry for the transaction index, if any."""
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
        """Replace the state with a snapshot's entries."""
        self.give_up_snapshot()
        self.producers = {entry.producer_id: entry for entry in entries}
        opened = sorted(entry.current_txn_first_offset for entry in entries)
        self.transactions = UnstableTransactions({first: NO_OFFSET for first in opened if first != NO_OFFSET})
        self._abridged = set(self.producers)
        self.snapshot_offset = snapshot_offset
        self.durable_offset = -1 if snapshot_offset in self._unsynced else snapshot_offset

    def take(self, replayed: "Replayed") -> None:
        """Replace the state with the result of a replay, which may have run in another process."""
        self.give_up_snapshot()
        self.producers = {entry.producer_id: entry for entry in replayed.producers}
        self.transactions = UnstableTransactions(replayed.unstable)

    def take_over(self, other: "ProducerState") -> None:
        """Copy the state of the log that this log replaces; both have the same records."""
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
        self.snapshot_offset = self.durable_offset = -1

    def remove_expired(self, now_ms: int, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> int:
        """Forget producers without an open transaction whose last batch is too old, and unused verifications. Returns
        the number of producers."""
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
        """Call ``end_transaction`` for a control batch, unless it has no marker, for example because compaction emptied
        it."""
        marker = marker_of(batch, header)
        if marker is None or not marker.ends_transaction:
            return None
        return self.end_transaction(header, marker, base_offset, max_timestamp_ms)

    def replay(self, segments: Iterable[Segment], start_offset: int, end_offset: int) -> "Replayed":
        """Read the headers of all batches in ``[start_offset, end_offset)``, and whole markers."""
        aborted = []
        for header, batch in _produced_batches(segments, start_offset, end_offset):
            if batch is None:
                self.update(header, header.base_offset, header.max_timestamp)
                continue
            with suppress(CorruptRecord):  # the data was damaged after it became durable; readers get the error
                check_crc(batch, 0, header)
                found = self.apply_marker(batch, header, header.base_offset, header.max_timestamp)
                if found is not None:
                    aborted.append(found)
        return Replayed(list(self.producers.values()), dict(self.transactions.unstable), aborted)

    def write_snapshot(self, directory: str, offset: int) -> None:
        """Write the snapshot unless it exists; ``prepare_sync`` makes it durable."""
        if offset <= self.snapshot_offset:
            return
        self.give_up_snapshot()
        write_atomically(snapshot_path(directory, offset), encode_snapshot(self.producers), durable=False)
        self.snapshot_offset = offset
        if self.producers:
            self._unsynced.add(offset)

    @property
    def has_unsynced_snapshots(self) -> bool:
        return bool(self._unsynced)

    def prepare_sync(self, directory: str) -> tuple[list[str], Callable[[], None]]:
        """(Paths, done): snapshots to fsync, with their directory, before the recovery point passes them, and a
        function to call afterwards."""
        offsets = sorted(self._unsynced)

        def done() -> None:
            self._unsynced.difference_update(offsets)
            loaded = (each for each in offsets if each <= self.snapshot_offset)
            self.durable_offset = max(self.durable_offset, *loaded, -1)

        return [snapshot_path(directory, offset) for offset in offsets], done

    def distrust(self, offsets: Iterable[int]) -> None:
        """Sync these snapshots again, because a killed process may have left them in the page cache only."""
        self._unsynced.update(offsets)
        if self.snapshot_offset in self._unsynced:
            self.durable_offset = -1

    def begin_snapshot(self, offset: int) -> SnapshotUnderWay | None:
        """Begin the snapshot for ``offset``; ``end_snapshot`` ends it. Returns None while another snapshot is in
        progress. That one is completed first, because a log that rolls constantly would otherwise never get a
        snapshot."""
        self._owed_offset = offset
        if self.under_way is not None:
            return None
        self.under_way = SnapshotUnderWay(self.producers.values(), offset)
        return self.under_way

    def end_snapshot(self, snapshot: SnapshotUnderWay) -> None:
        """Record that a valid snapshot has its final name, which ``prepare_sync`` makes durable."""
        self.under_way = None
        self.snapshot_offset = snapshot.offset
        self._unsynced.add(snapshot.offset)

    def give_up_snapshot(self) -> None:
        if self.under_way is not None:
            self.under_way.is_void = True
            self.under_way = None
        self._owed_offset = -1

    def lacks_snapshot(self, offset: int) -> bool:
        """True if records before ``offset`` are still needed, because the snapshot at ``offset`` is in progress or was
        skipped."""
        return self.snapshot_offset < min(offset, self._owed_offset)

    def load_snapshot(self, directory: str, low: int, high: int, newest: int | None = None) -> int:
        """Load the newest readable snapshot with ``low < offset <= high`` that is not after ``newest``.

        Unreadable snapshots are discarded. Snapshots after ``high`` are removed durably, because they must not reappear
        beside other records after a power loss. Returns the loaded snapshot's offset, where ``replay`` must begin;
        ``low`` if there is none.
        """
        self.clear()
        offsets = snapshot_offsets(directory)
        beyond = [offset for offset in offsets if offset > high]
        for offset in beyond:
            remove_file(snapshot_path(directory, offset))
        if beyond:
            sync_path(directory)
        self._unsynced.intersection_update(offset for offset in offsets if offset <= high)
        for offset in reversed(offsets):
            if low < offset <= (high if newest is None else min(high, newest)):
                path = snapshot_path(directory, offset)
                try:
                    self.load(decode_snapshot(read_file(path) or b""), offset)
                    return offset
                except CorruptSnapshot as error:
                    meaning = "the producers are rebuilt from the log and from an older snapshot, if any"
                    self._observe(discard(path, error, meaning))
                    self._unsynced.discard(offset)
        return low


class Replayed(NamedTuple):
    """A replay's result: the producers, ``UnstableTransactions.unstable``, and the aborted transactions."""

    producers: list[ProducerEntry]
    unstable: dict[int, int]
    aborted: list[AbortedTransaction]


def _produced_batches(
    segments: Iterable[Segment], start_offset: int, end_offset: int
) -> Iterator[tuple[BatchHeader, bytes | None]]:
    """The headers of batches with a producer, with the whole batch of a marker."""
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
    """The same batch, if it is one of the producer's last five."""
    end = last_sequence(header.base_sequence, header.last_offset_delta)
    for batch in entry.batches:
        if batch[0] == header.base_sequence and batch[1] == end:
            return batch
    return None


def _fenced(entry: ProducerEntry, header: BatchHeader) -> InvalidProducerEpoch:
    return InvalidProducerEpoch(
        f"producer {header.producer_id}: epoch {header.producer_epoch} is older than {entry.producer_epoch}"
    )
