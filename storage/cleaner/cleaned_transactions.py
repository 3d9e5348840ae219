"""What a cleaning knows of transactions: which batches are aborted, and which markers nobody needs any more.

A batch of a transaction is committed or aborted as its producer's next marker says, which may lie far behind it, also
behind the part of the log that is cleaned. So ``TransactionEnds`` looks ahead, at the batches' headers, no further
than it is asked. The ``.txnindex`` would say the same of aborted ones; but it need not be there, and the log always is.

A marker stays as long as the cleaning has met a batch of its transaction before it. If it has met none, the marker is
treated as a tombstone: it gets a delete horizon, and goes after that.

Source: CleanedTransactionMetadata in LogCleaner.scala@3.9. Tests: tests/storage/cleaner/test_cleaned_transactions.py.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kafka_zk.storage.records.end_transaction_marker import parse_marker
from kafka_zk.storage.records.record_batch import BatchHeader, Buffer
from kafka_zk.storage.records.record_decoder import decode_records
from kafka_zk.storage.segments.transaction_index import AbortedTransaction


class Marker(NamedTuple):
    """The end of a producer's transaction."""

    producer_id: int
    offset: int
    is_abort: bool


def read_marker(batch: Buffer, header: BatchHeader) -> Marker | None:
    """The marker in a control batch; None if that says something else, or nothing since it was compacted.

    Raises: CorruptRecord, InvalidRecord. The CRC is the caller's to check.
    """
    record = next(decode_records(batch), None)
    marker = None if record is None else parse_marker(record.key, record.value)
    if marker is None or not marker.ends_transaction:
        return None
    return Marker(header.producer_id, header.base_offset, marker.is_abort)


class TransactionEnds:
    """How the transactions end that one pass over a log comes to.

    ``markers`` gives those of the log, ascending, and is read as far as needed. It may leave out what lies before
    ``passed``, where the pass is.
    """

    def __init__(self, markers: Callable[["TransactionEnds"], Iterator[Marker]]) -> None:
        self.passed = 0
        self._markers = markers(self)
        self._ahead: dict[int, deque[Marker]] = {}  # by producer id

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch is part of a transaction that was aborted. One without an end counts as readers see it."""
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
        """The pass has come to a control batch: its end need not be remembered any longer."""
        ahead = self._ahead.get(header.producer_id)
        if ahead and ahead[0].offset <= header.base_offset:
            ahead.popleft()
            if not ahead:
                del self._ahead[header.producer_id]


class CleanedTransactions:
    """The transactions that a cleaning has met batches of, and not yet the markers.

    ``aborted`` collects what the ``.txnindex`` of the segment that is being written must say; ``indexed`` is what those
    of the segments that it is made of said.
    """

    def __init__(self, ends: TransactionEnds) -> None:
        self._ends = ends
        self._open: dict[int, int] = {}  # producer id -> offset of the first batch met
        self.aborted: list[AbortedTransaction] = []
        self._indexed: dict[tuple[int, int], AbortedTransaction] = {}

    def begin_segment(self) -> None:
        """Another segment is written from now on."""
        self.aborted = []
        self._indexed = {}

    def add_indexed(self, entries: Iterable[AbortedTransaction]) -> None:
        """What the ``.txnindex`` of a segment says that is about to be read."""
        self._indexed.update(((entry.producer_id, entry.last_offset), entry) for entry in entries)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a data batch is part of a transaction that was aborted; the pass is at this batch."""
        if header.is_transactional:
            self._open.setdefault(header.producer_id, header.base_offset)
        return self._ends.is_aborted(header)

    def is_needed(self, batch: Buffer, header: BatchHeader) -> bool:
        """Whether a control batch still says something of batches that are there; the pass is at this batch."""
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
        """As the index had it, else as far as it can be told from what is left of the log."""
        known = self._indexed.get((marker.producer_id, marker.offset))
        stable_offset = min(self._open.values(), default=marker.offset + 1)
        return known or AbortedTransaction(0, marker.producer_id, first_offset, marker.offset, stable_offset)
