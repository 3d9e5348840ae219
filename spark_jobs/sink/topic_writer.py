"""Writes of a DataFrame to topics; each task has its own producer.

Like Spark's own sink, a write is at least once: all records of a task are acknowledged when it ends, and a retried task
writes them again. With ``transactionalIdPrefix``, a task fills a transaction and leaves it open; the job's commit, in
the driver, commits all transactions in sequence.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kafka_zk.base.randomness import SYSTEM_RANDOM, random_uuid
from kafka_zk.spark_jobs.errors import OptionError, WriteFailed, reason_only
from kafka_zk.spark_jobs.sink.write_options import COLUMNS, WriteOptions


@dataclass
class Written(WriterCommitMessage):
    """``prepared``: transactional id, producer id and epoch of the task's open transaction; None if it has none."""

    records: int
    prepared: tuple[str, int, int] | None


class TopicWriter(DataSourceArrowWriter):
    """``job``: the common part of its transactional ids; by default a unique name."""

    def __init__(self, options: WriteOptions, job: str | None = None) -> None:
        self._options = options
        self._job = job or random_uuid(SYSTEM_RANDOM).hex[:12]

    def write(self, iterator: Iterator[Any]) -> Written:
        """Write one task's rows, in an executor. Raises WriteFailed, OptionError."""
        with reason_only(), _told():
            return _written(self._options, self._job, iterator)

    def commit(self, messages: Sequence[Any]) -> None:
        """Commit all transactions, in the driver. Raises WriteFailed; then some may be committed."""
        with reason_only(), _told():
            _end(self._options, messages, is_committed=True)

    def abort(self, messages: Sequence[Any]) -> None:
        """Abort all transactions; the coordinator aborts those that remain after ``transaction.timeout.ms``."""
        with reason_only(), _told():
            _end(self._options, messages, is_committed=False)


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """The writer of one batch of a stream. With ``checkpointLocation`` the job name stays the same, so that a retried
    task aborts its earlier transaction and the number of ids is bounded.
    """

    def __init__(self, options: WriteOptions) -> None:
        checkpoint = options.checkpoint
        job = None if checkpoint is None else hashlib.sha256(checkpoint.encode()).hexdigest()[:12]
        self._batch = TopicWriter(options, job)

    def write(self, iterator: Iterator[Any]) -> Written:
        return self._batch.write(iterator)

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        self._batch.commit(messages)

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        self._batch.abort(messages)


@contextmanager
def _told() -> Iterator[None]:
    from kafka_zk.clients.connection.errors import KafkaError

    try:
        yield
    except KafkaError as error:
        raise WriteFailed(str(error)) from error


def _written(options: WriteOptions, job: str, batches: Iterator[Any]) -> Written:
    from pyspark import TaskContext

    from kafka_zk.clients.producer.blocking import BlockingProducer
    from kafka_zk.clients.producer.transaction_scope import may_be_aborted

    properties = {name.replace(".", "_"): value for name, value in options.producer.items()}
    if options.transactional_id_prefix is None:
        with BlockingProducer(None, **properties) as producer:
            return Written(_send_all(producer, options.topic, batches), None)
    context = TaskContext.get()
    assert context is not None, "tasks have one"
    # Attempts of a task share the id: another attempt aborts this one's transaction and fences its producer.
    properties["transactional_id"] = f"{options.transactional_id_prefix}-{job}-{context.partitionId()}"
    with BlockingProducer(None, **properties) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        try:
            records = _send_all(producer, options.topic, batches)
            prepared = producer.prepare_transaction()
        except Exception as error:
            if may_be_aborted(error):
                producer.abort_transaction()  # otherwise readers wait for its timeout
            raise
    return Written(records, prepared and (prepared.transactional_id, prepared.producer_id, prepared.epoch))


def _send_all(producer: Any, topic: str | None, batches: Iterator[Any]) -> int:
    """Send all rows; return their number when all are acknowledged."""
    count = 0
    sent: list[Any] = []
    for batch in batches:
        before, sent = sent, list(_send(producer, topic, batch))
        count += len(sent)
        _wait(before)  # while this waits, the brokers handle the newer rows
    producer.flush()
    _wait(sent)
    return count


def _wait(futures: Sequence[Any]) -> None:
    for future in futures:
        future.result()


def _send(producer: Any, default_topic: str | None, batch: Any) -> Iterator[Any]:
    nothing = [None] * batch.num_rows
    present = set(batch.schema.names)
    columns = [batch.column(name).to_pylist() if name in present else nothing for name in COLUMNS]
    for key, value, topic, partition, headers in zip(*columns, strict=True):
        target = default_topic if default_topic is not None else topic
        if target is None:
            raise OptionError(
                "a row has no topic, because its column 'topic' is null: set the option 'topic' to use one for all rows"
            )
        pairs = tuple((each["key"], each["value"]) for each in headers or ())
        yield producer.send(target, _as_bytes(value), _as_bytes(key), partition, headers=pairs)


def _as_bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _end(options: WriteOptions, messages: Sequence[Any], *, is_committed: bool) -> None:
    from kafka_zk.clients.producer.prepared_transaction import PreparedTransaction, end_transactions_blocking

    prepared = [PreparedTransaction(*each.prepared) for each in messages if each is not None and each.prepared]
    if prepared:
        properties = {name.replace(".", "_"): value for name, value in options.producer.items()}
        end_transactions_blocking(prepared, is_committed=is_committed, **properties)
