"""Reads of remote records that took longer than their fetch could wait. The next fetch of the same records claims them.

Kafka 3.9 cancels such a read and begins again (DelayedRemoteFetch.onExpiration), so consumers never get the
records of a store that is always slower than ``remote.fetch.max.wait.ms``.
"""

from typing import Any, NamedTuple, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from kafka_zk.base.clock import Timers
from kafka_zk.base.types import FetchIsolation
from kafka_zk.storage.files.errors import StorageError
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.records.record_batch import iter_batches
from kafka_zk.storage.segments.transaction_index import AbortedTransaction

KEPT_S = 30.0
"""Time that a read waits for a fetch, whether it has ended or not."""
_MOST_READS = 128
_MOST_BYTES = 16 << 20


class RemoteRecords(NamedTuple):
    """Whole batches. ``aborted``: the aborted transactions with records in them, only for read_committed."""

    records: bytes
    aborted: list[AbortedTransaction]

    def at_most(self, max_bytes: int) -> "RemoteRecords":
        """The first batch, and those after it up to ``max_bytes`` together."""
        if len(self.records) <= max_bytes:
            return self
        end = 0
        for position, header in iter_batches(self.records):
            if position and position + header.size_bytes > max_bytes:
                break
            end = position + header.size_bytes
        return self._replace(records=self.records[:end])


RemoteRead = Deferred[RemoteRecords | int]
"""The result of ``RemoteReads.read``."""
T = TypeVar("T")


class ReadKey(NamedTuple):
    """Identifies what a read returns. Another leader epoch may have other records at the offset."""

    log: Log
    leader_epoch: int
    offset: int
    isolation: FetchIsolation


class _Unclaimed:
    """``size_bytes``: of the records; 0 until the read has ended."""

    def __init__(self, read: RemoteRead, timer: Any) -> None:
        self.read = read
        self.timer = timer
        self.size_bytes = 0


class UnclaimedReads:
    """Keeps one read for each key: at most 128 reads, and 16 MiB of records; a larger read is kept until another read
    ends. The oldest are dropped first."""

    def __init__(self, clock: Timers) -> None:
        self._clock = clock
        self._kept: dict[ReadKey, _Unclaimed] = {}

    def leave(self, key: ReadKey, read: RemoteRead) -> None:
        """Keep a read for KEPT_S, then cancel it. A read that was left with the same key before is dropped."""
        self._drop(key)
        kept = _Unclaimed(read, self._clock.callLater(KEPT_S, self._drop, key))
        self._kept[key] = kept
        if len(self._kept) > _MOST_READS:
            self._drop(next(iter(self._kept)))
        read.addBoth(self._ended, key, kept)

    def claim(self, key: ReadKey) -> RemoteRead | None:
        """Remove and return the read with this key; None if there is none."""
        kept = self._kept.pop(key, None)
        if kept is None:
            return None
        kept.timer.cancel()
        return kept.read

    def _ended(self, result: T, key: ReadKey, kept: _Unclaimed) -> T:
        if self._kept.get(key) is kept and isinstance(result, RemoteRecords):
            kept.size_bytes = len(result.records)
            left_bytes = _MOST_BYTES - kept.size_bytes
            for other, each in reversed(list(self._kept.items())):
                if each is not kept and each.size_bytes:
                    left_bytes -= each.size_bytes
                    if left_bytes < 0:
                        self._drop(other)
        return result

    def _drop(self, key: ReadKey) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            if kept.timer.active():
                kept.timer.cancel()
            kept.read.addErrback(_expect)
            kept.read.cancel()


def _expect(failure: Failure) -> None:
    """Handle the error of a read that was dropped. Other errors are bugs, and are logged."""
    failure.trap(CancelledError, StorageError, OSError)
