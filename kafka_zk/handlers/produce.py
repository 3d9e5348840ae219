"""Produce: one batch per partition, appended as it came.

Source: KafkaApis.handleProduceRequest and ReplicaManager.appendRecords@3.9.
"""

from collections.abc import Sequence

from kafka_zk.authorizer import Operation, topic
from kafka_zk.handlers import conversion
from kafka_zk.handlers.error_map import EXPECTED, error_code, error_message
from kafka_zk.handlers.services import Services
from kafka_zk.protocol.errors import ApiError, ErrorCode, ProtocolError
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.produce import (
    PartitionData,
    PartitionResult,
    ProduceRequest,
    ProduceResponse,
    TopicResult,
    read_produce_request,
    write_produce_response,
)
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.replica.partition import Partition
from storage.compression import Compression
from storage.errors import UnsupportedCompression
from storage.log import Log
from storage.record_batch import CODEC_MASK
from storage.types import TopicPartition

_ZSTD_SINCE = 7
_ATTRIBUTES_POSITION = 22  # their lower byte, in a batch

_Wanted = Sequence[tuple[str, Sequence[PartitionData | PartitionResult]]]


async def handle(
    services: Services, context: RequestContext, header: RequestHeader, body: memoryview
) -> list[Part] | None:
    """Answer with an offset or an error for each partition; None for acks=0.

    Raises: ProtocolError, which closes the connection, when an acks=0 request had an error: the only way to tell.
    """
    request = read_produce_request(header.api_version, body)
    is_old = header.api_version < conversion.MAGIC_2_SINCE_PRODUCE
    wanted: _Wanted = request.topics
    if is_old:
        wanted = [
            (name, [await _converted(services, data) for data in partitions]) for name, partitions in request.topics
        ]
    to_flush: dict[Partition, Log] = {}
    topics = []
    failed = False
    for name, partitions in wanted:
        results = []
        for data in partitions:
            result = _append(services, context, request, header.api_version, name, data, to_flush)
            failed = failed or result.error_code != 0
            results.append(result)
        topics.append(TopicResult(name, results))
    if to_flush:
        try:
            await services.replicas.flush(to_flush)
        except OSError:
            topics = [
                TopicResult(name, [_after_failure(services, name, result) for result in results])
                for name, results in topics
            ]
            failed = True
    if request.acks == 0:
        if failed:
            raise ProtocolError("a Produce request with acks=0 failed")
        return None
    return [write_produce_response(header.api_version, header.correlation_id, ProduceResponse(topics))]


def _after_failure(services: Services, name: str, result: PartitionResult) -> PartitionResult:
    """A log directory failed in the flush: its partitions are refused from now on, and so is what they just took."""
    try:
        services.replicas.partition(TopicPartition(name, result.partition)).leader_log()
    except ApiError as error:
        return PartitionResult(result.partition, error.code) if not result.error_code else result
    return result


def _check_known(services: Services, topic_partition: TopicPartition) -> None:
    """A topic that the controller deletes takes nothing more, whatever this broker still has of it."""
    if services.metadata.partition(*topic_partition) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _refuse_zstd(data: PartitionData) -> None:
    records = data.records or b""
    if len(records) > _ATTRIBUTES_POSITION and records[_ATTRIBUTES_POSITION] & CODEC_MASK == Compression.zstd:
        raise UnsupportedCompression(f"versions before {_ZSTD_SINCE} do not know zstd")


async def _converted(services: Services, data: PartitionData) -> PartitionData | PartitionResult:
    """For versions 0 to 2: the message set as a batch, empty if it has no whole message, or why it cannot be one."""
    if data.records is None:
        return data
    try:
        return data._replace(records=await conversion.up_convert(services, memoryview(data.records)))
    except EXPECTED as error:
        return PartitionResult(data.partition, error_code(error), error_message=error_message(error))


def _append_nothing(services: Services, name: str, data: PartitionData) -> PartitionResult:
    """A set without a whole message is no error in the old versions, as in Kafka; it gets no offset."""
    topic_partition = TopicPartition(name, data.partition)
    try:
        _check_known(services, topic_partition)
        log = services.replicas.partition(topic_partition).leader_log()
    except EXPECTED as error:
        return PartitionResult(data.partition, error_code(error), error_message=error_message(error))
    return PartitionResult(data.partition, 0, -1, -1, log.log_start_offset)


def _append(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    version: int,
    name: str,
    data: PartitionData | PartitionResult,
    to_flush: dict[Partition, Log],
) -> PartitionResult:
    if isinstance(data, PartitionResult):
        return data
    if version < conversion.MAGIC_2_SINCE_PRODUCE and data.records is not None and not data.records:
        return _append_nothing(services, name, data)
    try:
        if request.acks not in (-1, 0, 1):
            raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
        if not services.authorizer.authorize(context, Operation.WRITE, topic(name)):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        topic_partition = TopicPartition(name, data.partition)
        _check_known(services, topic_partition)
        if version < _ZSTD_SINCE and version >= conversion.MAGIC_2_SINCE_PRODUCE:
            _refuse_zstd(data)
        info = services.replicas.append(topic_partition, memoryview(data.records or b""), request.acks, to_flush)
    except EXPECTED as error:
        return PartitionResult(data.partition, error_code(error), error_message=error_message(error))
    return PartitionResult(data.partition, 0, info.first_offset, info.log_append_time_ms, info.log_start_offset)
