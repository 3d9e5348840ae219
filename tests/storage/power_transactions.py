"""A log with producers and transactions that survives power losses, and the state that it must have afterwards.

``power_history`` runs it together with logs of plain records. ``transaction_model`` derives the state from the
remaining batches.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kafka_zk.base.types import FetchIsolation
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.producer_snapshot import snapshot_offsets
from kafka_zk.storage.records.end_transaction_marker import marker_batch
from kafka_zk.storage.records.log_validator import validate_batch
from tests.storage.helpers import T0, append, batch, present
from tests.storage.transaction_model import (
    PLAIN,
    PRODUCERS,
    Known,
    Written,
    committed_of,
    committed_offsets,
    known_producers,
    producers_of,
    transactions,
)

_UNKNOWN = Known(0, -1, -1, -1, -1)


@dataclass
class _Flush:
    """A flush that another thread has begun. ``snapshots``: the snapshots that existed then."""

    work: Callable[[], None]
    done: Callable[[], None]
    snapshots: set[int]


class Produced:
    """The records written to one log, and the required state of its producers.

    ``cleaned``: the log's end at its last cleaning; 0 before the first. ``snapshots``: the durable ones. ``is_exact``:
    the log must know the full state that follows from its history. A log that was reloaded from an offset after its
    producers' first records may have lost part of that state, in Kafka too.
    """

    def __init__(self, rng: random.Random) -> None:
        self.history: list[Written] = []
        self.cleaned = 0
        self.snapshots: set[int] = set()
        self.is_exact = True
        self.exact_count = self.aborted_count = 0
        self._random = rng
        self._flush: _Flush | None = None

    # -- changes of the log --------------------------------------------------------------------------------------

    def append(self, log: Log, key: bytes, value: bytes) -> None:
        """Append one record, with or without a producer, inside or outside a transaction."""
        rng = self._random
        producer = rng.choice((PLAIN, *PRODUCERS))
        known = producers_of(log).get(producer, _UNKNOWN)
        is_open = known.first_offset >= 0
        is_transactional = producer != PLAIN and (is_open or rng.random() < 0.8)
        epoch, sequence = (-1, -1) if producer == PLAIN else (known.epoch, known.last_sequence + 1)
        data = batch(
            key=key, value=value, producer_id=producer, producer_epoch=epoch, base_sequence=sequence,
            transactional=is_transactional,
        )  # fmt: skip
        self._write(log, data, Written(log.log_end_offset, 1, producer, epoch, sequence, is_transactional))

    def end_transaction(self, log: Log) -> None:
        """Append a marker, which may fence the producer with the next epoch."""
        rng = self._random
        producer = rng.choice(PRODUCERS)
        known = producers_of(log).get(producer, _UNKNOWN)
        commit = rng.random() < 0.5
        self.aborted_count += not commit and known.first_offset >= 0
        epoch = known.epoch + (0 if commit else rng.randint(0, 1))
        coordinator_epoch = max(0, known.coordinator_epoch) + rng.randint(0, 1)
        data = marker_batch(producer, epoch, coordinator_epoch, is_commit=commit, timestamp_ms=T0)
        written = Written(log.log_end_offset, 1, producer, epoch, -1, True, commit, coordinator_epoch)
        self._write(log, data, written)

    def _write(self, log: Log, data: bytearray, written: Written) -> None:
        self.history.append(written)
        if self._random.random() < 0.5:
            if written.commit is None:
                append(log, data)
            else:
                log.append_as_leader(data, validate_batch(data), leader_epoch=0, now_ms=T0, from_client=False)
            return
        data[:8] = written.offset.to_bytes(8, "big")
        data[12:16] = bytes(4)
        log.append_as_follower(bytes(data), now_ms=T0)

    def flush(self, log: Log) -> None:
        """Begin a flush, or end the one in progress in another thread."""
        if self._flush is None:
            snapshots = _snapshots(log)
            self._flush = _Flush(*log.prepare_flush(), snapshots)
            return
        flush, self._flush = self._flush, None
        flush.work()
        flush.done()
        self.snapshots |= flush.snapshots & _snapshots(log)

    def delete_segments(self, log: Log) -> None:
        """Run retention, which first syncs the snapshots."""
        snapshots = _snapshots(log)
        if log.delete_old_segments(T0):
            self.snapshots |= snapshots & _snapshots(log)

    def truncating(self, log: Log, offset: int) -> None:
        """Called before the log is truncated."""
        self._keep_snapshots(offset)
        self._read_anew(log.log_start_offset, offset)

    def moving(self, log: Log) -> None:
        """Called before a copy replaces the log. The copy reads the whole log and has its own snapshots."""
        self._flush = None
        self.snapshots.clear()
        self._read_anew(log.log_start_offset, log.log_end_offset)

    def lost_from(self, end: int) -> None:
        """Called after the log was truncated to this offset."""
        self.history = [each for each in self.history if each.offset < end]

    def gone(self) -> None:
        """Called when the log's folder turned out not to be durable."""
        self._flush = None
        self.lost_from(0)
        self._keep_snapshots(0)

    def started(self, log: Log) -> None:
        """Called after the log was loaded following a power loss, and its replica leads."""
        log.follow_log_end()
        self._flush = None
        self.lost_from(log.log_end_offset)
        self._keep_snapshots(log.log_end_offset)
        self._read_anew(log.log_start_offset, log.recovery_point)  # later snapshots are not used

    def _keep_snapshots(self, end: int) -> None:
        self.snapshots = {offset for offset in self.snapshots if offset <= end}
        if self._flush is not None:
            self._flush.snapshots = {offset for offset in self._flush.snapshots if offset <= end}

    def _read_anew(self, start: int, end: int) -> None:
        is_whole = start == 0 and not self.cleaned
        self.is_exact &= is_whole or any(start < offset <= end for offset in self.snapshots)

    # -- the judge ------------------------------------------------------------------------------------------------

    def judge(self, log: Log, began: int) -> None:
        """Judge the log's producer state and the records that a reader of committed records gets. ``began``: the log
        may have deleted segments before this offset. Some of them may be back without the markers in the others,
        because this disk, unlike real ones, may undo any of the renames.
        """
        self.exact_count += self.is_exact
        known, found = known_producers(self.history), producers_of(log)
        if self.is_exact:
            assert found == known, f"{log.tp}, {log.log_start_offset}..{log.log_end_offset}: other producers are known"
        start = max(log.log_start_offset, began)
        self._judge_producers(log, max(start, self.cleaned), known, found)
        if began <= log.log_start_offset:
            self._judge_stable_offset(log)
        self._judge_reader(log, start)

    def _judge_producers(self, log: Log, start: int, known: Mapping[int, Known], found: Mapping[int, Known]) -> None:
        """Each field is between the value from the whole history and the value from the history after ``start``."""
        least = known_producers(self._since(start))
        for producer, expected in least.items():
            limits = [sorted(pair) for pair in zip(known[producer], expected, strict=True)]
            is_right = producer in found and all(
                low <= each <= high for each, (low, high) in zip(found[producer], limits, strict=True)
            )
            assert is_right, f"{log.tp}: of producer {producer} the log knows {found.get(producer)}, not {expected}"

    def _since(self, offset: int) -> list[Written]:
        return [each for each in self.history if each.offset >= offset]

    def _judge_stable_offset(self, log: Log) -> None:
        start, end = log.log_start_offset, log.log_end_offset
        least, most = (max(start, min(_open(each), default=end)) for each in (self.history, self._since(start)))
        assert least <= log.last_stable_offset <= most, f"{log.tp}: stable up to {log.last_stable_offset}, not {least}"

    def _judge_reader(self, log: Log, start: int) -> None:
        """The reader gets no aborted record, and every committed record that no cleaning may have removed."""
        end = log.last_stable_offset
        if start >= end:
            return
        committed = {offset for offset in committed_offsets(self.history) if start <= offset < end}
        read = set(read_committed(log, start))
        assert read <= committed, f"{log.tp}: the records at {sorted(read - committed)} are not committed"
        lost = sorted(offset for offset in committed - read if offset >= self.cleaned)
        assert not lost, f"{log.tp}: a reader of committed records does not get {lost}"


def _snapshots(log: Log) -> set[int]:
    return set(snapshot_offsets(log.segments.directory))


def _open(history: list[Written]) -> Iterable[int]:
    """The start offsets of open transactions."""
    return [each.first_offset for each in transactions(history) if each.marker is None]


def read_committed(log: Log, start: int) -> list[int]:
    """The offsets of the records that a consumer with isolation.level=read_committed gets from an offset on."""
    position, found = start, list[int]()
    while (read := log.read(position, 2_000, isolation=FetchIsolation.TXN_COMMITTED)).slice is not None:
        aborted = log.aborted_transactions(position, read.next_offset)
        found += [offset for offset in committed_of(present(read.slice).read(), aborted) if offset >= position]
        position = read.next_offset
    return found
