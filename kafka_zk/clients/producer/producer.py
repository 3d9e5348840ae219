"""The producer for Twisted programs; ``blocking`` is the version for threads."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any

from twisted.internet.defer import Deferred, fail

from kafka_zk.base.clock import Clock, SystemClock
from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.errors import BufferExhausted, ClientClosed, KafkaError, KafkaTimeoutError
from kafka_zk.clients.connection.group_coordinator import ConsumerGroupMetadata
from kafka_zk.clients.connection.metadata import TopicMetadata
from kafka_zk.clients.connection.waiting import Reactor, Signal, now_ms, run, sleep
from kafka_zk.clients.producer.batch import ProducerBatch
from kafka_zk.clients.producer.completion import BatchCompletion
from kafka_zk.clients.producer.config import ProducerConfig
from kafka_zk.clients.producer.errors import IllegalTransactionState, TransactionAborted
from kafka_zk.clients.producer.future import RecordFuture, RecordMetadata
from kafka_zk.clients.producer.idempotence import Idempotence
from kafka_zk.clients.producer.intake import Missing, RecordIntake
from kafka_zk.clients.producer.prepared_transaction import PreparedTransaction
from kafka_zk.clients.producer.producer_record import ProducerRecord
from kafka_zk.clients.producer.record_accumulator import RecordAccumulator
from kafka_zk.clients.producer.sender import Sender
from kafka_zk.clients.producer.transaction_manager import Batches, TransactionManager
from kafka_zk.clients.producer.transaction_scope import TransactionScope
from kafka_zk.clients.producer.transaction_state import State, TransactionState
from kafka_zk.clients.producer.waiting_records import WaitingRecords
from kafka_zk.network.client import Connect, connect
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.records.record_batch import Header

_TURN_S = 0.01  # maximum time for which send_all blocks the reactor


class Producer:
    """Sends records to a cluster in batches, on the reactor thread.

    Records of one partition are written in the order of the calls (with idempotence, the default, or with one request
    in flight). ``Producer(reactor, bootstrap_servers="h:9092", linger_ms=5)`` takes Kafka's keys with ``_`` for ``.``,
    or a ProducerConfig.

    Three ways to send:

    - ``send`` returns a Deferred for each record and waits for metadata, partition and buffer memory
      (``max.block.ms``);
    - ``send_nowait`` accepts a record immediately or raises; its future costs almost nothing;
    - ``send_all`` sends an iterable, respects ``buffer.memory``, yields to the reactor, and returns when all records
      are acknowledged.

    With a ``transactional_id``, records can be sent only in transactions, after ``await
    producer.init_transactions()``::

        async with producer.transaction():
            producer.send(...)
            await producer.send_offsets({tp: next_offset}, consumer.group_metadata())

    Consumers with isolation.level=read_committed see all records of a transaction or none. ``producer.errors`` (the
    module) says how to handle each exception.

    Raises: ConfigError naming the key and the allowed values.
    """

    def __init__(
        self,
        reactor: Reactor,
        config: ProducerConfig | None = None,
        *,
        connect: Connect = connect,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        self._reactor = reactor
        self.config = ProducerConfig.given(config, options)
        self._cluster = Cluster(reactor, self.config, allow_auto_topic_creation=True, connect=connect)
        self.accumulator = RecordAccumulator(self.config, partial(now_ms, reactor))
        self.intake = RecordIntake(self._cluster, self.accumulator, self.config, clock or SystemClock(reactor))
        self._waiting = WaitingRecords(reactor, self.config.max_block_ms, self._try, self.wait_for, self.not_taken)
        is_transactional = self.config.transactional_id is not None
        idempotence = Idempotence(transactional=is_transactional) if self.config.idempotent else None
        self._transactions = self._transaction_manager(idempotence)
        completion = BatchCompletion(self.accumulator, idempotence, self.config, self._on_failed)
        self.sender = Sender(
            reactor, self.config, self._cluster, completion, self._transactions, self._on_progress, self._on_fatal
        )
        self.accumulator.on_work = self.sender.wake
        self._cluster.on_update.append(self.sender.wake)
        self._room = Signal(reactor)
        self._closing = False
        self._failure: KafkaError | None = None
        self.on_progress: list[Callable[[], None]] = []  # called after every response of a broker

    # --- sending ---

    def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
    ) -> "Deferred[RecordMetadata]":
        """Send one record; the Deferred fires with the record's place when the broker has acknowledged the record.

        Records of a topic that wait here for metadata or buffer memory keep their order; those for a partition that
        does not exist yet delay no others. Fails with KafkaTimeoutError or BufferExhausted after ``max.block.ms``, or
        with KafkaError if the record is rejected. A transaction with a failed record can only be aborted.
        """
        if self._closing:
            return fail(ClientClosed("the producer was closed"))
        if self.intake.refusal is not None:
            return fail(self.intake.refusal)
        record = ProducerRecord(value, key, partition, timestamp_ms, headers)
        if not self._waiting.has_queue(topic):
            taken = self._try(topic, record)
            if isinstance(taken, Deferred):
                return taken
        return self._waiting.add(topic, record)

    def send_nowait(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
    ) -> RecordFuture:
        """Accept one record without waiting for space. Await the future, check it later, or drop it and call
        ``flush()``.

        Raises: BufferExhausted if ``buffer.memory`` is full (``await ready(topic)``, then try again); KafkaError if the
        topic's metadata are unknown (``await ready(topic)`` before the first record) or lack the partition (they are
        then fetched again), or if the record is rejected. Only a rejected record makes an open transaction abortable;
        after the other errors, try again.
        """
        if self._closing:
            raise ClientClosed("the producer was closed")
        if self._waiting.has_queue(topic):
            raise BufferExhausted(f"records of {topic} are waiting already; await ready({topic!r}) first")
        try:
            taken = self.intake.offer(topic, value, key, partition, timestamp_ms, headers)
        except KafkaError as error:
            self.not_taken(error)
            raise
        if isinstance(taken, RecordFuture):
            return taken
        if taken is Missing.ROOM:
            raise BufferExhausted(f"buffer.memory ({self.config.buffer_memory} bytes) is full")
        if taken is Missing.PARTITION:
            self._cluster.request_update()
            raise KafkaError(f"{taken.value}: {topic}-{partition}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        raise KafkaError(f"{taken.value}: {topic}", ErrorCode.LEADER_NOT_AVAILABLE)

    async def ready(self, topic: str) -> TopicMetadata:
        """Wait until the topic's metadata are known and there is memory for a batch. Returns the metadata.

        Raises: KafkaTimeoutError, BufferExhausted after ``max.block.ms``; KafkaError if closed.
        """
        self._check_open()
        deadline_s = self._reactor.seconds() + self.config.max_block_ms / 1000
        found = await self._cluster.topic(topic, self.config.max_block_ms)
        while self.accumulator.exhausted:
            await self._wait_for_room(deadline_s)
            self._check_open()
        return found

    async def wait_for(self, missing: Missing, topic: str, partition: int | None, timeout_s: float) -> None:
        """Wait for at most ``timeout_s`` until a record that could not be accepted may be offered again.

        Raises: KafkaTimeoutError, BufferExhausted; BrokerError immediately for a topic that brokers reject;
        ClientClosed.
        """
        timeout_ms = max(0, ceil(timeout_s * 1000))
        if missing is Missing.METADATA:
            await self._cluster.topic(topic, timeout_ms)
        elif missing is Missing.ROOM:
            await self._wait_for_room(self._reactor.seconds() + timeout_s)
        else:
            assert partition is not None, "only a partition that was asked for can be missing"
            tp = TopicPartition(topic, partition)
            if not await self._cluster.until_partition(tp, timeout_ms):
                raise self._no_partition(tp)

    def not_taken(self, error: Exception, begun_count: int | None = None) -> None:
        """A record was rejected with ``error``: the open transaction can only be aborted. ``begun_count``: its value
        when ``send`` was called; later transactions are unaffected.
        """
        manager = self._transactions
        if manager is None or manager.state.state is not State.IN_TRANSACTION:
            return
        if begun_count in (None, self.begun_count):
            manager.not_sent(error if isinstance(error, KafkaError) else KafkaError(f"{type(error).__name__}: {error}"))

    @property
    def begun_count(self) -> int:
        """Number of transactions begun. Any thread may read it."""
        return 0 if self._transactions is None else self._transactions.state.begun_count

    def check_begun(self, begun_count: int) -> None:
        """Raise TransactionAborted if a transaction was begun after ``begun_count``. Any thread may call it."""
        if begun_count != self.begun_count:
            raise TransactionAborted("not sent: its transaction ended while it waited")

    async def send_all(self, topic: str, records: Iterable[ProducerRecord]) -> int:
        """Send all records of an iterable and wait for their acknowledgement. Returns their number.

        Waits for buffer memory without a separate time limit, because ``delivery.timeout.ms`` bounds earlier batches.
        Waits up to ``max.block.ms`` for a partition that does not exist yet.

        Raises: the first KafkaError of a record; records after a rejected batch may have been written.
        """
        begun_count = self.begun_count
        try:
            await self.ready(topic)
            count, batches = await self._take_all(topic, records, begun_count)
        except Exception as error:
            self.not_taken(error, begun_count)
            raise
        await self._all_done(list(batches))
        _undelivered(batches)
        return count

    async def flush(self) -> None:
        """Send everything now and wait until each earlier record is acknowledged or has failed."""
        await self._waiting.until_gone()
        batches = self.accumulator.begin_flush()
        self.sender.wake()
        try:
            await self._all_done(batches)
        finally:
            self.accumulator.end_flush()

    # --- transactions ---

    async def init_transactions(self) -> None:
        """Acquire the ``transactional.id``, once and before everything else. Fences an earlier producer and aborts its
        open transaction.

        Raises: KafkaTimeoutError after ``max.block.ms``, or BrokerError if ACLs refuse a producer id (then call it
        again); TransactionFatal (a transaction timeout above the broker's); IllegalTransactionState, also without a
        ``transactional.id``, as all of these methods do.
        """
        await self._transactional().initialize()

    def begin_transaction(self) -> None:
        """Begin a transaction of the records sent from now on. Raises IllegalTransactionState, TransactionFatal."""
        self._transactional().begin()

    async def commit_transaction(self) -> None:
        """Send all records and commit the transaction. When this returns, the commit is decided; readers see it a
        moment later.

        Raises: TransactionAbortable (a record was not written: abort), ProducerFenced, TransactionFatal;
        KafkaTimeoutError after ``max.block.ms``: call it again.
        """
        await self._transactional().commit()

    async def abort_transaction(self) -> None:
        """Abort the transaction. Records that were not sent yet fail with TransactionAborted.

        Raises: ProducerFenced, TransactionFatal; KafkaTimeoutError after ``max.block.ms``: call it again.
        """
        await self._transactional().abort()

    async def prepare_transaction(self) -> PreparedTransaction | None:
        """Send all records and leave the transaction open for ``prepared_transaction.end_transactions``, perhaps in
        another process. This producer can then only abort it or be closed. None if the transaction is empty.

        Raises: TransactionAbortable (a record was not written: abort), ProducerFenced, TransactionFatal;
        KafkaTimeoutError after ``max.block.ms``: call it again.
        """
        return await self._transactional().prepare()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int], group: ConsumerGroupMetadata | str
    ) -> None:
        """Commit a group's offsets (the next ones to consume) as part of the transaction.

        Args:
            group: ``consumer.group_metadata()``, or the name of a group without members.
        Raises: TransactionAbortable if the member is no longer in its generation; ProducerFenced, TransactionFatal;
        KafkaTimeoutError after ``max.block.ms``.
        """
        is_alone = isinstance(group, str)
        metadata = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        await self._transactional().send_offsets(offsets, metadata, is_alone=is_alone)

    def transaction(self) -> TransactionScope:
        """``async with producer.transaction():`` begins a transaction, commits it at the end, and aborts it after an
        exception.

        Raises: TransactionAbortable after the abort (the same work may be tried again), and the other errors of
        ``commit_transaction``.
        """
        return TransactionScope(self)

    async def partitions_for(self, topic: str) -> TopicMetadata:
        """The topic's metadata. Waits for the topic to exist, for at most ``max.block.ms``."""
        self._check_open()
        return await self._cluster.topic(topic, self.config.max_block_ms)

    async def close(self, timeout_s: float | None = None) -> None:
        """Refuse new records, deliver accepted ones, and stop.

        Delivery may take ``timeout_s`` (None: ``delivery.timeout.ms``). Records that are not delivered by then fail
        with ClientClosed. A second close does nothing.
        """
        if self._closing:
            return
        self._closing = True
        error = ClientClosed("the producer was closed")
        await self._abort_open(timeout_s)
        flushed = run(self.flush())
        if timeout_s is not None:
            flushed.addTimeout(max(timeout_s, 1e-3), self._reactor)
        flushed.addErrback(lambda _: None)  # after a timeout, stop() below fails the remaining records
        await flushed
        self.intake.refusal = error
        self._waiting.fail_all(error)
        self.sender.stop(error)
        self._room.fire()
        if self._transactions is not None:
            self._transactions.close()
        await self._cluster.close()

    # --- internals ---

    def _transaction_manager(self, idempotence: Idempotence | None) -> TransactionManager | None:
        if self.config.transactional_id is None:
            return None
        assert idempotence is not None, "the configuration sees to that"

        def drop_unsent() -> None:
            self._drop_unsent(TransactionAborted("not sent: its transaction is aborted"))

        def wake() -> None:
            self.sender.wake()

        state = TransactionState()
        self.intake.refusal = IllegalTransactionState(state.refusal)
        batches = Batches(self.flush, self._waiting.is_empty, drop_unsent, wake, self._transaction_changed)
        return TransactionManager(self._reactor, self.config, self._cluster, idempotence, state, batches)

    def _transactional(self) -> TransactionManager:
        if self._closing:
            raise ClientClosed("the producer was closed")
        if self._transactions is None:
            raise IllegalTransactionState("this producer has no transactional.id")
        return self._transactions

    def _transaction_changed(self) -> None:
        assert self._transactions is not None
        state = self._transactions.state
        if state.state is State.FATAL:
            assert state.error is not None, "every fatal state has its error"
            self._on_fatal(state.error)
        elif not self._closing:
            is_open = state.state is State.IN_TRANSACTION
            self.intake.refusal = None if is_open else state.error or IllegalTransactionState(state.refusal)
            if state.state is State.ABORTABLE:
                self._drop_unsent(TransactionAborted(f"not sent: {state.error}"))

    def _drop_unsent(self, error: KafkaError) -> None:
        self._waiting.fail_all(error)
        self.sender.drop_unsent(error)

    async def _abort_open(self, timeout_s: float | None) -> None:
        manager = self._transactions
        if manager is None:
            return
        if manager.state.state not in (State.IN_TRANSACTION, State.ABORTABLE):
            return
        self.intake.refusal = ClientClosed("the producer was closed")
        aborted = run(manager.abort())
        if timeout_s is not None:
            aborted.addTimeout(max(timeout_s, 1e-3), self._reactor)
        aborted.addErrback(lambda _: None)  # the coordinator aborts it after transaction.timeout.ms
        await aborted

    def _check_open(self) -> None:
        if self._closing:
            raise ClientClosed("the producer was closed")
        if self._failure is not None:
            raise self._failure

    def _try(self, topic: str, record: ProducerRecord) -> "Deferred[RecordMetadata] | Missing":
        result: Deferred[RecordMetadata] = Deferred()
        try:
            taken = self.intake.offer(topic, *record)
        except Exception as error:
            self.not_taken(error)
            result.errback(error)
            return result
        if isinstance(taken, Missing):
            return taken
        taken.batch.add_listener(partial(_settle, result, taken))
        return result

    async def _take_all(
        self, topic: str, records: Iterable[ProducerRecord], begun_count: int
    ) -> tuple[int, dict[ProducerBatch, None]]:
        self.check_begun(begun_count)
        count = 0
        batches: dict[ProducerBatch, None] = {}
        turn_end_s = self._reactor.seconds() + _TURN_S
        offer = self.intake.offer
        for value, key, partition, timestamp_ms, headers in records:
            taken = offer(topic, value, key, partition, timestamp_ms, headers)
            while not isinstance(taken, RecordFuture):
                await self._until_there(topic, partition, taken)
                self.check_begun(begun_count)
                taken = offer(topic, value, key, partition, timestamp_ms, headers)
            count += 1
            if taken.batch not in batches:
                batches[taken.batch] = None
                if self._reactor.seconds() >= turn_end_s:
                    batches = _undelivered(batches)
                    await sleep(self._reactor, 0)
                    self.check_begun(begun_count)
                    turn_end_s = self._reactor.seconds() + _TURN_S
        return count, batches

    async def _until_there(self, topic: str, partition: int | None, missing: Missing) -> None:
        if missing is Missing.ROOM:
            self.sender.wake()
            await self._room.wait()
        else:
            await self.wait_for(missing, topic, partition, self.config.max_block_ms / 1000)

    def _no_partition(self, tp: TopicPartition) -> KafkaTimeoutError:
        count = len(self._cluster.metadata.topics[tp.topic].partitions)
        return KafkaTimeoutError(
            f"partition {tp.partition} of topic {tp.topic} with {count} partition(s) is not in the metadata "
            f"after {self.config.max_block_ms} ms (max.block.ms)",
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )

    async def _wait_for_room(self, deadline_s: float) -> None:
        self.sender.wake()
        if not await self._room.wait_until(deadline_s):
            raise BufferExhausted(
                f"buffer.memory ({self.config.buffer_memory} bytes) had no room for {self.config.max_block_ms} ms"
            )

    @staticmethod
    async def _all_done(batches: Sequence[ProducerBatch]) -> None:
        remaining = len(batches)
        if not remaining:
            return
        finished: Deferred[None] = Deferred()

        def one_done() -> None:
            nonlocal remaining
            remaining -= 1
            if remaining == 0 and not finished.called:
                finished.callback(None)

        for batch in batches:
            batch.add_listener(one_done)
        await finished

    def _on_progress(self) -> None:
        self._room.fire()
        for listener in self.on_progress:
            listener()

    def _on_failed(self, error: KafkaError) -> None:
        if self._transactions is not None:
            self._transactions.failed(error)

    def _on_fatal(self, error: KafkaError) -> None:
        if self._failure is None:
            self._failure = self.intake.refusal = error
        self._waiting.fail_all(error)
        self.sender.stop(error)


def _settle(result: "Deferred[RecordMetadata]", future: RecordFuture) -> None:
    try:
        metadata = future.value()
    except KafkaError as error:
        result.errback(error)
    else:
        result.callback(metadata)


def _undelivered(batches: dict[ProducerBatch, None]) -> dict[ProducerBatch, None]:
    for part in (part for batch in batches if batch.done for part in batch.leaves()):
        if part.error is not None:
            raise part.error
    return {batch: None for batch in batches if not batch.done}
