"""The aborted transactions of a segment (``.txnindex``), read for dumps and for logs that another broker wrote.

Entries of 34 bytes, big-endian: ``version int16 = 0, producer_id int64, first_offset int64, last_offset int64,
last_stable_offset int64``. Source: AbortedTxn.java@3.9. Tests: tests/storage/test_dump.py.
"""

from struct import Struct
from typing import NamedTuple

_ENTRY = Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """One aborted transaction; a reader of committed data skips its producer's records in this range."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def decode_transaction_index(data: bytes) -> list[AbortedTransaction]:
    """All whole entries of an index file."""
    whole = data[: len(data) // _ENTRY.size * _ENTRY.size]
    return [AbortedTransaction._make(fields) for fields in _ENTRY.iter_unpack(whole)]


def encode_transaction_index(entries: list[AbortedTransaction]) -> bytes:
    """The content of an index file."""
    return b"".join(_ENTRY.pack(*entry) for entry in entries)
