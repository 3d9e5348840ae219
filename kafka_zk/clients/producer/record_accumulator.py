"""Batches that wait to be sent, bounded by ``buffer.memory``.

Pure except for one lock: any thread may call ``append``; only the sender's thread may call the other methods. Times are
parameters. The batches of a partition form a queue in the order of their records; the last one may still be open. The
first one is *ready* when it is full, is not the last one, is ``linger.ms`` old, or a flush, a close or a full buffer
requires it. A failed batch is ready again after its back-off.

Source: RecordAccumulator.java@3.9.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import RecordTooLargeError
from kafka_zk.clients.producer.batch import ProducerBatch
from kafka_zk.clients.producer.config import ProducerConfig
from kafka_zk.clients.producer.future import RecordFuture
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.records.record_batch import HEADER_SIZE, Header

_RECORD_OVERHEAD_BYTES = 36  # length, attributes, deltas, key and value lengths, header count, each at its longest
_HEADER_OVERHEAD_BYTES = 10  # both lengths of a header, each at its longest


def record_size_upper_bound(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """The maximum size in bytes of an uncompressed batch with only this record."""
    size = HEADER_SIZE + _RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        size += _HEADER_OVERHEAD_BYTES + 4 * len(name) + (len(content) if content else 0)
    return size


class Drained(NamedTuple):
    """What to send now, and when to check again.

    ``requests``: node -> the batches of one request, at most one batch per partition. ``blocked_nodes``: nodes
    with more ready batches than fit. ``next_check_ms``: on the caller's clock; None if no batch waits.
    """

    requests: dict[int, list[ProducerBatch]]
    unknown_leader_topics: set[str]
    blocked_nodes: set[int]
    next_check_ms: int | None


class _PartitionQueue:
    __slots__ = ("batches", "created_count", "in_flight_count", "in_flight_node", "open", "tp")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.batches: deque[ProducerBatch] = deque()
        self.open: ProducerBatch | None = None
        self.created_count = 0
        self.in_flight_count = 0
        self.in_flight_node = -1


class RecordAccumulator:
    """The batches of one producer. ``used_bytes`` never exceeds ``buffer_memory``.

    ``on_work``: called under the lock of an append, when a batch is new (its linger time starts) or full.
    ``exhausted``: set by an append that found no memory, cleared by ``release``.
    """

    def __init__(self, config: ProducerConfig, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._record_bytes_max = min(config.max_request_size, config.buffer_memory)
        self._batch_size = config.batch_size
        self._linger_ms = config.linger_ms
        self._buffer_memory = config.buffer_memory
        self._compression = config.compression_type
        self._transactional = config.transactional_id is not None
        self._delivery_timeout_ms = config.delivery_timeout_ms
        self._retry_backoff_ms = config.retry_backoff_ms
        self._retry_backoff_max_ms = config.retry_backoff_max_ms
        self._one_in_flight = not config.idempotent and config.max_in_flight_requests_per_connection == 1
        self._lock = threading.Lock()
        self._queues: dict[str, dict[int, _PartitionQueue]] = {}
        self._waiting: dict[_PartitionQueue, None] = {}  # queues that contain batches, least recently served first
        self._unfinished: dict[ProducerBatch, None] = {}
        self._by_age: deque[ProducerBatch] = deque()
        self._flush_count = 0
        self.used_bytes = 0
        self.exhausted = False
        self.on_work: Callable[[], None] = lambda: None

    # --- any thread ---

    def append(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Sequence[Header],
    ) -> RecordFuture | None:
        """Add a record to a batch. None if the record needs a new batch, for which ``buffer.memory`` has no room.

        Raises: RecordTooLargeError for a record that exceeds ``max.request.size`` or the whole buffer.
        """
        with self._lock:
            try:
                queue = self._queues[topic][partition]
            except KeyError:
                queue = self._new_queue(topic, partition)
            batch = queue.open
            if batch is None or not self._fits(batch, key, value, headers):
                batch = self._open_batch(queue, record_size_upper_bound(key, value, headers))
                if batch is None:
                    return None
            return RecordFuture(batch, batch.append(timestamp_ms, key, value, headers), timestamp_ms)

    def _fits(self, batch: ProducerBatch, key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> bool:
        size = batch.size_bytes + _RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
        if headers:
            size += record_size_upper_bound(None, None, headers)
        return size <= self._batch_size

    def _new_queue(self, topic: str, partition: int) -> _PartitionQueue:
        queue = _PartitionQueue(TopicPartition(topic, partition))
        self._queues.setdefault(topic, {})[partition] = queue
        return queue

    def _open_batch(self, queue: _PartitionQueue, first_record_bytes: int) -> ProducerBatch | None:
        if first_record_bytes > self._record_bytes_max:
            raise RecordTooLargeError(
                f"a record of about {first_record_bytes} bytes is above max.request.size or buffer.memory "
                f"({self._record_bytes_max})",
                ErrorCode.MESSAGE_TOO_LARGE,
            )
        reserved = max(self._batch_size, first_record_bytes)
        self.on_work()
        if self.used_bytes + reserved > self._buffer_memory:
            self.exhausted = True
            return None
        self.used_bytes += reserved
        if queue.open is not None:
            queue.open.closed = True
        number = queue.created_count
        queue.created_count = number + 1
        batch = ProducerBatch(
            queue.tp, self._compression, self._clock_ms(), reserved, (number,), transactional=self._transactional
        )
        queue.open = batch
        queue.batches.append(batch)
        self._waiting.setdefault(queue)
        self._unfinished[batch] = None
        self._by_age.append(batch)
        return batch

    # --- the sender's thread ---

    def drain(
        self,
        leader_of: Callable[[TopicPartition], int | None],
        nodes_with_room: Collection[int],
        may_drain: Callable[[ProducerBatch], bool],
        max_request_size: int,
        now_ms: int,
    ) -> Drained:
        """Remove the batches to send now: for each node one request of at most ``max_request_size`` bytes, or one
        larger batch.

        ``may_drain`` is called for batches that are otherwise ready. Served queues move to the end, so that no
        partition starves.
        """
        drained = Drained({}, set(), set(), None)
        sizes: dict[int, int] = {}
        next_check_ms: int | None = None
        served = []
        with self._lock:
            for queue in self._waiting:
                node = leader_of(queue.tp)
                if node is None:
                    drained.unknown_leader_topics.add(queue.tp.topic)
                    continue
                batch = queue.batches[0]
                ready_ms = self._ready_ms(queue, batch, now_ms)
                if ready_ms > now_ms:
                    next_check_ms = ready_ms if next_check_ms is None else min(next_check_ms, ready_ms)
                    continue
                if self._must_wait(queue, node) or not may_drain(batch):
                    continue
                size = sizes.get(node, 0)
                if node not in nodes_with_room or (size > 0 and size + batch.size_bytes > max_request_size):
                    drained.blocked_nodes.add(node)
                    continue
                sizes[node] = size + batch.size_bytes
                drained.requests.setdefault(node, []).append(batch)
                served.append((queue, node))
            for queue, node in served:
                self._take_first(queue, node)
        return drained._replace(next_check_ms=next_check_ms)

    def _ready_ms(self, queue: _PartitionQueue, batch: ProducerBatch, now_ms: int) -> int:
        if batch.attempts and not batch.has_new_leader:
            backoff_ms = self._retry_backoff_ms << min(batch.attempts - 1, 20)
            return batch.last_attempt_ms + min(backoff_ms, max(self._retry_backoff_max_ms, self._retry_backoff_ms))
        full = batch.closed or len(queue.batches) > 1 or batch.size_bytes >= self._batch_size
        if full or self.exhausted or self._flush_count:
            return now_ms
        return batch.created_ms + self._linger_ms

    def _must_wait(self, queue: _PartitionQueue, node: int) -> bool:
        """True while a batch could overtake those in flight, because one of them is retried, or because the batch
        would go to a new leader.

        This is stricter than Java's rule, because a new leader without producer state accepts any first sequence, so
        older batches that return from the old leader would be out of order.
        """
        return queue.in_flight_count > 0 and (self._one_in_flight or queue.in_flight_node != node)

    def _take_first(self, queue: _PartitionQueue, node: int) -> None:
        batch = queue.batches.popleft()
        batch.closed = True
        if queue.open is batch:
            queue.open = None
        queue.in_flight_count += 1
        queue.in_flight_node = node
        del self._waiting[queue]
        if queue.batches:
            self._waiting[queue] = None

    def requeue(self, batches: Iterable[ProducerBatch]) -> None:
        """Return batches to their queues, in the order of their records."""
        with self._lock:
            for batch in batches:
                topic, partition = batch.tp
                queue = self._queues[topic][partition]
                position = 0
                for waiting in queue.batches:
                    if waiting.number > batch.number:
                        break
                    position += 1
                queue.batches.insert(position, batch)
                self._waiting.setdefault(queue)

    def replace(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """The parts inherit the split batch's memory and age."""
        with self._lock:
            for part in parts:
                part.reserved_bytes = 0
                self._unfinished[part] = None
            parts[0].reserved_bytes, batch.reserved_bytes = batch.reserved_bytes, 0
            self._by_age.extendleft(parts)
        self.requeue(parts)

    def returned(self, tp: TopicPartition) -> None:
        """A drained batch has returned, with or without a response. Must be called once for each drained batch."""
        topic, partition = tp
        queue = self._queues[topic][partition]
        queue.in_flight_count -= 1
        assert queue.in_flight_count >= 0, "more batches came back than went out"

    def release(self, batch: ProducerBatch) -> None:
        with self._lock:
            if batch not in self._unfinished:
                return
            del self._unfinished[batch]
            self.used_bytes -= batch.reserved_bytes
            self.exhausted = False

    def expired(self, now_ms: int) -> list[ProducerBatch]:
        """Remove and return batches without an outcome, queued or in flight, after ``delivery.timeout.ms``."""
        found = []
        with self._lock:
            while self._by_age:
                batch = self._by_age[0]
                if not batch.done and batch.created_ms + self._delivery_timeout_ms > now_ms:
                    break
                self._by_age.popleft()
                if not batch.done:
                    self._remove(batch)
                    found.append(batch)
        return found

    def next_expiry_ms(self) -> int | None:
        with self._lock:
            return self._by_age[0].created_ms + self._delivery_timeout_ms if self._by_age else None

    def _remove(self, batch: ProducerBatch) -> None:
        topic, partition = batch.tp
        queue = self._queues[topic][partition]
        batch.closed = True
        if queue.open is batch:
            queue.open = None
        if batch in queue.batches:
            queue.batches.remove(batch)
            if not queue.batches:
                self._waiting.pop(queue, None)

    def begin_flush(self) -> list[ProducerBatch]:
        """All batches are ready until ``end_flush``. Returns the batches to wait for."""
        with self._lock:
            self._flush_count += 1
            return list(self._unfinished)

    def end_flush(self) -> None:
        with self._lock:
            self._flush_count -= 1

    @property
    def has_queued(self) -> bool:
        """True if a batch waits, for the first time or for a retry."""
        with self._lock:
            return any(queue.batches for queue in self._waiting)

    def take_queued(self) -> list[ProducerBatch]:
        with self._lock:
            found = [batch for queue in self._waiting for batch in queue.batches]
            for batch in found:
                self._remove(batch)
            return found

    def take_unsent(self) -> list[ProducerBatch]:
        """Remove the queued batches that were never sent."""
        with self._lock:
            found = [batch for queue in self._waiting for batch in queue.batches if not batch.has_sequence]
            for batch in found:
                self._remove(batch)
            return found

    def abort_all(self) -> list[ProducerBatch]:
        """Remove all queued batches; returns all without an outcome."""
        with self._lock:
            for queue in self._waiting:
                queue.batches.clear()
                queue.open = None
            self._waiting.clear()
            return list(self._unfinished)
