"""Sequence numbers: how a retried batch is written once and in order.

Pure. One producer id and epoch for the producer; per partition the next sequence, the last acknowledged one, and the
batches that have a sequence and no outcome yet (on the wire or waiting for a retry), in order.

When a gap is certain (a batch failed for good, or the broker forgot us) the epoch is bumped: the partition's unfinished
batches are numbered from 0 again under the new epoch. Other partitions move to the new epoch when they have none
unfinished. A batch that expired after having been sent leaves its partition *unresolved*: nothing new is drained until
the batches behind it tell whether the broker had it.

In a transaction only the coordinator bumps the epoch: a gap makes the transaction fail, and its end starts over.

Source: KIP-98, KIP-360; TransactionManager.java and TxnPartitionMap.java@3.9.
Tests: tests/kafka_zk/clients/producer/test_producer_core.py.
"""

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.producer.batch import ProducerBatch, increment_sequence
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.records.record_batch import NO_PRODUCER_ID

_NONE_ACKED = -1
_EPOCH_MAX = 32_767


class _PartitionSequences:
    __slots__ = ("epoch", "last_acked_sequence", "next_sequence", "producer_id", "unfinished")

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.unfinished: list[ProducerBatch] = []
        self.restart(producer_id, epoch)

    def restart(self, producer_id: int, epoch: int) -> None:
        """Number the unfinished batches from 0 under the given id and epoch."""
        self.producer_id, self.epoch = producer_id, epoch
        self.last_acked_sequence = _NONE_ACKED
        sequence = 0
        for batch in self.unfinished:
            batch.assign_sequence(producer_id, epoch, sequence)
            sequence = increment_sequence(sequence, batch.count)
        self.next_sequence = sequence

    def is_next(self, sequence: int) -> bool:
        return sequence == increment_sequence(self.last_acked_sequence, 1)


class Idempotence:
    """Producer id, epoch and sequences of one producer."""

    def __init__(self, *, transactional: bool = False) -> None:
        self._transactional = transactional
        self.producer_id = NO_PRODUCER_ID
        self.epoch = -1
        self._partitions: dict[TopicPartition, _PartitionSequences] = {}
        self._unresolved: dict[TopicPartition, int] = {}  # the sequence after the expired batch
        self._to_restart: set[TopicPartition] = set()

    @property
    def needs_producer_id(self) -> bool:
        """True when InitProducerId must be asked before anything can be drained."""
        return self.producer_id == NO_PRODUCER_ID

    def set_producer_id(self, producer_id: int, epoch: int) -> None:
        """Take the broker's answer to InitProducerId."""
        self.producer_id, self.epoch = producer_id, epoch
        self._restart_requested()

    def start_over(self, producer_id: int, epoch: int) -> None:
        """Nothing was sent under this id and epoch, and nothing of before is unfinished."""
        self.producer_id, self.epoch = producer_id, epoch
        self._partitions.clear()
        self._unresolved.clear()

    def prepare(self) -> None:
        """Before a drain: decide unresolved partitions, and bump the epoch if one asked for it."""
        if self._transactional:
            return
        for tp in sorted(self._unresolved):
            entry = self._entry(tp)
            if not entry.unfinished:
                if not entry.is_next(entry.next_sequence):
                    self._to_restart.add(tp)
                del self._unresolved[tp]
        if not self._to_restart or self.needs_producer_id:
            return
        if self.epoch == _EPOCH_MAX:
            self.producer_id = NO_PRODUCER_ID
            return
        self.epoch += 1
        self._restart_requested()

    def may_drain(self, batch: ProducerBatch) -> bool:
        """Whether the first batch of its partition may go out now without risking order or a gap."""
        if self.needs_producer_id:
            return False
        entry = self._entry(batch.tp)
        if not batch.has_sequence:
            stale = (entry.producer_id, entry.epoch) != (self.producer_id, self.epoch)
            return not (entry.unfinished and stale) and batch.tp not in self._unresolved
        # A retry waits until it is the oldest unfinished one: one in flight until the partition has recovered.
        return not entry.unfinished or entry.unfinished[0] is batch

    def drained(self, batch: ProducerBatch) -> None:
        """Give a batch that goes out for the first time the next sequence; a retry keeps its own."""
        if batch.has_sequence:
            return
        entry = self._entry(batch.tp)
        if not entry.unfinished and (entry.producer_id, entry.epoch) != (self.producer_id, self.epoch):
            entry.restart(self.producer_id, self.epoch)
        batch.assign_sequence(entry.producer_id, entry.epoch, entry.next_sequence)
        entry.next_sequence = increment_sequence(entry.next_sequence, batch.count)
        entry.unfinished.append(batch)

    def should_retry(self, batch: ProducerBatch, code: ErrorCode, log_start_offset: int) -> bool:
        """Decide about a batch that was refused; may ask for an epoch bump."""
        tp = batch.tp
        entry = self._entry(tp)
        if code == ErrorCode.UNKNOWN_PRODUCER_ID and not self._transactional:
            # -1: the partition moved while the answer was made; the next answer will tell more.
            if log_start_offset != -1 and not batch.sequence_was_reset:
                self._to_restart.add(tp)
            return True
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            resolved = tp not in self._unresolved
            behind_another = batch.sequence_was_reset or not entry.is_next(batch.base_sequence)
            if resolved and behind_another:
                return True
            if self._transactional:
                return False
            if resolved or self._unresolved[tp] == batch.base_sequence:
                self._to_restart.add(tp)  # the gap is certain
            return True
        return code.retriable

    def completed(self, batch: ProducerBatch) -> None:
        """The broker acknowledged a batch (or knows that it is a duplicate)."""
        entry = self._entry(batch.tp)
        if (batch.producer_id, batch.producer_epoch) == (entry.producer_id, entry.epoch):
            entry.last_acked_sequence = max(entry.last_acked_sequence, batch.last_sequence)
        self._forget(entry, batch)

    def failed(self, batch: ProducerBatch, certainly_not_written: bool) -> None:
        """A batch was given up. Its sequence is a gap if the broker certainly has not got it."""
        self._forget(self._entry(batch.tp), batch)
        if self._transactional:
            self._unresolve(batch)  # batches behind it are out of order for ever: they fail, too
        elif certainly_not_written:
            self._to_restart.add(batch.tp)

    def expired_after_sending(self, batch: ProducerBatch) -> None:
        """A batch that was sent at least once ran out of time: it may have been written."""
        self._unresolve(batch)

    def _unresolve(self, batch: ProducerBatch) -> None:
        tp = batch.tp
        following = increment_sequence(batch.last_sequence, 1)
        self._unresolved[tp] = max(self._unresolved.get(tp, 0), following)

    def replaced(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """A batch was split; its parts share its sequences."""
        entry = self._entry(batch.tp)
        sequence = batch.base_sequence
        for part in parts:
            part.assign_sequence(batch.producer_id, batch.producer_epoch, sequence)
            sequence = increment_sequence(sequence, part.count)
        position = entry.unfinished.index(batch)
        entry.unfinished[position : position + 1] = parts

    def _entry(self, tp: TopicPartition) -> _PartitionSequences:
        entry = self._partitions.get(tp)
        if entry is None:
            entry = self._partitions[tp] = _PartitionSequences(self.producer_id, self.epoch)
        return entry

    @staticmethod
    def _forget(entry: _PartitionSequences, batch: ProducerBatch) -> None:
        if batch in entry.unfinished:
            entry.unfinished.remove(batch)

    def _restart_requested(self) -> None:
        for tp in sorted(self._to_restart):
            self._entry(tp).restart(self.producer_id, self.epoch)
            self._unresolved.pop(tp, None)
        self._to_restart.clear()
