"""A Produce with transactional batches: authorization, and verification by the coordinator.

Source: KafkaApis.handleProduceRequest, ReplicaManager.handleProduceAppend@3.9.
Tests: tests/kafka_zk/broker/handlers/transactions/test_transactions_in_logs.py.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.replica.delayed_produce import AppendResult, DelayedProduce
from kafka_zk.broker.replica.transaction_verification import TransactionToVerify, refusal
from kafka_zk.broker.security.authorizer import Operation
from kafka_zk.broker.security.authorizer import transactional_id as as_resource
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.produce import PartitionResult, ProduceRequest, TopicResult
from kafka_zk.protocol.request import RequestContext
from kafka_zk.storage.log.verification_state import Guards
from kafka_zk.storage.records.record_batch import HEADER_SIZE, TRANSACTIONAL_FLAG, BatchHeader, Buffer, read_header

T = TypeVar("T")

_ABORTABLE_SINCE = 11
_WRITE = Operation.WRITE
_FORBIDDEN = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def append(
    services: Services,
    context: RequestContext,
    version: int,
    request: ProduceRequest,
    batches: Sequence[tuple[TopicPartition, memoryview]],
) -> list[AppendResult] | DelayedProduce:
    """Like ``ReplicaManager.append_records``, after verifying transactions that are new to a partition."""
    wanted = request.transactional_id
    assert wanted is not None
    headers = {tp: header for tp, records in batches if (header := _transactional_header(records)) is not None}
    refused_all = _refusal(services, context, wanted, headers.values())
    if refused_all is not None:
        return [refused_all for _ in batches]
    verified = None
    if headers and services.replicas.verification is not None:
        first, knows_abortable = next(iter(headers.values())), version >= _ABORTABLE_SINCE
        transaction = TransactionToVerify(wanted, first.producer_id, first.producer_epoch, knows_abortable)
        sequences = {tp: header.base_sequence for tp, header in headers.items()}
        verified = await services.replicas.verification.verify(transaction, sequences)
    if verified is None:
        guards: Guards = dict.fromkeys(headers)
        return await services.replicas.append_records(batches, request.acks, guards)
    if not verified.refused:
        return await services.replicas.append_records(batches, request.acks, verified.guards)
    allowed = [batch for batch in batches if batch[0] not in verified.refused]
    result = await services.replicas.append_records(allowed, request.acks, verified.guards)
    tps = [tp for tp, _ in batches]
    if isinstance(result, DelayedProduce):
        return DelayedProduce(tps, _with_refused(tps, result.results, verified.refused))
    return _with_refused(tps, result, verified.refused)


def _with_refused(
    tps: Sequence[TopicPartition], appended: Iterable[T], refused: Mapping[TopicPartition, ErrorCode]
) -> list[T | ApiError]:
    remaining = iter(appended)
    return [refusal(refused[tp]) if tp in refused else next(remaining) for tp in tps]


def _refusal(
    services: Services, context: RequestContext, wanted: str, headers: Collection[BatchHeader]
) -> ApiError | None:
    if headers and not services.authorizer.authorize(context, _WRITE, as_resource(wanted)):
        return ApiError(_FORBIDDEN)
    if len(headers) > 1 and len({(header.producer_id, header.producer_epoch) for header in headers}) > 1:
        reason = "Transactional records contained more than one producer ID"
        return ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, reason)
    return None


def forbidden(
    services: Services, context: RequestContext, transactional_id: str | None, records: Buffer | None
) -> ApiError | None:
    """The error of a transactional batch whose client may not use the transactional id, else None. It precedes other
    errors."""
    if transactional_id is None or _transactional_header(records) is None:
        return None
    if services.authorizer.authorize(context, _WRITE, as_resource(transactional_id)):
        return None
    return ApiError(_FORBIDDEN)


def refuse_together(topics: Iterable[TopicResult]) -> None:
    """Set the error for every partition if the client may not use its transactional id."""
    if any(result.error_code == _FORBIDDEN for _, results in topics for result in results):
        for _, results in topics:
            results[:] = [PartitionResult(result.partition, _FORBIDDEN) for result in results]


def _transactional_header(records: Buffer | None) -> BatchHeader | None:
    """Header of the first batch if it is transactional. Records with several batches fail in any case."""
    if records is None or len(records) < HEADER_SIZE:
        return None
    header = read_header(records)
    is_one = header.magic == 2 and header.attributes & TRANSACTIONAL_FLAG and header.producer_id >= 0
    return header if is_one else None
