"""Writes groups' records to ``__consumer_offsets``, and returns Kafka's error codes.

Appends begin in call order and wait for acks=all, up to ``offsets.commit.timeout.ms``.
Source: GroupMetadataManager.storeGroup, maybeConvertOffsetCommitError, cleanupGroupMetadata@3.9.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import NamedTuple

from twisted.internet.defer import ensureDeferred

from kafka_zk.base.clock import Clock
from kafka_zk.base.types import LogAppendInfo, TopicPartition, new_tuple
from kafka_zk.broker.coordinator.append_errors import COORDINATOR_ERRORS, code_of
from kafka_zk.broker.coordinator.tombstones import batches_of_tombstones
from kafka_zk.broker.group.offsets_batch import OffsetsBatch
from kafka_zk.broker.group.partitions import OFFSETS_TOPIC
from kafka_zk.broker.group.records import GroupMetadataValue, OffsetKeys, encode_group_key, encode_group_value
from kafka_zk.broker.group.transactional_offsets import Producer
from kafka_zk.broker.replica.delayed_produce import AppendResult
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.files.errors import InvalidProducerEpoch, InvalidTransactionState
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.verification_state import VerificationStateEntry
from kafka_zk.storage.records.record_batch import RecordBatchBuilder

_GROUP_ERRORS = {
    **COORDINATOR_ERRORS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
_OFFSET_ERRORS = {**COORDINATOR_ERRORS, ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE}

_SETTLED = (LogAppendInfo, Exception)

_KeyAndValue = tuple[bytes, bytes | None]
Write = Callable[..., LogAppendInfo]


class OffsetsWritten(NamedTuple):
    """``record_offset``: base offset of the batch; -1 if nothing was written."""

    error: ErrorCode
    record_offset: int = -1


class Appends:
    """``partition`` is always one of ``__consumer_offsets``."""

    def __init__(self, replicas: ReplicaManager, clock: Clock, timeout_ms: int) -> None:
        self._replicas = replicas
        self._clock = clock
        self._timeout_ms = timeout_ms

    async def store_group(self, partition: int, group_id: str, value: GroupMetadataValue) -> ErrorCode:
        """Write a group's record; returns NONE, or the error for members."""
        result = await self._append(partition, [(encode_group_key(group_id), encode_group_value(value))])
        code = code_of(result)
        return _GROUP_ERRORS.get(code, code)

    def store_offsets(
        self,
        partition: int,
        batch: OffsetsBatch,
        producer: Producer | None = None,
        guard: VerificationStateEntry | None = None,
    ) -> OffsetsWritten | Awaitable[OffsetsWritten]:
        """Write a non-empty batch of committed offsets. Await the result if the append is not complete.

        Args:
            producer: the transaction's producer, if the offsets belong to a transaction.
            guard: the guard that the transaction's verification returned.
        """
        if producer is None:
            write: Write = Log.append_own_records
        else:
            write = partial(Log.append_own_batch, guard=guard)
        appended = self._append_batch(partition, batch.build(producer), batch.now_ms, write)
        return _offsets_written(appended) if isinstance(appended, _SETTLED) else _offsets_written_later(appended)

    async def remove(
        self, partition: int, group_id: str, offsets: Iterable[TopicPartition], *, with_group: bool
    ) -> ErrorCode:
        """Write tombstones for offsets and for the group itself. Returns the first error; a later cleanup retries."""
        encode = OffsetKeys(group_id).encode
        keys = [encode(tp) for tp in offsets]
        if with_group:
            keys.append(encode_group_key(group_id))
        # All appends begin now, because a tombstone appended after the next commit would remove that commit.
        begun = [
            ensureDeferred(self._append(partition, [(key, None) for key in part]))
            for part in batches_of_tombstones(keys, bytes)
        ]
        codes = [code_of(await each) for each in begun]
        return next((code for code in codes if code is not ErrorCode.NONE), ErrorCode.NONE)

    async def _append(self, partition: int, records: Iterable[_KeyAndValue]) -> AppendResult:
        now_ms = self._clock.wall_ms()
        batch = RecordBatchBuilder()
        for key, value in records:
            batch.append(now_ms, key, value)
        appended = self._append_batch(partition, bytearray(batch.build()), now_ms, Log.append_own_records)
        return appended if isinstance(appended, _SETTLED) else await appended

    def _append_batch(
        self, partition: int, batch: bytearray, now_ms: int, write: Write
    ) -> AppendResult | Awaitable[AppendResult]:
        tp = new_tuple(TopicPartition, (OFFSETS_TOPIC, partition))
        return self._replicas.append_own(tp, write, batch, now_ms, self._timeout_ms)


async def _offsets_written_later(appended: Awaitable[AppendResult]) -> OffsetsWritten:
    return _offsets_written(await appended)


def _offsets_written(result: AppendResult) -> OffsetsWritten:
    if isinstance(result, LogAppendInfo):
        return OffsetsWritten(ErrorCode.NONE, result.first_offset)
    if isinstance(result, InvalidProducerEpoch):
        return OffsetsWritten(ErrorCode.INVALID_PRODUCER_EPOCH)
    if isinstance(result, InvalidTransactionState):
        return OffsetsWritten(ErrorCode.INVALID_TXN_STATE)
    code = code_of(result)
    return OffsetsWritten(_OFFSET_ERRORS.get(code, code))
