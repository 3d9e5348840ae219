"""Decides what a produce response means for a batch: it is done, retried, split or failed.

Pure. Source: Sender.java@3.9 (completeBatch, canRetry, failBatch).
Tests: tests/kafka_zk/clients/producer/test_producer_core.py.
"""

from collections.abc import Callable

from kafka_zk.clients.connection.errors import KafkaError, KafkaTimeoutError, broker_error
from kafka_zk.clients.producer.batch import ProducerBatch
from kafka_zk.clients.producer.config import ProducerConfig
from kafka_zk.clients.producer.idempotence import Idempotence
from kafka_zk.clients.producer.record_accumulator import RecordAccumulator
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.produce import PartitionResult
from kafka_zk.storage.records.record_decoder import decode_records

STALE_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""Java's InvalidMetadataException and its subclasses."""


class BatchCompletion:
    """``on_failed`` is called for each batch that is given up, before its records fail."""

    def __init__(
        self,
        accumulator: RecordAccumulator,
        idempotence: Idempotence | None,
        config: ProducerConfig,
        on_failed: Callable[[KafkaError], None] = lambda error: None,
    ) -> None:
        self.accumulator = accumulator
        self._on_failed = on_failed
        self._transactional = config.transactional_id is not None
        self.idempotence = idempotence
        self._retries = config.retries
        self._delivery_timeout_ms = config.delivery_timeout_ms
        self._compression = config.compression_type

    def handle(self, batch: ProducerBatch, response: PartitionResult, now_ms: int, *, has_moved: bool = False) -> bool:
        """Handle a response; True if the metadata should be refreshed.

        ``has_moved``: the response named a new leader, to which the batch can be sent without back-off.
        """
        self.accumulator.returned(batch.tp)
        if batch.done:  # the batch expired in flight; a late success still advances the sequences
            if response.error_code == ErrorCode.NONE and self.idempotence is not None and batch.has_sequence:
                self.idempotence.completed(batch)
            return False
        code = _known(response.error_code)
        if code == ErrorCode.NONE:
            self._succeed(batch, response.base_offset, response.log_append_time_ms)
        elif code == ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
            self._split(batch)
        elif self._should_retry(batch, code, response.log_start_offset, now_ms):
            batch.attempts += 1
            batch.last_attempt_ms = now_ms
            batch.has_new_leader = has_moved
            self.accumulator.requeue([batch])
        elif code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._succeed(batch, -1, -1)  # the batch was written earlier, and the broker no longer knows its offset
        else:
            self._refuse(batch, response)
        return code in STALE_METADATA and not has_moved

    def expire(self, now_ms: int) -> None:
        for batch in self.accumulator.expired(now_ms):
            age_ms = now_ms - batch.created_ms
            error = KafkaTimeoutError(
                f"{batch.count} record(s) for {batch.tp} not delivered after {age_ms} ms "
                f"(delivery.timeout.ms {self._delivery_timeout_ms}, {batch.attempts} attempt(s) failed)",
                ErrorCode.REQUEST_TIMED_OUT,
            )
            self._give_up(batch, error)

    def drop_unsent(self, error: KafkaError) -> None:
        for batch in self.accumulator.take_unsent():
            self._end(batch, error)

    def drop_queued(self, error: KafkaError) -> None:
        """Fail batches that wait to be sent, for the first time or again; those in flight continue."""
        for batch in self.accumulator.take_queued():
            self._give_up(batch, error)

    def fail_all(self, error: KafkaError) -> None:
        for batch in self.accumulator.abort_all():
            self._end(batch, error)

    def _should_retry(self, batch: ProducerBatch, code: ErrorCode, log_start_offset: int, now_ms: int) -> bool:
        if now_ms >= batch.created_ms + self._delivery_timeout_ms or batch.attempts >= self._retries:
            return False
        if self.idempotence is None or not batch.has_sequence:
            return code.retriable
        return self.idempotence.should_retry(batch, code, log_start_offset)

    def _succeed(self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int) -> None:
        if self.idempotence is not None and batch.has_sequence:
            self.idempotence.completed(batch)
        batch.complete(base_offset, log_append_time_ms)
        self.accumulator.release(batch)

    def _refuse(self, batch: ProducerBatch, response: PartitionResult) -> None:
        doing = f"producing to {batch.tp}"
        error = broker_error(response.error_code, doing, response.error_message)
        single = len(response.record_errors) == 1
        each: dict[int, KafkaError] = {
            index: broker_error(
                response.error_code if single else ErrorCode.INVALID_RECORD, doing, message or response.error_message
            )
            for index, message in response.record_errors
        }
        if self.idempotence is not None and batch.has_sequence:
            # If the batch ran out of time or retries, this or an earlier attempt may have been written.
            is_given_up = _known(response.error_code).retriable or batch.attempts >= self._retries
            self.idempotence.failed(batch, certainly_not_written=not is_given_up)
        self._on_failed(error)
        batch.fail(error, each)
        self.accumulator.release(batch)

    def _give_up(self, batch: ProducerBatch, error: KafkaError) -> None:
        """Fail a batch that is not sent again, although an earlier attempt may have been written."""
        if self.idempotence is not None and batch.has_sequence:
            self.idempotence.failed(batch, certainly_not_written=False)
            self.idempotence.expired_after_sending(batch)
        self._on_failed(error)
        self._end(batch, error)

    def _end(self, batch: ProducerBatch, error: KafkaError) -> None:
        batch.fail(error)
        self.accumulator.release(batch)

    def _split(self, batch: ProducerBatch) -> None:
        """Split a batch that is too large. Its parts start with no attempts counted."""
        records = list(decode_records(batch.encode()))
        middle = len(records) // 2
        parts = []
        for position, half in enumerate((records[:middle], records[middle:])):
            number = (*batch.number, position)
            part = ProducerBatch(
                batch.tp, self._compression, batch.created_ms, 0, number, transactional=self._transactional
            )
            for record in half:
                part.append(record.timestamp_ms, record.key, record.value, record.headers)
            part.closed = True
            parts.append(part)
        if self.idempotence is not None and batch.has_sequence:
            self.idempotence.replaced(batch, parts)
        batch.split_into(parts)
        self.accumulator.replace(batch, parts)
        self.accumulator.release(batch)


def _known(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
