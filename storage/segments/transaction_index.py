"""The aborted transactions whose markers are in a segment (``.txnindex``).

Entries of 34 bytes, big-endian: ``version int16 = 0, producer_id int64, first_offset int64, last_offset int64,
last_stable_offset int64``, ascending by last offset, which is the marker's. The first entry creates the file.
``last_stable_offset`` is the last stable offset after the marker's append: all transactions that began before it have
ended. So a search for transactions that began before an offset ends at the first entry whose last stable offset is at
or above that offset.
Source: AbortedTxn.java, TransactionIndex.java@3.9.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import takewhile
from struct import Struct
from typing import NamedTuple

from kafka_zk.storage.files.files import read_file, write_atomically, write_end

_ENTRY = Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size
VERSION = 0


class AbortedTransaction(NamedTuple):
    """Readers of committed data skip the producer's records from ``first_offset`` to ``last_offset``, which is the
    marker's offset. ``last_stable_offset``: the log's, after the marker's append."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def _last_offset(entry: AbortedTransaction) -> int:
    return entry.last_offset


def decode_transaction_index(data: bytes) -> list[AbortedTransaction]:
    """The complete entries of an index file."""
    whole = data[: len(data) // ENTRY_SIZE * ENTRY_SIZE]
    return [AbortedTransaction._make(fields) for fields in _ENTRY.iter_unpack(whole)]


def encode_transaction_index(entries: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(_ENTRY.pack(*entry) for entry in entries)


def transaction_index_problem(data: bytes, base_offset: int) -> str | None:
    """The problem in the segment's index file, if any."""
    if len(data) % ENTRY_SIZE:
        return f"has {len(data)} bytes, which is not a multiple of {ENTRY_SIZE}"
    previous = base_offset - 1
    for entry in decode_transaction_index(data):
        if entry.version != VERSION:
            return f"has an entry of version {entry.version}, expected {VERSION}"
        if entry.last_offset <= previous or not 0 <= entry.first_offset < entry.last_offset:
            return f"names an aborted transaction from {entry.first_offset} to {entry.last_offset} after {previous}"
        previous = entry.last_offset
    return None


class TransactionIndex:
    """The transaction index of one segment, loaded on first use; the file is not kept open."""

    __slots__ = ("_entries", "_is_damaged", "_synced_count", "_write_count", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._entries: list[AbortedTransaction] | None = None
        self._is_damaged = False
        self._write_count = self._synced_count = 0

    @property
    def entries(self) -> list[AbortedTransaction]:
        """Loaded if needed. Raises: OSError."""
        if self._entries is None:
            self._entries = decode_transaction_index(read_file(self.path) or b"")
        return self._entries

    def append(self, entry: AbortedTransaction) -> None:
        """Add an entry whose last offset is the largest. Raises: OSError."""
        entries = self.entries
        self._write_count += 1
        write_end(self.path, len(entries) * ENTRY_SIZE, _ENTRY.pack(*entry))
        entries.append(entry)

    def replace(self, start_offset: int, found: Iterable[AbortedTransaction]) -> bool:
        """Replace the entries that end at or after ``start_offset``. Returns True if anything changed.

        The entries count as not durable even if nothing changes, because a killed process may have left them in the
        page cache. Entries that stay are not written again, because a power loss could then cut the file before them. A
        damaged file is replaced durably. Raises: OSError.
        """
        entries = self.entries
        slot = bisect_left(entries, start_offset, key=_last_offset)
        replacing = list(found)
        if self._is_damaged:
            write_atomically(self.path, encode_transaction_index((*entries[:slot], *replacing)))
            self._is_damaged = False
        elif entries[slot:] == replacing:
            self._write_count += bool(replacing)
            return False
        else:
            self._write_count += 1
            pairs = zip(entries[slot:], replacing, strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            write_end(self.path, (slot + same) * ENTRY_SIZE, encode_transaction_index(replacing[same:]))
        entries[slot:] = replacing
        return True

    def clear(self) -> None:
        """Drop all entries of a damaged file. The file stays until ``replace`` writes it, because after a power loss an
        empty file would look sound."""
        self._is_damaged = True
        self._entries = []

    def prepare_sync(self) -> tuple[str | None, Callable[[], None]]:
        """(File, done): the index file, if it must be fsynced with its directory before the segment's records count as
        durable, and a function to call afterwards. Until ``done`` is called, each later flush must also sync the file,
        because it may end before this one."""
        count = self._write_count
        path = self.path if self._synced_count < count else None

        def done() -> None:
            self._synced_count = max(self._synced_count, count)

        return path, done

    def collect(self, start_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Transactions with records in ``[start_offset, end_offset)``, and whether later segments can be skipped.

        Raises: OSError.
        """
        entries = self.entries
        found = []
        for slot in range(bisect_left(entries, start_offset, key=_last_offset), len(entries)):
            entry = entries[slot]
            if entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                return found, True
        return found, False

    def unload(self) -> None:
        """Free the entries in memory. The next use loads them."""
        if not self._is_damaged:
            self._entries = None
