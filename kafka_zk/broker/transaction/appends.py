"""Writes transactional ids' records to ``__transaction_state``, and returns Kafka's error codes.

Appends start in call order and wait for acks=all.

Source: TransactionStateManager.appendTransactionToLog, writeTombstonesForExpiredTransactionalIds@3.9.
"""

from collections.abc import Awaitable, Iterable

from kafka_zk.base.clock import Clock
from kafka_zk.base.types import LogAppendInfo, TopicPartition
from kafka_zk.broker.coordinator.append_errors import COORDINATOR_ERRORS, code_of
from kafka_zk.broker.replica.delayed_produce import AppendResult
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.transaction.metadata import TransactionMetadata
from kafka_zk.broker.transaction.records import encode_batch, encode_key
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.records.record_batch import RecordBatchBuilder

TOMBSTONES_TIMEOUT_MS = 30_000  # request.timeout.ms

_NONE = ErrorCode.NONE
_ERRORS = {
    **COORDINATOR_ERRORS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class TransactionLog:
    """``tp`` is always a partition of ``__transaction_state``."""

    def __init__(self, replicas: ReplicaManager, clock: Clock) -> None:
        self._replicas = replicas
        self._clock = clock

    def store(
        self, tp: TopicPartition, transactional_id: str, metadata: TransactionMetadata, now_ms: int
    ) -> ErrorCode | Awaitable[ErrorCode]:
        """Append a record. Returns NONE or the client's error, or an awaitable of it if the append is not complete."""
        batch = encode_batch(transactional_id, metadata, now_ms)
        return _outcome(
            self._replicas.append_own(tp, Log.append_own_records, batch, now_ms, max(1, metadata.timeout_ms))
        )

    def remove(self, tp: TopicPartition, transactional_ids: Iterable[str]) -> ErrorCode | Awaitable[ErrorCode]:
        """Write tombstones for at least one id, in one batch."""
        now_ms = self._clock.wall_ms()
        batch = RecordBatchBuilder()
        for each in transactional_ids:
            batch.append(now_ms, encode_key(each), None)
        records = bytearray(batch.build())
        return _outcome(self._replicas.append_own(tp, Log.append_own_batch, records, now_ms, TOMBSTONES_TIMEOUT_MS))


def _outcome(appended: AppendResult | Awaitable[AppendResult]) -> ErrorCode | Awaitable[ErrorCode]:
    if isinstance(appended, LogAppendInfo):
        return _NONE
    return _error(appended) if isinstance(appended, Exception) else _error_later(appended)


async def _error_later(appended: Awaitable[AppendResult]) -> ErrorCode:
    return _error(await appended)


def _error(result: AppendResult) -> ErrorCode:
    code = code_of(result)
    return _ERRORS.get(code, code)
