"""Sequence numbers, which ensure that a retried batch is written once and in order.

Pure. A producer has one id and epoch. Each partition has the next sequence, the end of the acknowledged sequences, and
its *unfinished* batches, in order: those with a sequence but without an outcome.

A broker that has no state of the producer accepts any first sequence. While a leader is changing, it may reject a first
batch and accept the second, and the first is then permanently out of order. Therefore a partition has only one batch in
flight until the broker has acknowledged a batch with this producer id and epoch, and no new batch is sent behind a
retry. Java's client does send several batches (KAFKA-14359, KAFKA-15591).

If a gap is certain (a batch failed permanently, or the broker lost the producer's state), the epoch is bumped, and the
partition's unfinished batches are numbered from 0 under the new epoch. Other partitions switch to the new epoch when
they have no unfinished batches. If a batch expires after it was sent, its partition is *unresolved*: no new batch is
drained until the outcome of later batches shows whether the broker wrote it.

In a transaction only the coordinator bumps the epoch: a gap fails the transaction, and its end bumps the epoch.

Source: KIP-98, KIP-360; TransactionManager.java and TxnPartitionMap.java@3.9.
"""

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.producer.batch import ProducerBatch, increment_sequence
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.records.record_batch import NO_PRODUCER_ID

_EPOCH_MAX = 32_767
_SEQUENCES_HALF = 1 << 30  # a sequence is later than another one if it is ahead by less than this


class _PartitionSequences:
    """The sequences of one partition under one producer id and epoch.

    ``is_known``: the broker has acknowledged a batch, so it has state of the producer. ``acked_end``: the sequence
    after the last acknowledged one, 0 at first.
    """

    __slots__ = ("acked_end", "epoch", "is_known", "next_sequence", "producer_id", "unfinished")

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.unfinished: list[ProducerBatch] = []
        self.restart(producer_id, epoch)

    def restart(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self.is_known = False
        self.acked_end = 0
        sequence = 0
        for batch in self.unfinished:
            batch.assign_sequence(producer_id, epoch, sequence)
            sequence = increment_sequence(sequence, batch.count)
        self.next_sequence = sequence

    def acknowledged(self, batch: ProducerBatch) -> None:
        """The broker has the batch under its current sequence."""
        end = increment_sequence(batch.last_sequence, 1)
        if not self.is_known or _is_after(end, self.acked_end):
            self.acked_end = end
        self.is_known = True

    def was_overtaken(self, batch: ProducerBatch) -> bool:
        return _is_after(self.acked_end, batch.base_sequence)

    def is_oldest(self, batch: ProducerBatch) -> bool:
        return not self.unfinished or self.unfinished[0] is batch

    @property
    def may_send_more(self) -> bool:
        """True if a new batch may follow the unfinished ones.

        No new batch may follow a retry: the broker recognizes only the last five batches as duplicates
        (ProducerStateEntry.java#NUM_BATCHES_TO_RETAIN), and the retried one may be older by then.
        """
        return not self.unfinished or (self.is_known and self.unfinished[0].attempts == 0)


class Idempotence:
    def __init__(self, *, transactional: bool = False) -> None:
        self._transactional = transactional
        self.producer_id = NO_PRODUCER_ID
        self.epoch = -1
        self._partitions: dict[TopicPartition, _PartitionSequences] = {}
        self._unresolved: set[TopicPartition] = set()
        self._to_restart: set[TopicPartition] = set()

    @property
    def needs_producer_id(self) -> bool:
        return self.producer_id == NO_PRODUCER_ID

    def set_producer_id(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self._restart_requested()

    def start_over(self, producer_id: int, epoch: int) -> None:
        """Continue without sequences. Requires that no batch is unfinished."""
        self.producer_id, self.epoch = producer_id, epoch
        self._partitions.clear()
        self._unresolved.clear()

    def prepare(self) -> None:
        """Call before a drain: resolves partitions, and bumps the epoch if that is pending."""
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
        """True if the batch can be sent without endangering the order or leaving a gap."""
        if self.needs_producer_id:
            return False
        entry = self._entry(batch.tp)
        if not batch.has_sequence:
            stale = (entry.producer_id, entry.epoch) != (self.producer_id, self.epoch)
            return entry.may_send_more and not (entry.unfinished and stale) and batch.tp not in self._unresolved
        # A retry waits until it is the oldest unfinished batch: one in flight until the partition has recovered.
        return entry.is_oldest(batch)

    def drained(self, batch: ProducerBatch) -> None:
        """A retry keeps its sequence."""
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
        """True if the batch should be sent again. May request an epoch bump."""
        if code == ErrorCode.UNKNOWN_PRODUCER_ID and not self._transactional:
            # -1: the partition moved while the broker responded; the next response will show the cause.
            if log_start_offset != -1 and not batch.sequence_was_reset:
                self._to_restart.add(batch.tp)
            return True
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return self._should_retry_out_of_order(batch)
        return code.retriable

    def _should_retry_out_of_order(self, batch: ProducerBatch) -> bool:
        """False for the oldest batch in a transaction, or if the broker acknowledged a later batch: a retry could write
        this one out of order or twice. Java's client retries even then, until ``delivery.timeout.ms`` (KAFKA-14359).
        If the broker acknowledged no later batch, the gap is permanent, so the epoch is bumped.
        """
        entry = self._entry(batch.tp)
        if batch.sequence_was_reset or not entry.is_oldest(batch):
            return True
        if self._transactional or entry.was_overtaken(batch):
            return False
        self._to_restart.add(batch.tp)
        return True

    def completed(self, batch: ProducerBatch) -> None:
        """The broker wrote the batch, or recognized a duplicate."""
        entry = self._entry(batch.tp)
        is_current = (batch.producer_id, batch.producer_epoch) == (entry.producer_id, entry.epoch)
        if is_current and not batch.sequence_was_reset:
            entry.acknowledged(batch)
        self._forget(entry, batch)

    def failed(self, batch: ProducerBatch, certainly_not_written: bool) -> None:
        """A batch was given up. This leaves a gap if the broker certainly has neither this batch nor a later one."""
        entry = self._entry(batch.tp)
        self._forget(entry, batch)
        if self._transactional:
            self._unresolved.add(batch.tp)  # the later batches are out of order from now on, so they fail, too
        elif certainly_not_written and not entry.was_overtaken(batch):
            self._to_restart.add(batch.tp)

    def expired_after_sending(self, batch: ProducerBatch) -> None:
        """The batch may have been written."""
        self._unresolved.add(batch.tp)

    def replaced(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """The parts of a split batch share its sequences."""
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
