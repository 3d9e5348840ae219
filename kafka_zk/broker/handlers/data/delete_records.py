"""DeleteRecords: moves the log start offset. Responds when all live replicas have moved it.

Source: KafkaApis.handleDeleteRecordsRequest, Partition.scala@3.9.
"""

from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.replica import delayed_delete_records
from kafka_zk.broker.security.authorizer import Operation, topic
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.protocol.topic_names import INTERNAL_TOPICS

INVALID_LOW_WATERMARK = -1

Response = codec.response(ApiKey.DELETE_RECORDS)
Topic = Response.DeleteRecordsTopicResult
Result = Topic.DeleteRecordsPartitionResult


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return the new low watermark, which is durable on the leader, or an error for each partition."""
    moved: list[tuple[TopicPartition, int, Any]] = []
    turns = ResponseTurns(services.clock, context)
    topics = []
    for named in request.topics:
        results = []
        for wanted in named.partitions:
            await turns.make()
            tp = TopicPartition(named.name, wanted.partition_index)
            try:
                low_watermark = _delete(services, context, tp, wanted.offset)
            except EXPECTED as error:
                results.append(_refused(wanted.partition_index, error))
            else:
                result = Result(partition_index=wanted.partition_index, low_watermark=low_watermark)
                moved.append((tp, low_watermark if wanted.offset < 0 else wanted.offset, result))
                results.append(result)
        topics.append(Topic(name=named.name, partitions=results))
    await delayed_delete_records.write_log_starts(services.replicas, (tp for tp, _, _ in moved))
    deadline_s = services.clock.seconds() + request.timeout_ms / 1000
    for tp, offset, result in moved:
        if turns.is_over:
            await turns.next()
        left_ms = max(0, int((deadline_s - services.clock.seconds()) * 1000))
        try:
            waiting = delayed_delete_records.wait_for_low_watermark(services.replicas, tp, offset, left_ms)
            result.low_watermark = await waiting
        except ApiError as error:  # the directory failed, or the leader changed
            result.low_watermark, result.error_code = INVALID_LOW_WATERMARK, error_code(error)
    return Response(topics=topics)


def _refused(partition: int, error: Exception) -> Any:
    return Result(partition_index=partition, low_watermark=INVALID_LOW_WATERMARK, error_code=error_code(error))


def _delete(services: Services, context: RequestContext, tp: TopicPartition, offset: int) -> int:
    if not services.authorizer.authorize(context, Operation.DELETE, topic(tp.topic)):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if services.metadata.partition(*tp) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if tp.topic in INTERNAL_TOPICS:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if tp not in services.replicas.partitions:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return delayed_delete_records.delete_records(services.replicas, tp, offset)
