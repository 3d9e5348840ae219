"""The producer for threads."""

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from kafka_zk.base.clock import monotonic_s
from kafka_zk.clients.connection.blocking import BlockingClient, BlockingContext, blocking, on_reactor
from kafka_zk.clients.connection.errors import BufferExhausted, ClientClosed, KafkaError
from kafka_zk.clients.connection.reactor_thread import reactor_thread
from kafka_zk.clients.producer.config import ProducerConfig
from kafka_zk.clients.producer.future import RecordFuture
from kafka_zk.clients.producer.intake import Missing
from kafka_zk.clients.producer.producer import Producer
from kafka_zk.clients.producer.producer_record import ProducerRecord
from kafka_zk.storage.records.record_batch import Header


class BlockingProducer(BlockingClient[Producer]):
    """Sends records in batches from any number of threads.

    ``send`` adds the record to its batch and returns a future. It waits only for a topic's first metadata, for a
    partition that does not exist yet, and while ``buffer.memory`` is full. The future, or ``flush``, reports whether
    the record was delivered. The end of a ``with`` block delivers everything; after an exception it gives up
    immediately.

    Takes Kafka's keys with ``_`` for ``.`` (``bootstrap_servers="h:9092", linger_ms=5``), or a ProducerConfig.

    Raises: ConfigError naming the key and the allowed values; KafkaError on the reactor thread.
    """

    def __init__(self, config: ProducerConfig | None = None, **options: Any) -> None:
        thread = reactor_thread()
        producer = Producer(thread.reactor, config, **options)
        super().__init__(thread, producer)
        self.config = producer.config
        self._intake = producer.intake
        self._sender = producer.sender
        self._room = threading.Condition()
        self._closed = False
        producer.accumulator.on_work = self._wake
        producer.on_progress.append(self._wake_waiting)

    def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
    ) -> RecordFuture:
        """Accept a record; ``future.result()`` returns where it was written. A partition's records keep the order of
        the calls.

        Raises: KafkaTimeoutError (no metadata, no such partition) or BufferExhausted after ``max.block.ms``;
        RecordTooLargeError; KafkaError for a rejected record; ClientClosed. After any of them, an open transaction can
        only be aborted.
        """
        if self._closed:
            raise ClientClosed("the producer was closed")
        begun_count = self._client.begun_count
        try:
            taken = self._intake.offer(topic, value, key, partition, timestamp_ms, headers)
            if isinstance(taken, RecordFuture):
                return taken
            record = ProducerRecord(value, key, partition, timestamp_ms, headers)
            return self._wait_and_send(taken, topic, record, begun_count)
        except KafkaError as error:
            if self.config.transactional_id is not None:
                self._thread.run_soon(self._client.not_taken, error, begun_count)
            raise

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until each earlier record is acknowledged or has failed. Raises KafkaTimeoutError."""
        self._thread.call(self._client.flush, timeout_s=timeout_s)

    init_transactions = blocking(Producer.init_transactions)
    begin_transaction = on_reactor(Producer.begin_transaction)
    commit_transaction = blocking(Producer.commit_transaction)
    abort_transaction = blocking(Producer.abort_transaction)
    prepare_transaction = blocking(Producer.prepare_transaction)
    send_offsets = blocking(Producer.send_offsets)
    partitions_for = blocking(Producer.partitions_for)

    def transaction(self) -> BlockingContext:
        """``with producer.transaction():`` begins a transaction, commits it at the end, and aborts it after an
        exception.

        Raises: TransactionAbortable after the abort (the same work may be tried again), and the other errors of
        ``commit_transaction``. After ProducerFenced and TransactionFatal close the producer.
        """
        return BlockingContext(self._thread, self._client.transaction())

    def close(self, timeout_s: float | None = None) -> None:
        """Deliver the accepted records within ``timeout_s`` (None: within ``delivery.timeout.ms``), then stop.

        Records that are not delivered by then fail with ClientClosed. A second close does nothing.
        """
        self._closed = True
        self._thread.call(self._client.close, timeout_s)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(None if error is None else 0.0)

    def _wait_and_send(self, missing: Missing, topic: str, record: ProducerRecord, begun_count: int) -> RecordFuture:
        deadline_s = monotonic_s() + self.config.max_block_ms / 1000
        taken: RecordFuture | Missing = missing
        while True:
            if taken is not Missing.ROOM:
                left_s = deadline_s - monotonic_s()
                self._thread.call(self._client.wait_for, taken, topic, record.partition, left_s)
            with self._room:
                # Offer the record under the condition's lock: memory freed between the offer and the wait must not be
                # missed.
                self._client.check_begun(begun_count)
                taken = self._intake.offer(topic, *record)
                if isinstance(taken, RecordFuture):
                    break
                self._wake()
                left_s = deadline_s - monotonic_s()
                if taken is Missing.ROOM and (left_s <= 0 or not self._room.wait(left_s)):
                    raise BufferExhausted(
                        f"buffer.memory ({self.config.buffer_memory} bytes) had no room "
                        f"for {self.config.max_block_ms} ms"
                    )
        self._wake()
        return taken

    def _wake(self) -> None:
        if not self._sender.wake_pending:
            self._sender.wake_pending = True
            self._thread.reactor.callFromThread(self._sender.wake)

    def _wake_waiting(self) -> None:
        with self._room:
            self._room.notify_all()
