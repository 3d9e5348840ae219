"""A batch of records for one partition. Pure except for a lock: any thread may wait for the outcome. Source:
ProducerBatch.java@3.9.
"""

import threading
from collections.abc import Callable, Mapping, Sequence

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import BrokerError, KafkaError
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.records.record_batch import NO_PRODUCER_ID, NO_SEQUENCE, Header, RecordBatchBuilder, set_producer


class ProducerBatch:
    """Records of one partition that are sent and retried together.

    ``number``: orders the batches of a partition; the parts of a split batch sort in its place. ``reserved_bytes``: its
    share of ``buffer.memory``. ``base_sequence``: NO_SEQUENCE until an idempotent producer drains the batch; then kept
    until the epoch is bumped. ``sequence_was_reset``: the sequence changed after the batch was last sent, so the
    response concerns the old one. ``has_new_leader``: the last attempt failed because the leader had moved, and the
    response named the new one.
    """

    __slots__ = (
        "_builder",
        "_children",
        "_encoded",
        "_listeners",
        "_lock",
        "_record_errors",
        "attempts",
        "base_offset",
        "base_sequence",
        "closed",
        "count",
        "created_ms",
        "done",
        "error",
        "has_new_leader",
        "last_attempt_ms",
        "log_append_time_ms",
        "number",
        "producer_epoch",
        "producer_id",
        "reserved_bytes",
        "sequence_was_reset",
        "tp",
    )

    def __init__(
        self,
        tp: TopicPartition,
        compression: str,
        created_ms: int,
        reserved_bytes: int,
        number: tuple[int, ...] = (0,),
        *,
        transactional: bool = False,
    ) -> None:
        self.tp = tp
        self.number = number
        self.created_ms = created_ms
        self.last_attempt_ms = created_ms
        self.reserved_bytes = reserved_bytes
        self.attempts = 0
        self.has_new_leader = False
        self.count = 0
        self.closed = False
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = -1
        self.base_sequence = NO_SEQUENCE
        self.sequence_was_reset = False
        self.done = False
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.error: KafkaError | None = None
        self._record_errors: Mapping[int, KafkaError] = {}
        self._builder: RecordBatchBuilder | None = RecordBatchBuilder(compression, transactional=transactional)
        self._encoded: bytearray | None = None
        self._children: Sequence[tuple[int, ProducerBatch]] = ()
        self._listeners: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    # --- filling and encoding ---

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> int:
        """Add a record and return its index. The caller has checked ``size_bytes``."""
        assert self._builder is not None, "append to a closed batch"
        self._builder.append(timestamp_ms, key, value, headers)
        index = self.count
        self.count = index + 1
        return index

    @property
    def size_bytes(self) -> int:
        """The size of the encoded batch; while it is open, an estimate of its size before compression."""
        if self._encoded is not None:
            return len(self._encoded)
        return self._builder.size_estimate_bytes if self._builder is not None else 0

    @property
    def has_sequence(self) -> bool:
        """True once an idempotent producer has drained the batch."""
        return self.base_sequence != NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        return increment_sequence(self.base_sequence, self.count - 1)

    def assign_sequence(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """A second call is a reset after an epoch bump."""
        self.sequence_was_reset = self.has_sequence
        self.producer_id, self.producer_epoch, self.base_sequence = producer_id, producer_epoch, base_sequence
        if self._encoded is not None:
            # A copy: the old bytes may still wait in a connection's queue.
            self._encoded = bytearray(self._encoded)
            set_producer(self._encoded, producer_id, producer_epoch, base_sequence)

    def encode(self) -> bytearray:
        """The encoded record batch, which is then closed. Only the first call compresses."""
        self.closed = True
        if self._encoded is None:
            assert self._builder is not None
            self._encoded = bytearray(
                self._builder.build(
                    producer_id=self.producer_id,
                    producer_epoch=self.producer_epoch,
                    base_sequence=self.base_sequence,
                )
            )
            self._builder = None
        return self._encoded

    # --- outcome ---

    def complete(self, base_offset: int, log_append_time_ms: int) -> None:
        """Record that the batch was written. No effect if the outcome is known."""
        if not self.done:
            self.base_offset, self.log_append_time_ms = base_offset, log_append_time_ms
            self._finish()

    def fail(self, error: KafkaError, record_errors: Mapping[int, KafkaError] | None = None) -> None:
        """The batch was not, or may not have been, written. No effect if the outcome is known."""
        if not self.done:
            self.error, self._record_errors = error, record_errors or {}
            self._finish()

    def split_into(self, children: Sequence["ProducerBatch"]) -> None:
        """Replace this batch by smaller ones with the same records."""
        starts, start = [], 0
        for child in children:
            starts.append((start, child))
            start += child.count
        assert start == self.count, "a split must keep all records"
        self._children = starts
        self._encoded = None
        remaining = len(children)

        def child_done() -> None:
            nonlocal remaining
            remaining -= 1
            if remaining == 0:
                self._finish()

        for child in children:
            child.add_listener(child_done)

    def locate(self, index: int) -> tuple["ProducerBatch", int]:
        """The batch that contains the record after any splits, and its index there."""
        batch: ProducerBatch = self
        while batch._children:
            start, batch = next(entry for entry in reversed(batch._children) if entry[0] <= index)
            index -= start
        return batch, index

    def leaves(self) -> list["ProducerBatch"]:
        return [leaf for _, part in self._children for leaf in part.leaves()] if self._children else [self]

    def error_of(self, index: int) -> KafkaError:
        """Why the record at ``index`` failed. A valid record of the batch fails with an error that names the invalid
        ones.
        """
        assert self.error is not None
        if not self._record_errors or self.count == 1:
            return self._record_errors.get(index, self.error)
        fallback = BrokerError(
            f"not appended to {self.tp}: other records of its batch were invalid", ErrorCode.INVALID_RECORD
        )
        return self._record_errors.get(index, fallback)

    def add_listener(self, function: Callable[[], object]) -> None:
        """Call ``function()`` once the outcome is known: now, or later on the thread that reports it."""
        with self._lock:
            if not self.done:
                self._listeners.append(function)
                return
        function()

    def _finish(self) -> None:
        with self._lock:
            self.done = True
            listeners, self._listeners = self._listeners, []
        self._encoded = self._builder = None
        for function in listeners:
            function()


def increment_sequence(sequence: int, count: int) -> int:
    """``sequence + count``; 0 follows 2^31 - 1. Source: DefaultRecordBatch.java#incrementSequence."""
    return (sequence + count) & 0x7FFFFFFF
