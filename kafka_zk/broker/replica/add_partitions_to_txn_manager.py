"""Asks coordinators whether partitions are in a transaction (AddPartitionsToTxn, verify only, KIP-890).

This broker's own transactions are verified immediately. Each other broker gets one request at a time, with only the
newest question for each transactional id.

Source: AddPartitionsToTxnManager.scala@3.9.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from kafka_zk.base.types import TopicPartition, partitions_by_topic
from kafka_zk.broker.replica.transaction_verification import RefusedPartitions, TransactionToVerify
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode

_BETWEEN_BROKERS_SINCE = 4
_HIGHEST_VERSION = 5

_log = Logger()
_Request: Any = codec.request(ApiKey.ADD_PARTITIONS_TO_TXN)
_Transaction = _Request.AddPartitionsToTxnTransaction
_Topic = _Transaction.AddPartitionsToTxnTopic

Verify = Callable[[TransactionToVerify, Sequence[TopicPartition]], RefusedPartitions]
"""The verification on this broker. Returns partitions outside the transaction, and why."""


class CoordinatorConnection(Protocol):
    """The methods of ``KafkaConnection`` that verification uses."""

    @property
    def connected_to_broker(self) -> bool: ...

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]: ...

    def request(self, api_key: int, message: Any, *, version: int) -> Awaitable[Any]: ...

    def disconnect(self) -> object: ...


class _Question(NamedTuple):
    transaction: TransactionToVerify
    tps: Sequence[TopicPartition]
    answered: "Deferred[RefusedPartitions]"

    def answer_all(self, code: ErrorCode) -> None:
        self.answered.callback(dict.fromkeys(self.tps, code))


class AddPartitionsToTxnManager:
    """Sends this broker's verification requests.

    Args:
        coordinator_of: broker id for a transactional id, if known.
        connect: connects to another broker; may raise any exception.
        verify: used if this broker is the coordinator.
    """

    def __init__(
        self,
        broker_id: int,
        coordinator_of: Callable[[str], int | None],
        connect: Callable[[int], Awaitable[CoordinatorConnection]],
        verify: Verify,
    ) -> None:
        self._broker_id = broker_id
        self._verify = verify
        self._coordinator_of = coordinator_of
        self._connect = connect
        self._waiting: dict[int, dict[str, _Question]] = {}  # by broker id and transactional id
        self._busy: set[int] = set()
        self._connections: dict[int, CoordinatorConnection] = {}
        self._is_closed = False

    def ask(
        self, transaction: TransactionToVerify, tps: Sequence[TopicPartition]
    ) -> RefusedPartitions | Awaitable[RefusedPartitions]:
        """Return the partitions outside the transaction, with the reasons. Returns an awaitable if another broker must
        be asked. Never raises."""
        coordinator = self._coordinator_of(transaction.transactional_id)
        if coordinator is None or self._is_closed:
            return dict.fromkeys(tps, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if coordinator == self._broker_id:
            return _told(self._verify(transaction, tps), transaction)
        waiting = self._waiting.setdefault(coordinator, {})
        before = waiting.get(transaction.transactional_id)
        if before is not None and before.transaction.producer_epoch > transaction.producer_epoch:
            return dict.fromkeys(tps, ErrorCode.INVALID_PRODUCER_EPOCH)
        question = _Question(transaction, tps, Deferred())
        waiting[transaction.transactional_id] = question
        if before is not None:  # the older question's client can retry now
            is_older = before.transaction.producer_epoch < transaction.producer_epoch
            before.answer_all(ErrorCode.INVALID_PRODUCER_EPOCH if is_older else ErrorCode.NETWORK_EXCEPTION)
        if coordinator not in self._busy:
            self._busy.add(coordinator)
            ensureDeferred(self._run(coordinator))
        return question.answered

    def close(self) -> None:
        """Answer waiting questions with COORDINATOR_NOT_AVAILABLE."""
        self._is_closed = True
        for connection in self._connections.values():
            connection.disconnect()
        self._connections.clear()
        waiting, self._waiting = self._waiting, {}
        for questions in waiting.values():
            for question in questions.values():
                question.answer_all(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def _run(self, broker_id: int) -> None:
        while questions := self._waiting.pop(broker_id, None):
            try:
                answers = await self._exchange(broker_id, questions)
            except Exception as error:  # the broker has not responded
                _log.warn("broker {id} does not verify transactions: {error}", id=broker_id, error=error)
                answers = _all_refused(questions, ErrorCode.NETWORK_EXCEPTION)
            for transactional_id, question in questions.items():
                unanswered = dict.fromkeys(question.tps, ErrorCode.NETWORK_EXCEPTION)
                question.answered.callback(answers.get(transactional_id, unanswered))
        self._busy.discard(broker_id)

    async def _exchange(self, broker_id: int, questions: Mapping[str, _Question]) -> Mapping[str, RefusedPartitions]:
        connection = await self._connected(broker_id)
        lowest, highest = connection.versions.get(ApiKey.ADD_PARTITIONS_TO_TXN, (0, -1))
        version = min(highest, _HIGHEST_VERSION)
        if version < max(lowest, _BETWEEN_BROKERS_SINCE):
            _log.warn("broker {id} is too old to verify transactions: they are not verified", id=broker_id)
            return {name: {} for name in questions}
        message = _Request(transactions=[_message(each) for each in questions.values()])
        response = await connection.request(ApiKey.ADD_PARTITIONS_TO_TXN, message, version=version)
        if response.error_code:
            code = ErrorCode.of(response.error_code)
            _log.error("broker {id} does not verify transactions: {code}", id=broker_id, code=code.name)
            is_secret = code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED  # a permission that only brokers need
            return _all_refused(questions, ErrorCode.INVALID_TXN_STATE if is_secret else code)
        return {
            result.transactional_id: _refused(result, questions[result.transactional_id].transaction)
            for result in response.results_by_transaction
            if result.transactional_id in questions
        }

    async def _connected(self, broker_id: int) -> CoordinatorConnection:
        known = self._connections.get(broker_id)
        if known is not None and known.connected_to_broker:
            return known
        connection = await self._connect(broker_id)
        if self._is_closed:
            connection.disconnect()
            raise ConnectionError("the broker stops")
        self._connections[broker_id] = connection
        return connection


def _all_refused(questions: Mapping[str, _Question], code: ErrorCode) -> dict[str, RefusedPartitions]:
    return {name: dict.fromkeys(question.tps, code) for name, question in questions.items()}


def _message(question: _Question) -> Any:
    topics = partitions_by_topic(question.tps)
    transaction = question.transaction
    return _Transaction(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        verify_only=True,
        topics=[_Topic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )


def _refused(result: Any, transaction: TransactionToVerify) -> RefusedPartitions:
    codes: RefusedPartitions = {}
    for topic in result.topic_results:
        for told in topic.results_by_partition:
            code = ErrorCode.of(told.partition_error_code)
            if code is not ErrorCode.NONE:
                codes[TopicPartition(topic.name, told.partition_index)] = code
    return _told(codes, transaction)


def _told(refused: RefusedPartitions, transaction: TransactionToVerify) -> RefusedPartitions:
    return {tp: _as_producers_know_it(code, transaction) for tp, code in refused.items()} if refused else refused


def _as_producers_know_it(code: ErrorCode, transaction: TransactionToVerify) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not transaction.knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
