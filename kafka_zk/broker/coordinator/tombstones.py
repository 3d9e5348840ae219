"""How many tombstones of a coordinator go into one batch, which must not be larger than its topic allows.

Source: GroupMetadataManager.cleanupGroupMetadata, TransactionStateManager.removeExpiredTransactionalIds@3.9.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_BATCH_BYTES = 256 * 1024
_RECORD_BYTES = 24  # of a record, beside its key

T = TypeVar("T")


def batches_of_tombstones(items: Iterable[T], key_of: Callable[[T], bytes]) -> Iterator[list[T]]:
    """The items, in order, in parts whose tombstones fit into one batch; none is empty."""
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
