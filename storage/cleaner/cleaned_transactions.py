"""Transactions in a cleaning: which batches are aborted, and which markers are still needed.

The producer's next marker commits or aborts a batch. That marker may be far ahead, after the cleaned part, so
``TransactionEnds`` reads ahead through batch headers. It does not rely on the ``.txnindex``, which may be missing.

A marker stays while the log still has a batch of its transaction. After that it gets a delete horizon and is removed
later, like a tombstone.

Source: CleanedTransactionMetadata in LogCleaner.scala@3.9.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import NamedTuple

from kafka_zk.storage.records.end_transaction_marker import parse_marker
from kafka_zk.storage.records.record_batch import BatchHeader, Buffer
from kafka_zk.storage.records.record_decoder import decode_records
from kafka_zk.storage.segments.transaction_index import AbortedTransaction


class Marker(NamedTuple):
    producer_id: int
    offset: int
    is_abort: bool


def read_marker(batch: Buffer, header: BatchHeader) -> Marker | None:
    """The marker in a control batch; None for other control records, or if compaction emptied the batch. Raises:
    CorruptRecord, InvalidRecord.

    The caller checks the CRC.
    """
    record = next(decode_records(batch), None)
    marker = None if record is None else parse_marker(record.key, record.value)
    if marker is None or not marker.ends_transaction:
        return None
    return Marker(header.producer_id, header.base_offset, marker.is_abort)


class TransactionEnds:
    """The outcome of each transaction in one pass over a log.

    ``markers`` lazily yields the markers in ascending order; it may omit those before ``passed``, the offset that the
    pass has reached.
    """

    def __init__(self, markers: Callable[["TransactionEnds"], Generator[Marker, None, None]]) -> None:
        self.passed = 0
        self._markers = markers(self)
        self._ahead: dict[int, deque[Marker]] = {}  # producer id -> markers after ``passed``

    def close(self) -> None:
        """Close the markers' file."""
        self._markers.close()

    def is_aborted(self, header: BatchHeader) -> bool:
        """True if the batch's transaction was aborted; False if it has no end."""
        if not header.is_transactional:
            return False
        self.passed = header.base_offset
        ahead = self._ahead.setdefault(header.producer_id, deque())
        while not ahead:
            marker = next(self._markers, None)
            if marker is None:
                return False
            if marker.offset > header.base_offset:
                self._ahead.setdefault(marker.producer_id, deque()).append(marker)
        return ahead[0].is_abort

    def pass_marker(self, header: BatchHeader) -> None:
        """Forget the marker in a control batch that the pass has reached."""
        ahead = self._ahead.get(header.producer_id)
        if ahead and ahead[0].offset <= header.base_offset:
            ahead.popleft()
            if not ahead:
                del self._ahead[header.producer_id]


class CleanedTransactions:
    """Transactions with a batch that the cleaning has read, but whose marker it has not reached.

    ``aborted``: entries for the ``.txnindex`` that is being written; ``add_indexed`` receives the source segments'
    entries.
    """

    def __init__(self, ends: TransactionEnds) -> None:
        self._ends = ends
        self._open: dict[int, int] = {}  # producer id -> its first batch found
        self.aborted: list[AbortedTransaction] = []
        self._indexed: dict[tuple[int, int], AbortedTransaction] = {}

    def begin_segment(self) -> None:
        self.aborted = []
        self._indexed = {}

    def add_indexed(self, entries: Iterable[AbortedTransaction]) -> None:
        """Add the index entries of a segment that is read next."""
        self._indexed.update(((entry.producer_id, entry.last_offset), entry) for entry in entries)

    def is_aborted(self, header: BatchHeader) -> bool:
        """True for a batch of an aborted transaction; the pass must be at this batch."""
        if header.is_transactional:
            self._open.setdefault(header.producer_id, header.base_offset)
        return self._ends.is_aborted(header)

    def is_needed(self, batch: Buffer, header: BatchHeader) -> bool:
        """True if batches need this control batch; the pass must be at this batch."""
        self._ends.pass_marker(header)
        if not header.record_count:
            return False
        marker = read_marker(batch, header)
        if marker is None:
            return True
        first_offset = self._open.pop(marker.producer_id, None)
        if first_offset is not None and marker.is_abort:
            self.aborted.append(self._entry(marker, first_offset))
        return first_offset is not None

    def _entry(self, marker: Marker, first_offset: int) -> AbortedTransaction:
        """The index entry from the source segment, or else one derived from the remaining log."""
        known = self._indexed.get((marker.producer_id, marker.offset))
        stable_offset = min(self._open.values(), default=marker.offset + 1)
        return known or AbortedTransaction(0, marker.producer_id, first_offset, marker.offset, stable_offset)
