"""Splits a coordinator's tombstones into batches that its topic accepts.

Source: GroupMetadataManager.cleanupGroupMetadata, TransactionStateManager.removeExpiredTransactionalIds@3.9.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_BATCH_BYTES = 256 * 1024
_RECORD_BYTES = 24  # size of a record without its key

T = TypeVar("T")


def batches_of_tombstones(items: Iterable[T], key_of: Callable[[T], bytes]) -> Iterator[list[T]]:
    """Split the items, in order, into non-empty lists whose tombstones fit in one batch each."""
    part: list[T] = []
    size_bytes = 0
    for item in items:
        part.append(item)
        size_bytes += len(key_of(item)) + _RECORD_BYTES
        if size_bytes >= _BATCH_BYTES:
            yield part
            part, size_bytes = [], 0
    if part:
        yield part
