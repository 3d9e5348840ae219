"""Produce: appends one batch per partition, as received.

Source: KafkaApis.handleProduceRequest, ReplicaManager.appendRecords@3.9.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kafka_zk.base.turns import Turns
from kafka_zk.base.types import LogAppendInfo, TopicPartition, new_tuple
from kafka_zk.broker.handlers.data import conversion, leader_hints, transactional_produce
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code, error_message
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.replica.delayed_produce import DelayedProduce
from kafka_zk.broker.security.authorizer import Operation, topic
from kafka_zk.protocol.errors import ApiError, ErrorCode, ProtocolError
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.leader_hint import NodeEndpoint
from kafka_zk.protocol.produce import (
    PartitionResult,
    ProduceResponse,
    TopicResult,
    read_produce_request,
    write_produce_response,
)
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.protocol.topic_names import INTERNAL_TOPICS
from kafka_zk.storage.files.errors import InvalidRecord, InvalidTimestamp, UnsupportedCompression
from kafka_zk.storage.records.compression import Compression
from kafka_zk.storage.records.record_batch import CODEC_MASK, Buffer

_ZSTD_SINCE = 7
_MANY = 100  # a topic's partitions checked in one turn
_ADMIN_CLIENT_ID = "__admin_client"  # Kafka lets this client write to internal topics, to repair them
_ATTRIBUTES_POSITION = 22  # position of the attributes' lower byte in a batch

_NO_PARTITIONS: Mapping[int, object] = {}
_NO_RECORDS = memoryview(b"")
_WRITE = Operation.WRITE
_PENDING = PartitionResult(-1)  # append in progress


async def handle(
    services: Services, context: RequestContext, header: RequestHeader, body: memoryview
) -> list[Part] | None:
    """Return an offset or an error for each partition; None for acks=0.

    Raises: ProtocolError, to close the connection, if acks=0 fails, because it has no response.
    """
    version = header.api_version
    request = read_produce_request(version, body)
    turns: Turns | None = None
    has_failed = False
    topics: list[TopicResult] = []
    batches: list[tuple[TopicPartition, Any]] = []  # a view of the frame, or converted
    places: list[tuple[list[PartitionResult], int, int]] = []  # results, positions, partitions
    records: Buffer | PartitionResult | None
    for name, partitions in request.topics:
        results: list[PartitionResult] = []
        if topics or len(partitions) > _MANY:
            turns = Turns(services.clock, ignores_disconnect=True) if turns is None else turns
        refused = None
        known = services.metadata.topics.get(name, _NO_PARTITIONS)
        if not services.authorizer.authorize(context, _WRITE, topic(name)):
            refused, known = ErrorCode.TOPIC_AUTHORIZATION_FAILED, _NO_PARTITIONS
        elif name in INTERNAL_TOPICS and header.client_id != _ADMIN_CLIENT_ID:  # reserved for brokers
            refused, known = ErrorCode.INVALID_TOPIC_EXCEPTION, _NO_PARTITIONS
        for partition, records in partitions:
            if turns is not None and turns.is_over:
                await turns.next()
            if partition not in known or version < _ZSTD_SINCE:
                records = await _checked(
                    services, context, version, TopicPartition(name, partition), records, refused,
                    request.transactional_id,
                )
                if isinstance(records, PartitionResult):
                    results.append(records)
                    has_failed = True
                    continue
            batches.append((new_tuple(TopicPartition, (name, partition)), records or _NO_RECORDS))
            places.append((results, len(results), partition))
            results.append(_PENDING)
        topics.append(new_tuple(TopicResult, (name, results)))
    acks = request.acks
    if request.transactional_id is None:
        appended = await services.replicas.append_records(batches, acks)
    else:
        appended = await transactional_produce.append(services, context, version, request, batches)
    if isinstance(appended, DelayedProduce):
        timeout_ms = request.timeout_ms
        del body, request, batches, partitions, records  # free them while waiting
        appended = await services.replicas.replicated(appended, timeout_ms)
    for (results, place, partition), info in zip(places, appended, strict=True):
        if isinstance(info, LogAppendInfo):
            results[place] = new_tuple(
                PartitionResult,
                (partition, 0, info.first_offset, info.log_append_time_ms, info.log_start_offset, (), None, None),
            )
        else:
            results[place] = _refused(partition, info)
            has_failed = True
    if has_failed:
        return _with_failures(services, context, header, acks, topics)
    return None if acks == 0 else [write_produce_response(version, header.correlation_id, ProduceResponse(topics))]


def _with_failures(
    services: Services, context: RequestContext, header: RequestHeader, acks: int, topics: list[TopicResult]
) -> list[Part] | None:
    if acks == 0:
        if any(result.error_code for _, results in topics for result in results):
            raise ProtocolError("a Produce request with acks=0 failed")
        return None
    transactional_produce.refuse_together(topics)
    endpoints: Sequence[NodeEndpoint] = ()
    if header.api_version >= leader_hints.PRODUCE_SINCE:
        endpoints = leader_hints.add_to_produce(services, context.listener_name, topics)
    response = ProduceResponse(topics, node_endpoints=endpoints)
    return [write_produce_response(header.api_version, header.correlation_id, response)]


def _refused(partition: int, error: Exception) -> PartitionResult:
    record_errors = error.record_errors if isinstance(error, InvalidRecord | InvalidTimestamp) else ()
    return PartitionResult(
        partition, error_code(error), record_errors=record_errors, error_message=error_message(error)
    )


async def _checked(
    services: Services,
    context: RequestContext,
    version: int,
    tp: TopicPartition,
    records: Buffer | None,
    refused: ErrorCode | None,
    transactional_id: str | None,
) -> Buffer | PartitionResult:
    """The batch to append, converted in versions 0 to 2, or the result if there is nothing to append."""
    try:
        if refused is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise ApiError(refused)
        # A topic that is being deleted accepts no records, even if its log still exists on this broker.
        if services.metadata.partition(*tp) is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if refused is not None:
            raise ApiError(refused, f"Cannot append to internal topic {tp.topic}")
        if records is None:
            return _NO_RECORDS
        if version >= conversion.MAGIC_2_SINCE_PRODUCE:
            if version < _ZSTD_SINCE:
                _refuse_zstd(records)
            return records
        partition = services.replicas.partitions.get(tp)
        log = None if partition is None else partition.log
        limit_bytes = None if log is None else log.config.max_message_bytes
        message_set = memoryview(records)
        converted = memoryview(await conversion.up_convert(services, context.memory, message_set, limit_bytes))
        if not converted:  # no complete message: old versions succeed without an offset, as in Kafka
            log = services.replicas.partition(tp).leader_log()
            return PartitionResult(tp.partition, 0, -1, -1, log.log_start_offset)
        return converted
    except EXPECTED as error:
        forbidden = transactional_produce.forbidden(services, context, transactional_id, records)
        return _refused(tp.partition, forbidden or error)


def _refuse_zstd(records: Buffer) -> None:
    if len(records) > _ATTRIBUTES_POSITION and records[_ATTRIBUTES_POSITION] & CODEC_MASK == Compression.zstd:
        raise UnsupportedCompression(f"versions before {_ZSTD_SINCE} do not know zstd")
