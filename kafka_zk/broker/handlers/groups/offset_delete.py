"""OffsetDelete: deletes a group's offsets for topics to which no member subscribes.

Source: KafkaApis.handleOffsetDeleteRequest@3.9.
"""

from itertools import islice
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import Operation, group, topic
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

_MANY = 200  # partitions in one turn

Response = codec.response(ApiKey.OFFSET_DELETE)
Topic = Response.OffsetDeleteResponseTopic
Partition = Topic.OffsetDeleteResponsePartition


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return an error code for each partition, or one for the group."""
    if not services.authorizer.authorize(context, Operation.DELETE, group(request.group_id)):
        return Response(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    turns = ResponseTurns(services.clock, context)
    codes: dict[TopicPartition, ErrorCode] = {}
    for named in request.topics:
        for partition in named.partitions:
            if turns.is_over:
                await turns.next()
            tp = TopicPartition(named.name, partition.partition_index)
            codes[tp] = _error(services, context, tp)
    wanted = (tp for tp, code in list(codes.items()) if code is ErrorCode.NONE)
    part = list(islice(wanted, _MANY))
    while True:  # at least one call, which checks the group
        error, deleted = services.coordinator.offsets.delete(request.group_id, part)
        if error is not ErrorCode.NONE:
            return Response(error_code=error)
        codes.update(deleted)
        part = list(islice(wanted, _MANY))
        if not part:
            break
        if turns.is_over:
            await turns.next()
    by_topic: dict[str, list[Any]] = {}
    for (name, number), code in codes.items():
        await turns.make()
        by_topic.setdefault(name, []).append(Partition(partition_index=number, error_code=code))
    topics = [Topic(name=name, partitions=partitions) for name, partitions in by_topic.items()]
    return Response(topics=topics)


def _error(services: Services, context: RequestContext, tp: TopicPartition) -> ErrorCode:
    if not services.authorizer.authorize(context, Operation.READ, topic(tp.topic)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if services.metadata.partition(*tp) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE
