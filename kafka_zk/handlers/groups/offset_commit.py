"""OffsetCommit: version 0 stores into ZooKeeper's offset registry, as the old consumers and tools read it.

From version 1 on offsets belong to the broker-side group coordinator, which this broker does not have.

Source: KafkaApis.handleOffsetCommitRequest, commitOffsetsToZookeeper@3.9.
"""

from typing import Any

from kafka_zk.handlers.error_map import EXPECTED, error_code
from kafka_zk.handlers.services import Services
from kafka_zk.network.slices import Turns
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.registry.znodes.consumers import is_znode_name
from kafka_zk.security.authorizer import Operation, group, topic
from kafka_zk.storage.types import TopicPartition

Response = codec.response(ApiKey.OFFSET_COMMIT)
Topic = Response.OffsetCommitResponseTopic
Partition = Topic.OffsetCommitResponsePartition


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """An error code for each partition."""
    wanted: dict[TopicPartition, int] = {}
    codes: dict[TopicPartition, ErrorCode] = {}
    group_error = _group_error(services, context, header.api_version, request.group_id)
    turns = Turns(services.clock)
    for named in request.topics:
        for partition in named.partitions:
            if turns.is_over:
                await turns.next()
            tp = TopicPartition(named.name, partition.partition_index)
            code = group_error or _partition_error(services, context, tp)
            if code is ErrorCode.NONE and header.api_version > 0:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            elif code is ErrorCode.NONE and _too_large(services, partition.committed_metadata):
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            codes[tp] = code
            if code is ErrorCode.NONE:
                wanted[tp] = partition.committed_offset
    try:
        await services.group_offsets(request.group_id).store(wanted)
    except EXPECTED as error:
        codes.update(dict.fromkeys(wanted, error_code(error)))
    topics = []
    for named in request.topics:
        results = []
        for partition in named.partitions:
            if turns.is_over:
                await turns.next()
            code = codes[TopicPartition(named.name, partition.partition_index)]
            results.append(Partition(partition_index=partition.partition_index, error_code=code))
        topics.append(Topic(name=named.name, partitions=results))
    return Response(throttle_time_ms=0, topics=topics)


def _group_error(services: Services, context: RequestContext, version: int, group_id: str) -> ErrorCode:
    if not services.authorizer.authorize(context, Operation.READ, group(group_id)):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if version == 0 and not is_znode_name(group_id):
        return ErrorCode.INVALID_GROUP_ID
    return ErrorCode.NONE


def _partition_error(services: Services, context: RequestContext, tp: TopicPartition) -> ErrorCode:
    if not services.authorizer.authorize(context, Operation.READ, topic(tp.topic)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if services.metadata.partition(*tp) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _too_large(services: Services, metadata: str | None) -> bool:
    """ZooKeeper keeps no metadata; Kafka refuses long ones all the same."""
    return metadata is not None and len(metadata) > services.config.offset_metadata_max_bytes
