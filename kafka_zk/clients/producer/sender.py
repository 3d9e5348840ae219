"""Sends ready batches: the driver of the producer's cores, and the only one that uses sockets and timers.

New batches, responses, new metadata, new connections and timers each start a run, which checks everything once.
"""

from collections.abc import Callable
from typing import Any

from twisted.logger import Logger

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.connections import version_between
from kafka_zk.clients.connection.errors import KafkaError, broker_error
from kafka_zk.clients.connection.waiting import Reactor, run, sleep
from kafka_zk.clients.connection.waiting import now_ms as clock_ms
from kafka_zk.clients.producer.batch import ProducerBatch
from kafka_zk.clients.producer.completion import BatchCompletion
from kafka_zk.clients.producer.config import ProducerConfig
from kafka_zk.clients.producer.transaction_manager import TransactionManager
from kafka_zk.network.client import KafkaConnection
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.produce import (
    PartitionData,
    PartitionResult,
    ProduceRequest,
    ProduceResponse,
    TopicData,
    TopicResult,
    read_produce_response,
    write_produce_request,
)

_log = Logger()
_PURPOSE = "produce"
_NO_TIMEOUT_MS = 2**31 - 1
_PRODUCE_VERSION_MIN = 3  # the first version with magic 2
_PRODUCE_VERSION_MAX = 11
_InitProducerIdRequest = codec.request(ApiKey.INIT_PRODUCER_ID)


class Sender:
    """Moves batches between the accumulator and the brokers, on the reactor thread.

    Args:
        on_progress: called after every response: memory may have become free.
        on_fatal: called once, with the error that ends this producer.
        transactions: decides which batches may be sent; None if the producer is not transactional.
    """

    def __init__(
        self,
        reactor: Reactor,
        config: ProducerConfig,
        cluster: Cluster,
        completion: BatchCompletion,
        transactions: TransactionManager | None,
        on_progress: Callable[[], None],
        on_fatal: Callable[[KafkaError], None],
    ) -> None:
        self._reactor = reactor
        self._config = config
        self._cluster = cluster
        self._completion = completion
        self._accumulator = completion.accumulator
        self._idempotence = completion.idempotence
        self._transactions = transactions
        self._on_progress = on_progress
        self._on_fatal = on_fatal
        self._in_flight: dict[int, int] = {}
        self._connecting: set[int] = set()
        self._asking_producer_id = False
        self._was_refused_id = False
        self._timer: Any = None
        self._stopped = False
        self.wake_pending = False  # other threads check this before they call ``wake`` through the reactor

    def wake(self) -> None:
        self._run_at(self._reactor.seconds())

    def drop_unsent(self, error: KafkaError) -> None:
        self._completion.drop_unsent(error)
        self._on_progress()

    def stop(self, error: KafkaError) -> None:
        self._stopped = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._completion.fail_all(error)
        self._on_progress()

    def _run_at(self, when_s: float) -> None:
        if self._stopped:
            return
        if self._timer is not None and self._timer.active():
            if self._timer.getTime() <= when_s:
                return
            self._timer.cancel()
        self._timer = self._reactor.callLater(max(0.0, when_s - self._reactor.seconds()), self._run)

    def _run(self) -> None:
        self.wake_pending = False
        now_ms = clock_ms(self._reactor)
        self._completion.expire(now_ms)
        if self._idempotence is not None:
            self._idempotence.prepare()
            is_missing = self._idempotence.needs_producer_id and self._transactions is None
            is_wanted = not self._was_refused_id or self._accumulator.has_queued
            if is_missing and is_wanted and not self._asking_producer_id:
                self._asking_producer_id = True
                run(self._ask_producer_id())
        wake_ms = [at for at in (self._send_ready(now_ms), self._accumulator.next_expiry_ms()) if at is not None]
        if self._transactions is not None:
            self._transactions.add_new_partitions()
        if wake_ms:
            self._run_at(max(min(wake_ms), now_ms + 1) / 1000)

    def _send_ready(self, now_ms: int) -> int | None:
        may_drain = self._may_drain()
        while True:
            drained = self._accumulator.drain(
                self._cluster.metadata.leader_id,
                self._nodes_with_room(),
                may_drain,
                self._config.max_request_size,
                now_ms,
            )
            for node_id, batches in drained.requests.items():
                self._send(node_id, batches)
            if not drained.requests:
                break
        if drained.unknown_leader_topics:
            self._cluster.add_topics(sorted(drained.unknown_leader_topics))
            self._cluster.request_update()
        for node_id in sorted(drained.blocked_nodes):
            self._ensure_connection(node_id)
        return drained.next_check_ms

    def _may_drain(self) -> Callable[[ProducerBatch], bool]:
        idempotence = self._idempotence
        if idempotence is None:
            return _always
        if self._transactions is None:
            return idempotence.may_drain
        transaction = self._transactions.state
        return lambda batch: (
            transaction.may_send(batch.tp, is_retry=batch.has_sequence) and idempotence.may_drain(batch)
        )

    def _nodes_with_room(self) -> set[int]:
        limit = self._config.max_in_flight_requests_per_connection
        return {
            node_id
            for node_id in self._cluster.metadata.nodes
            if self._in_flight.get(node_id, 0) < limit and self._cluster.ready_connection(node_id, _PURPOSE) is not None
        }

    def _ensure_connection(self, node_id: int) -> None:
        if node_id in self._connecting or self._cluster.ready_connection(node_id, _PURPOSE) is not None:
            return
        self._connecting.add(node_id)
        run(self._connect(node_id))

    async def _connect(self, node_id: int) -> None:
        try:
            await self._cluster.connection(node_id, _PURPOSE)
        except Exception as error:
            if not self._stopped:
                _log.warn("broker {node_id} cannot be reached: {error}", node_id=node_id, error=error)
                self._cluster.request_update()
        finally:
            self._connecting.discard(node_id)
            self.wake()

    def _send(self, node_id: int, batches: list[ProducerBatch]) -> None:
        connection = self._cluster.ready_connection(node_id, _PURPOSE)
        assert connection is not None, "drained for a node without a connection"
        for batch in batches:
            if self._idempotence is not None:
                self._idempotence.drained(batch)
        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
        run(self._request(node_id, connection, batches))

    async def _request(self, node_id: int, connection: KafkaConnection, batches: list[ProducerBatch]) -> None:
        try:
            response = await self._exchange(connection, batches)
        except Exception as error:
            # The batches may have been written.
            if not self._stopped:
                _log.warn("a produce request to broker {node_id} failed: {error}", node_id=node_id, error=error)
            lost = PartitionResult(-1, ErrorCode.NETWORK_EXCEPTION, error_message=str(error))
            response = _same_for_all(batches, lost)
        results = {
            TopicPartition(topic, result.partition): result
            for topic, partitions in response.topics
            for result in partitions
        }
        leaders = {tp: result.current_leader for tp, result in results.items() if result.current_leader is not None}
        moved = self._cluster.learn_leaders(leaders, response.node_endpoints) if leaders else ()
        self._in_flight[node_id] -= 1
        now_ms = clock_ms(self._reactor)
        missing = PartitionResult(-1, ErrorCode.UNKNOWN_SERVER_ERROR, error_message="the response lacks the partition")
        stale = [
            self._completion.handle(each, results.get(each.tp, missing), now_ms, has_moved=each.tp in moved)
            for each in batches
        ]
        if any(stale):
            self._cluster.request_update()
        self._on_progress()
        self.wake()

    async def _exchange(self, connection: KafkaConnection, batches: list[ProducerBatch]) -> ProduceResponse:
        version = version_between(connection, ApiKey.PRODUCE, _PRODUCE_VERSION_MIN, _PRODUCE_VERSION_MAX)
        acks = self._config.required_acks
        topics: dict[str, list[PartitionData]] = {}
        for batch in batches:
            topic, partition = batch.tp
            topics.setdefault(topic, []).append(PartitionData(partition, batch.encode()))
        request = ProduceRequest(
            self._config.transactional_id,
            acks,
            self._config.request_timeout_ms,
            [TopicData(*each) for each in topics.items()],
        )
        body = await connection.send_raw(
            ApiKey.PRODUCE, version, write_produce_request(version, request), expect_response=acks != 0
        )
        if acks == 0:
            return _same_for_all(batches, PartitionResult(-1))
        return read_produce_response(version, body)

    async def _ask_producer_id(self) -> None:
        """Request a producer id. If ACLs forbid one, the queued records fail, including those that wait for a retry,
        and the next record causes another request. Source: Sender.java@3.9, shouldHandleAuthorizationError
        (KAFKA-13668).
        """
        assert self._idempotence is not None
        message = _InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TIMEOUT_MS)
        while not self._stopped:
            try:
                response = await self._cluster.request_any(ApiKey.INIT_PRODUCER_ID, message)
                if response.error_code == ErrorCode.NONE:
                    self._idempotence.set_producer_id(response.producer_id, response.producer_epoch)
                    self._was_refused_id = False
                    break
                error: KafkaError = broker_error(response.error_code, "asking for a producer id")
            except KafkaError as caught:
                error = caught
            if error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                self._was_refused_id = True
                self._completion.drop_queued(error)
                self._on_progress()
                break
            if not error.retriable:
                self._on_fatal(error)
                return
            _log.warn("no producer id yet: {error}", error=error)
            await sleep(self._reactor, self._config.retry_backoff_ms / 1000)
        self._asking_producer_id = False
        self.wake()


def _same_for_all(batches: list[ProducerBatch], result: PartitionResult) -> ProduceResponse:
    results = ((each.tp.topic, result._replace(partition=each.tp.partition)) for each in batches)
    return ProduceResponse([TopicResult(topic, [each]) for topic, each in results])


def _always(_: ProducerBatch) -> bool:
    return True
