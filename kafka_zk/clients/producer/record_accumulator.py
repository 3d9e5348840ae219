"""Records waiting to be sent: batches per partition, bounded by ``buffer.memory``.

Pure but for one lock: ``append`` may be called from any thread, everything else on the sender's thread; the clock is a
parameter. A partition's batches form a queue in the order of their records; the last one may still be open. The first
one is *ready* when it is full, or not the last one, or ``linger.ms`` old, or when a flush, a close or a full buffer
presses; a batch that failed is ready again after its back-off.

Source: RecordAccumulator.java@3.9. Tests: tests/kafka_zk/clients/producer/test_producer_core.py.
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

_RECORD_OVERHEAD_BYTES = 36  # length, attributes, deltas, key and value length, header count at their longest
_HEADER_OVERHEAD_BYTES = 10  # the two lengths of a header at their longest


def record_size_upper_bound(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """Return how many bytes a batch of just this record takes at most, uncompressed."""
    size = HEADER_SIZE + _RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        size += _HEADER_OVERHEAD_BYTES + 4 * len(name) + (len(content) if content else 0)
    return size


class Drained(NamedTuple):
    """What to send now and what to look after.

    ``requests``: per node the batches of one request, at most one of a partition. ``blocked_nodes``: those that more
    batches are ready for than could be taken out now. ``next_check_ms``: when, by the
    caller's clock, a batch becomes ready that is not yet; None if none waits for time.
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
    """Batches of one producer from ``append`` to ``release``.

    ``on_work`` is called, on the thread of an append and under its lock, when that made work for the sender: a new
    batch, whose linger time starts, or a full one. ``exhausted`` is set when an append found no room and cleared by
    ``release``. ``used_bytes`` never exceeds ``buffer_memory``.
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
        self._waiting: dict[_PartitionQueue, None] = {}  # queues that hold batches, the longest not served first
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
        """Put a record into its partition's open batch; None if ``buffer.memory`` has no room for a batch it needs.

        Raises: RecordTooLargeError for one that ``max.request.size`` or the whole buffer could not hold.
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
        """Take out what can be sent now: for each node one request of at most ``max_request_size`` bytes, or one batch.

        ``may_drain`` is asked about batches that are otherwise ready. Queues that were served go to the end, so that no
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
        """True while batches in flight could be overtaken: by a retry's successor, or at a new leader.

        The second rule is stricter than Java: a new leader without producer state accepts any first sequence, so a
        batch that reached it before the older ones came back from the old leader would leave those out of order.
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
        """Put batches back among those of their partition, in the order of their records."""
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
        """Let ``parts`` stand for a split batch: they take over its memory and its age, and are queued."""
        with self._lock:
            for part in parts:
                part.reserved_bytes = 0
                self._unfinished[part] = None
            parts[0].reserved_bytes, batch.reserved_bytes = batch.reserved_bytes, 0
            self._by_age.extendleft(parts)
        self.requeue(parts)

    def returned(self, tp: TopicPartition) -> None:
        """A drained batch has come back, answered or not; to be called exactly once for each."""
        topic, partition = tp
        queue = self._queues[topic][partition]
        queue.in_flight_count -= 1
        assert queue.in_flight_count >= 0, "more batches came back than went out"

    def release(self, batch: ProducerBatch) -> None:
        """Give back the memory of a batch that is done."""
        with self._lock:
            if batch not in self._unfinished:
                return
            del self._unfinished[batch]
            self.used_bytes -= batch.reserved_bytes
            self.exhausted = False

    def expired(self, now_ms: int) -> list[ProducerBatch]:
        """Take out the batches older than ``delivery.timeout.ms`` that have no outcome, queued or in flight."""
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
        """When the oldest batch runs out of time (it may be done by then)."""
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
        """Make everything ready at once until ``end_flush``; returns what there is to wait for."""
        with self._lock:
            self._flush_count += 1
            return list(self._unfinished)

    def end_flush(self) -> None:
        """One flush is over."""
        with self._lock:
            self._flush_count -= 1

    @property
    def has_queued(self) -> bool:
        """Whether a batch waits to be sent, for the first time or again."""
        with self._lock:
            return any(queue.batches for queue in self._waiting)

    def take_queued(self) -> list[ProducerBatch]:
        """Take out what waits to be sent, for the first time or again."""
        with self._lock:
            found = [batch for queue in self._waiting for batch in queue.batches]
            for batch in found:
                self._remove(batch)
            return found

    def take_unsent(self) -> list[ProducerBatch]:
        """Take out what is queued and was never sent; for a transaction that is aborted."""
        with self._lock:
            found = [batch for queue in self._waiting for batch in queue.batches if not batch.has_sequence]
            for batch in found:
                self._remove(batch)
            return found

    def abort_all(self) -> list[ProducerBatch]:
        """Take everything out that is queued; for closing without waiting. Returns all batches without an outcome."""
        with self._lock:
            for queue in self._waiting:
                queue.batches.clear()
                queue.open = None
            self._waiting.clear()
            return list(self._unfinished)
