"""Sequence numbers: they let a retried batch be written once and in order.

Pure. One producer id and epoch for the producer; per partition the next sequence, the end of the acknowledged ones, and
the batches that have a sequence and no outcome yet (on the wire or waiting for a retry), in order.

A broker without state of the producer accepts any first sequence. A leader that is just becoming one may refuse a first
batch and accept the second: the first is then permanently out of order. So a partition has only one batch in flight
until the broker has acknowledged one of this producer id and epoch, and no new batch follows one that is retried.
Java's client does send several (KAFKA-14359, KAFKA-15591).

When a gap is certain (a batch failed for good, or the broker forgot us) the epoch is bumped: the partition's unfinished
batches are numbered from 0 again under the new epoch. Other partitions move to the new epoch when they have none
unfinished. A batch that expired after having been sent leaves its partition *unresolved*: nothing new is drained until
the outcome of the batches behind it shows whether the broker had it.

In a transaction only the coordinator bumps the epoch: a gap makes the transaction fail, and its end starts over.

Source: KIP-98, KIP-360; TransactionManager.java and TxnPartitionMap.java@3.9.
Tests: tests/kafka_zk/clients/producer/test_producer_core.py.
"""

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.producer.batch import ProducerBatch, increment_sequence
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.records.record_batch import NO_PRODUCER_ID

_EPOCH_MAX = 32_767
_SEQUENCES_HALF = 1 << 30  # a sequence less than this ahead of another one comes after it


class _PartitionSequences:
    """Of one partition, under one producer id and epoch.

    ``is_known``: the broker has acknowledged a batch, so it has state of the producer. ``acked_end``: the sequence
    after the last acknowledged one, 0 at first.
    """

    __slots__ = ("acked_end", "epoch", "is_known", "next_sequence", "producer_id", "unfinished")

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.unfinished: list[ProducerBatch] = []
        self.restart(producer_id, epoch)

    def restart(self, producer_id: int, epoch: int) -> None:
        """Number the unfinished batches from 0 under the given id and epoch."""
        self.producer_id, self.epoch = producer_id, epoch
        self.is_known = False
        self.acked_end = 0
        sequence = 0
        for batch in self.unfinished:
            batch.assign_sequence(producer_id, epoch, sequence)
            sequence = increment_sequence(sequence, batch.count)
        self.next_sequence = sequence

    def acknowledged(self, batch: ProducerBatch) -> None:
        """The broker has the batch under its present sequence."""
        end = increment_sequence(batch.last_sequence, 1)
        if not self.is_known or _is_after(end, self.acked_end):
            self.acked_end = end
        self.is_known = True

    def was_overtaken(self, batch: ProducerBatch) -> bool:
        """Whether the broker has acknowledged a later batch than this one, which has no outcome yet."""
        return _is_after(self.acked_end, batch.base_sequence)

    def is_oldest(self, batch: ProducerBatch) -> bool:
        """Whether no other unfinished batch precedes this one."""
        return not self.unfinished or self.unfinished[0] is batch

    @property
    def may_send_more(self) -> bool:
        """Whether a new batch may follow the unfinished ones without a risk to order.

        None follows a retry, because the broker recognizes only the last five batches as written
        (ProducerStateEntry.java#NUM_BATCHES_TO_RETAIN), and the retry may be of an older one by then.
        """
        return not self.unfinished or (self.is_known and self.unfinished[0].attempts == 0)


class Idempotence:
    """Producer id, epoch and sequences of one producer."""

    def __init__(self, *, transactional: bool = False) -> None:
        self._transactional = transactional
        self.producer_id = NO_PRODUCER_ID
        self.epoch = -1
        self._partitions: dict[TopicPartition, _PartitionSequences] = {}
        self._unresolved: set[TopicPartition] = set()
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
        """Whether nothing was sent under this id and epoch, and no earlier batch is unfinished."""
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
                if entry.acked_end != entry.next_sequence:
                    self._to_restart.add(tp)
                self._unresolved.discard(tp)
        if not self._to_restart or self.needs_producer_id:
            return
        if self.epoch == _EPOCH_MAX:
            self.producer_id = NO_PRODUCER_ID
            return
        self.epoch += 1
        self._restart_requested()

    def may_drain(self, batch: ProducerBatch) -> bool:
        """Whether the first batch of its partition may be sent now without risking order or a gap."""
        if self.needs_producer_id:
            return False
        entry = self._entry(batch.tp)
        if not batch.has_sequence:
            stale = (entry.producer_id, entry.epoch) != (self.producer_id, self.epoch)
            return entry.may_send_more and not (entry.unfinished and stale) and batch.tp not in self._unresolved
        # A retry waits until it is the oldest unfinished one: one in flight until the partition has recovered.
        return entry.is_oldest(batch)

    def drained(self, batch: ProducerBatch) -> None:
        """Give a batch that is sent for the first time the next sequence; a retry keeps its own."""
        if batch.has_sequence:
            batch.sequence_was_reset = False
            return
        entry = self._entry(batch.tp)
        if not entry.unfinished and (entry.producer_id, entry.epoch) != (self.producer_id, self.epoch):
            entry.restart(self.producer_id, self.epoch)
        batch.assign_sequence(entry.producer_id, entry.epoch, entry.next_sequence)
        entry.next_sequence = increment_sequence(entry.next_sequence, batch.count)
        entry.unfinished.append(batch)

    def should_retry(self, batch: ProducerBatch, code: ErrorCode, log_start_offset: int) -> bool:
        """Decide about a batch that was refused; may ask for an epoch bump."""
        if code == ErrorCode.UNKNOWN_PRODUCER_ID and not self._transactional:
            # -1: the partition moved while the broker responded; the next response says more.
            if log_start_offset != -1 and not batch.sequence_was_reset:
                self._to_restart.add(batch.tp)
            return True
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return self._should_retry_out_of_order(batch)
        return code.retriable

    def _should_retry_out_of_order(self, batch: ProducerBatch) -> bool:
        """The broker refuses the oldest unfinished batch permanently: no earlier batch remains that could fill the gap.

        If a later batch was acknowledged, this one could only be written out of order, or twice: it fails. Java's
        client retries it until ``delivery.timeout.ms`` (KAFKA-14359). Otherwise there is a gap: the epoch is bumped.
        """
        entry = self._entry(batch.tp)
        if batch.sequence_was_reset or not entry.is_oldest(batch):
            return True
        if self._transactional or entry.was_overtaken(batch):
            return False
        self._to_restart.add(batch.tp)
        return True

    def completed(self, batch: ProducerBatch) -> None:
        """The broker acknowledged a batch (or knows that it is a duplicate)."""
        entry = self._entry(batch.tp)
        is_current = (batch.producer_id, batch.producer_epoch) == (entry.producer_id, entry.epoch)
        if is_current and not batch.sequence_was_reset:
            entry.acknowledged(batch)
        self._forget(entry, batch)

    def failed(self, batch: ProducerBatch, certainly_not_written: bool) -> None:
        """A batch was given up. Its sequence is a gap if the broker certainly has neither it nor a later one."""
        entry = self._entry(batch.tp)
        self._forget(entry, batch)
        if self._transactional:
            self._unresolved.add(batch.tp)  # batches behind it stay out of order: they fail, too
        elif certainly_not_written and not entry.was_overtaken(batch):
            self._to_restart.add(batch.tp)

    def expired_after_sending(self, batch: ProducerBatch) -> None:
        """A batch that was sent at least once ran out of time: it may have been written."""
        self._unresolved.add(batch.tp)

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
            self._unresolved.discard(tp)
        self._to_restart.clear()


def _is_after(sequence: int, other: int) -> bool:
    return 0 < (sequence - other) & 0x7FFFFFFF < _SEQUENCES_HALF
