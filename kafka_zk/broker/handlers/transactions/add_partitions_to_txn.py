"""AddPartitionsToTxn: adds partitions to a transaction, or verifies for a broker that they belong to it (KIP-890).

    5  TRANSACTION_ABORTABLE    4  between brokers: several transactions, verify only    2  PRODUCER_FENCED

Source: KafkaApis.handleAddPartitionsToTxnRequest@3.9.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kafka_zk.base.types import TopicPartition, new_tuple
from kafka_zk.broker.handlers.decoded import answer
from kafka_zk.broker.handlers.large_requests import LARGE_BODY_BYTES
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.handlers.transactions.errors import known_since
from kafka_zk.broker.security.authorizer import CLUSTER, Operation, topic, transactional_id
from kafka_zk.broker.transaction.requests import ProducerIdAndEpoch
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.protocol.topic_names import INTERNAL_TOPICS
from kafka_zk.protocol.transactions import (
    read_add_partitions_to_txn_request,
    write_add_partitions_to_txn_response,
    write_partitions_added_to_txn,
)

_BETWEEN_BROKERS_SINCE = 4
_FENCED_SINCE = 2
_ABORTABLE_SINCE = 5
_WRITE = Operation.WRITE
_NONE = ErrorCode.NONE

Response = codec.response(ApiKey.ADD_PARTITIONS_TO_TXN)
Transaction = Response.AddPartitionsToTxnResult
Topic = Response.AddPartitionsToTxnTopicResult
Partition = Topic.AddPartitionsToTxnPartitionResult

_Codes = Mapping[TopicPartition, ErrorCode]


async def handle(services: Services, context: RequestContext, header: RequestHeader, body: memoryview) -> list[Part]:
    """Return a code for each partition. All partitions of a transaction are added, or none."""
    version = header.api_version
    if version >= _BETWEEN_BROKERS_SINCE:
        return await answer(services, context, header, body, _of_brokers)
    if len(body) > LARGE_BODY_BYTES:
        return await answer(services, context, header, body, _large)
    wanted, producer_id, producer_epoch, tps = read_add_partitions_to_txn_request(version, body)
    del body  # the request may wait for the log
    producer = new_tuple(ProducerIdAndEpoch, (producer_id, producer_epoch))
    codes = await _of_client(services, context, version, wanted, producer, tps)
    if codes is _NONE:
        return [write_partitions_added_to_txn(version, header.correlation_id, tps)]
    return [write_add_partitions_to_txn_response(version, header.correlation_id, _of_each(tps, codes))]


async def _large(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Like ``handle``, for a client with many partitions."""
    producer = ProducerIdAndEpoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    wanted, tps = request.v3_and_below_transactional_id, _tps(request.v3_and_below_topics)
    codes = await _of_client(services, context, header.api_version, wanted, producer, tps)
    turns = ResponseTurns(services.clock, context)
    return Response(results_by_topic_v3_and_below=await _topics(turns, _of_each(tps, codes)))


async def _of_brokers(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    version = header.api_version
    if not services.authorizer.authorize(context, Operation.CLUSTER_ACTION, CLUSTER):
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return Response(error_code=refused)
    turns = ResponseTurns(services.clock, context)
    results = []
    for asked in request.transactions:
        await turns.make()
        codes = await _of_broker(services, version, asked)
        results.append(Transaction(transactional_id=asked.transactional_id, topic_results=await _topics(turns, codes)))
    return Response(results_by_transaction=results)


async def _of_client(
    services: Services,
    context: RequestContext,
    version: int,
    wanted: str,
    producer: ProducerIdAndEpoch,
    tps: tuple[TopicPartition, ...],
) -> ErrorCode | _Codes:
    """Returns one code for all partitions, or one for each partition."""
    authorize = services.authorizer.authorize
    if not authorize(context, _WRITE, transactional_id(wanted)):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    names = {tp[0] for tp in tps}
    forbidden = {name for name in names if name in INTERNAL_TOPICS or not authorize(context, _WRITE, topic(name))}
    refused = {tp: ErrorCode.TOPIC_AUTHORIZATION_FAILED for tp in tps if tp[0] in forbidden} if forbidden else {}
    return await _add(services, version, wanted, producer, tps, refused)


async def _of_broker(services: Services, version: int, asked: Any) -> _Codes:
    producer, tps = ProducerIdAndEpoch(asked.producer_id, asked.producer_epoch), _tps(asked.topics)
    if not asked.verify_only:
        return _of_each(tps, await _add(services, version, asked.transactional_id, producer, tps, {}))
    refused = _refused(services, asked.transactional_id, producer, tps)
    codes = {tp: refused.get(tp, ErrorCode.NONE) for tp in tps}
    if version >= _ABORTABLE_SINCE:
        return codes
    abortable, older = ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE
    return {tp: older if code is abortable else code for tp, code in codes.items()}


def _refused(
    services: Services, wanted: str, producer: ProducerIdAndEpoch, tps: Sequence[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    """Errors of partitions that are not in the producer's open transaction."""
    unknown = _unknown(services, tps)
    return _none_of(tps, unknown) if unknown else services.transactions.verify(wanted, producer, tps)


async def _add(
    services: Services,
    version: int,
    wanted: str,
    producer: ProducerIdAndEpoch,
    tps: tuple[TopicPartition, ...],
    forbidden: dict[TopicPartition, ErrorCode],
) -> ErrorCode | _Codes:
    refused = forbidden | _unknown(services, [tp for tp in tps if tp not in forbidden] if forbidden else tps)
    if refused:
        return _none_of(tps, refused)
    added = services.transactions.add_partitions(wanted, producer, frozenset(tps))
    return known_since(added if isinstance(added, ErrorCode) else await added, version, _FENCED_SINCE)


def _of_each(tps: Sequence[TopicPartition], codes: ErrorCode | _Codes) -> _Codes:
    return dict.fromkeys(tps, codes) if isinstance(codes, ErrorCode) else codes


def _unknown(services: Services, tps: Sequence[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
    topics = services.metadata.topics
    return {
        tp: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for tp in tps
        if tp[0] not in topics or tp[1] not in topics[tp[0]]
    }


def _none_of(tps: Sequence[TopicPartition], refused: _Codes) -> _Codes:
    return {tp: refused.get(tp, ErrorCode.OPERATION_NOT_ATTEMPTED) for tp in tps}


def _tps(topics: Any) -> tuple[TopicPartition, ...]:
    return tuple(dict.fromkeys(TopicPartition(named.name, number) for named in topics for number in named.partitions))


async def _topics(turns: ResponseTurns, codes: _Codes) -> list[Any]:
    by_topic: dict[str, list[Any]] = {}
    async for (name, number), code in turns.each(codes.items()):
        by_topic.setdefault(name, []).append(Partition(partition_index=number, partition_error_code=code))
    return [Topic(name=name, results_by_partition=partitions) for name, partitions in by_topic.items()]
