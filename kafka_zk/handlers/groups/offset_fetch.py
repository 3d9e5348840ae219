"""OffsetFetch: version 0 reads ZooKeeper's offset registry; later ones ask the broker's store, where nothing is.

The later versions say so without an error, since the old tools (ConsumerOffsetChecker, ConsumerGroupCommand) ask
here first and look into ZooKeeper only when told that nothing is stored.

Source: KafkaApis.handleOffsetFetchRequest, OffsetFetchResponse.java@3.9.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from kafka_zk.handlers.error_map import EXPECTED, error_code
from kafka_zk.handlers.services import Services
from kafka_zk.network.slices import Turns
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.registry.znodes.consumers import NO_OFFSET, is_znode_name
from kafka_zk.security.authorizer import Operation, group, topic
from kafka_zk.storage.types import TopicPartition

_TOP_LEVEL_ERROR_SINCE = 2
_MANY_GROUPS_SINCE = 8

Response = codec.response(ApiKey.OFFSET_FETCH)
Topic = Response.OffsetFetchResponseTopic
Partition = Topic.OffsetFetchResponsePartition
Group = Response.OffsetFetchResponseGroup
GroupTopic = Group.OffsetFetchResponseTopics
GroupPartition = GroupTopic.OffsetFetchResponsePartitions

Found = tuple[int, ErrorCode]  # offset (-1: none) and error


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """The stored offset or -1 for each partition asked for; of all partitions (topics null) nothing is stored."""
    if header.api_version >= _MANY_GROUPS_SINCE:
        turns = Turns(services.clock)
        groups = [await _group(services, context, turns, wanted) for wanted in request.groups]
        return Response(throttle_time_ms=0, groups=groups)
    allowed = services.authorizer.authorize(context, Operation.DESCRIBE, group(request.group_id))
    refusal = ErrorCode.NONE if allowed else ErrorCode.GROUP_AUTHORIZATION_FAILED
    if refusal and header.api_version >= _TOP_LEVEL_ERROR_SINCE:
        return Response(throttle_time_ms=0, topics=[], error_code=refusal)
    topics = request.topics or []
    turns = Turns(services.clock)
    if refusal:
        answers = {tp: (NO_OFFSET, refusal) async for tp in _partitions(turns, topics)}
    elif header.api_version == 0:
        answers = await _from_zookeeper(services, context, turns, request.group_id, topics)
    else:
        answers = {tp: (NO_OFFSET, _error(services, context, tp)) async for tp in _partitions(turns, topics)}
    listed = await _topics(turns, topics, answers, Topic, Partition)
    return Response(throttle_time_ms=0, topics=listed, error_code=0)


async def _group(services: Services, context: RequestContext, turns: Turns, wanted: Any) -> Any:
    if not services.authorizer.authorize(context, Operation.DESCRIBE, group(wanted.group_id)):
        return Group(group_id=wanted.group_id, topics=[], error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    topics = wanted.topics or []
    answers = {tp: (NO_OFFSET, _error(services, context, tp)) async for tp in _partitions(turns, topics)}
    listed = await _topics(turns, topics, answers, GroupTopic, GroupPartition)
    return Group(group_id=wanted.group_id, topics=listed, error_code=0)


async def _from_zookeeper(
    services: Services, context: RequestContext, turns: Turns, group_id: str, topics: list[Any]
) -> dict[TopicPartition, Found]:
    """Absent offsets and unknown partitions are UNKNOWN_TOPIC_OR_PARTITION, as in Kafka."""
    if not is_znode_name(group_id):
        return {tp: (NO_OFFSET, ErrorCode.INVALID_GROUP_ID) async for tp in _partitions(turns, topics)}
    codes = {tp: _error(services, context, tp) async for tp in _partitions(turns, topics)}
    known = [
        tp
        async for tp in _partitions(turns, topics)
        if not codes[tp] and services.metadata.partition(*tp) is not None
    ]
    try:
        stored = await services.group_offsets(group_id).fetch(known)
    except EXPECTED as error:
        stored = {}
        codes.update(dict.fromkeys(known, error_code(error)))
    return {
        tp: (stored[tp].offset, ErrorCode.NONE)
        if tp in stored
        else (NO_OFFSET, codes[tp] or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        async for tp in _partitions(turns, topics)
    }


def _error(services: Services, context: RequestContext, tp: TopicPartition) -> ErrorCode:
    allowed = services.authorizer.authorize(context, Operation.DESCRIBE, topic(tp.topic))
    return ErrorCode.NONE if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def _partitions(turns: Turns, topics: Iterable[Any]) -> AsyncIterator[TopicPartition]:
    for named in topics:
        for partition in named.partition_indexes:
            if turns.is_over:
                await turns.next()
            yield TopicPartition(named.name, partition)


async def _topics(
    turns: Turns,
    topics: Iterable[Any],
    answers: dict[TopicPartition, Found],
    topic_of: Callable[..., Any],
    of: Callable[..., Any],
) -> list[Any]:
    listed = []
    for named in topics:
        partitions = []
        async for tp in _partitions(turns, [named]):
            offset, code = answers[tp]
            partitions.append(
                of(
                    partition_index=tp.partition,
                    committed_offset=offset,
                    committed_leader_epoch=-1,
                    metadata="",
                    error_code=code,
                )
            )
        listed.append(topic_of(name=named.name, partitions=partitions))
    return listed
