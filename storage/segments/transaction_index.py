"""The aborted transactions of a segment (``.txnindex``): those whose markers lie in it.

Entries of 34 bytes, big-endian: ``version int16 = 0, producer_id int64, first_offset int64, last_offset int64,
last_stable_offset int64``, ascending by last offset, which is the marker's. There is no file before the first entry.
The last stable offset is that right after the marker: all transactions that begin before it have ended by then, so a
search for those that begin before some offset ends at an entry that has come so far.
Source: AbortedTxn.java, TransactionIndex.java@3.9. Tests: tests/storage/segments/test_transaction_index.py.
"""

from bisect import bisect_left
from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from kafka_zk.storage.files.files import read_file, write_end

_ENTRY = Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size
VERSION = 0


class AbortedTransaction(NamedTuple):
    """One aborted transaction; a reader of committed data skips its producer's records in this range."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def _last_offset(entry: AbortedTransaction) -> int:
    return entry.last_offset


def decode_transaction_index(data: bytes) -> list[AbortedTransaction]:
    """All whole entries of an index file."""
    whole = data[: len(data) // ENTRY_SIZE * ENTRY_SIZE]
    return [AbortedTransaction._make(fields) for fields in _ENTRY.iter_unpack(whole)]


def encode_transaction_index(entries: Iterable[AbortedTransaction]) -> bytes:
    """The content of an index file."""
    return b"".join(_ENTRY.pack(*entry) for entry in entries)


def transaction_index_problem(data: bytes, base_offset: int) -> str | None:
    """What is wrong with the index file of the segment at ``base_offset``, None if nothing is."""
    if len(data) % ENTRY_SIZE:
        return f"has {len(data)} bytes, which is no multiple of {ENTRY_SIZE}"
    previous = base_offset - 1
    for entry in decode_transaction_index(data):
        if entry.version != VERSION:
            return f"has an entry of version {entry.version}, expected {VERSION}"
        if entry.last_offset <= previous or not 0 <= entry.first_offset < entry.last_offset:
            return f"names an aborted transaction from {entry.first_offset} to {entry.last_offset} after {previous}"
        previous = entry.last_offset
    return None


class TransactionIndex:
    """The index of one segment. Loaded from its file on first use; the file is never kept open.

    ``is_changed``: there is something in the file that is not durable.
    """

    __slots__ = ("_entries", "is_changed", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._entries: list[AbortedTransaction] | None = None
        self.is_changed = False

    @property
    def entries(self) -> list[AbortedTransaction]:
        """All entries, loaded if need be. Raises: OSError."""
        if self._entries is None:
            self._entries = decode_transaction_index(read_file(self.path) or b"")
        return self._entries

    def append(self, entry: AbortedTransaction) -> None:
        """Add a transaction that ends behind all others. Raises: OSError."""
        entries = self.entries
        self.is_changed = True
        write_end(self.path, len(entries) * ENTRY_SIZE, _ENTRY.pack(*entry))
        entries.append(entry)

    def replace(self, start_offset: int, found: Iterable[AbortedTransaction]) -> bool:
        """Have ``found`` instead of what ends at ``start_offset`` or later; returns whether that is news.

        Raises: OSError.
        """
        entries = self.entries
        slot = bisect_left(entries, start_offset, key=_last_offset)
        replacing = list(found)
        if entries[slot:] == replacing:
            return False
        self.is_changed = True
        write_end(self.path, slot * ENTRY_SIZE, encode_transaction_index(replacing))
        entries[slot:] = replacing
        return True

    def clear(self) -> None:
        """Drop everything, whatever is in the file. Raises: OSError."""
        self.is_changed = True
        write_end(self.path, 0, b"")
        self._entries = []

    def collect(self, start_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The transactions that have records in ``[start_offset, end_offset)``, and whether later segments have none.

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
        """Forget the entries in memory; they come back from the file."""
        self._entries = None

