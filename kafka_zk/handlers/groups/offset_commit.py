"""OffsetCommit: version 0 stores into ZooKeeper's offset registry, as the old consumers and tools read it; all later
ones store with the group's coordinator.

Source: KafkaApis.handleOffsetCommitRequest, commitOffsetsToZookeeper, GroupCoordinatorAdapter.commitOffsets@3.9.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka_zk.group.offset_manager import Committer
from kafka_zk.group.records import NO_EXPIRY, OffsetAndMetadata
from kafka_zk.handlers.error_map import EXPECTED, error_code
from kafka_zk.handlers.services import Services
from kafka_zk.network.slices import AT_ONCE, Turns
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.offset_commit import encode_response, row_encoder
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.registry.znodes.consumers import is_znode_name
from kafka_zk.security.authorizer import Operation, group, topic
from kafka_zk.storage.types import TopicPartition

_DEFAULT_RETENTION = -1
_DEFAULT_TIMESTAMP = -1
_LATEST_MS = 2**63 - 1
_TIMESTAMP_IN = 1

Codes = dict[TopicPartition, ErrorCode]


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> bytes:
    """An error code for each partition."""
    turns = Turns(services.clock)
    group_error = _group_error(services, context, header.api_version, request.group_id)
    codes: Codes = {}
    wanted: dict[TopicPartition, Any] = {}
    asked: list[tuple[str, list[TopicPartition]]] = []
    for named in request.topics:
        name = named.name
        error = group_error or _topic_error(services, context, name)
        known = services.metadata.topics.get(name, {})
        tps: list[TopicPartition] = []
        asked.append((name, tps))
        for partition in named.partitions:
            tp = TopicPartition(name, partition.partition_index)
            tps.append(tp)
            if not len(tps) % AT_ONCE and turns.is_over:
                await turns.next()
            if error is ErrorCode.NONE and tp.partition in known:
                codes[tp] = ErrorCode.NONE
                wanted[tp] = partition
            else:
                codes[tp] = error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if header.api_version == 0:
        codes.update(await _store_in_zookeeper(services, turns, request.group_id, wanted))
    elif wanted:
        committer = Committer(request.member_id, request.group_instance_id, request.generation_id_or_member_epoch)
        offsets = await _offsets(services, turns, header.api_version, request, wanted)
        codes.update(await services.coordinator.offsets.commit(request.group_id, committer, offsets))
    return encode_response(header.api_version, await _topics(turns, row_encoder(header.api_version), asked, codes))


async def _offsets(
    services: Services, turns: Turns, version: int, request: Any, wanted: Mapping[TopicPartition, Any]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """As they are stored. Version 1 brings a time for each, versions 2 to 4 how long all are to be kept."""
    now_ms = services.clock.wall_ms()
    keeps_ms = request.retention_time_ms
    expires_ms = NO_EXPIRY if keeps_ms == _DEFAULT_RETENTION else min(now_ms + keeps_ms, _LATEST_MS)
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    for tp, committed in wanted.items():
        if not len(offsets) % AT_ONCE and turns.is_over:
            await turns.next()
        at_ms = committed.commit_timestamp if version == _TIMESTAMP_IN else _DEFAULT_TIMESTAMP
        offsets[tp] = OffsetAndMetadata(
            committed.committed_offset,
            committed.committed_leader_epoch,
            committed.committed_metadata or "",
            now_ms if at_ms == _DEFAULT_TIMESTAMP else at_ms,
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


async def _topics(
    turns: Turns, row: Callable[[int, int], bytes], asked: Sequence[tuple[str, Sequence[TopicPartition]]], codes: Codes
) -> list[tuple[str, list[bytes]]]:
    topics = []
    for name, tps in asked:
        rows: list[bytes] = []
        for tp in tps:
            rows.append(row(tp.partition, codes[tp]))
            if not len(rows) % AT_ONCE and turns.is_over:
                await turns.next()
        topics.append((name, rows))
    return topics


def _group_error(services: Services, context: RequestContext, version: int, group_id: str) -> ErrorCode:
    if not services.authorizer.authorize(context, Operation.READ, group(group_id)):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if version == 0 and not is_znode_name(group_id):
        return ErrorCode.INVALID_GROUP_ID
    return ErrorCode.NONE


def _topic_error(services: Services, context: RequestContext, name: str) -> ErrorCode:
    allowed = services.authorizer.authorize(context, Operation.READ, topic(name))
    return ErrorCode.NONE if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _too_large(services: Services, metadata: str | None) -> bool:
    """ZooKeeper keeps no metadata; Kafka refuses long ones all the same."""
    return metadata is not None and len(metadata) > services.config.offset_metadata_max_bytes
