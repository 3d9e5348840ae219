"""OffsetCommit: version 0 stores into ZooKeeper's offset registry, as the old consumers and tools read it; all later
ones store with the group's coordinator.

Source: KafkaApis.handleOffsetCommitRequest, commitOffsetsToZookeeper, GroupCoordinatorAdapter.commitOffsets@3.9.
"""

from collections.abc import Mapping
from typing import Any

from kafka_zk.group.offset_manager import Committer
from kafka_zk.group.records import NO_EXPIRY, OffsetAndMetadata
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

_DEFAULT_RETENTION = -1
_DEFAULT_TIMESTAMP = -1
_LATEST_MS = 2**63 - 1

Codes = dict[TopicPartition, ErrorCode]


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """An error code for each partition."""
    turns = Turns(services.clock)
    group_error = _group_error(services, context, header.api_version, request.group_id)
    codes: Codes = {}
    wanted: dict[TopicPartition, Any] = {}
    for named in request.topics:
        for partition in named.partitions:
            if turns.is_over:
                await turns.next()
            tp = TopicPartition(named.name, partition.partition_index)
            codes[tp] = group_error or _partition_error(services, context, tp)
            if codes[tp] is ErrorCode.NONE:
                wanted[tp] = partition
    if header.api_version == 0:
        codes.update(await _store_in_zookeeper(services, turns, request.group_id, wanted))
    elif wanted:
        committer = Committer(request.member_id, request.group_instance_id, request.generation_id_or_member_epoch)
        offsets = await _offsets(services, turns, request, wanted)
        codes.update(await services.coordinator.offsets.commit(request.group_id, committer, offsets))
    return Response(throttle_time_ms=0, topics=await _topics(turns, request, codes))


async def _offsets(
    services: Services, turns: Turns, request: Any, wanted: Mapping[TopicPartition, Any]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """As they are stored. Version 1 brings a time for each, versions 2 to 4 how long all are to be kept."""
    now_ms = services.clock.wall_ms()
    keeps_ms = request.retention_time_ms
    expires_ms = NO_EXPIRY if keeps_ms == _DEFAULT_RETENTION else min(now_ms + keeps_ms, _LATEST_MS)
    offsets = {}
    for tp, committed in wanted.items():
        if turns.is_over:
            await turns.next()
        offsets[tp] = OffsetAndMetadata(
            committed.committed_offset,
            committed.committed_leader_epoch,
            committed.committed_metadata or "",
            now_ms if committed.commit_timestamp == _DEFAULT_TIMESTAMP else committed.commit_timestamp,
            expires_ms,
        )
    return offsets


async def _store_in_zookeeper(
    services: Services, turns: Turns, group_id: str, wanted: Mapping[TopicPartition, Any]
) -> Codes:
    codes: Codes = {}
    offsets: dict[TopicPartition, int] = {}
    for tp, committed in wanted.items():
        if turns.is_over:
            await turns.next()
        if _too_large(services, committed.committed_metadata):
            codes[tp] = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            offsets[tp] = committed.committed_offset
    try:
        await services.group_offsets(group_id).store(offsets)
    except EXPECTED as error:
        codes.update(dict.fromkeys(offsets, error_code(error)))
    return codes


async def _topics(turns: Turns, request: Any, codes: Codes) -> list[Any]:
    topics = []
    for named in request.topics:
        results = []
        for partition in named.partitions:
            if turns.is_over:
                await turns.next()
            code = codes[TopicPartition(named.name, partition.partition_index)]
            results.append(Partition(partition_index=partition.partition_index, error_code=code))
        topics.append(Topic(name=named.name, partitions=results))
    return topics


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
