"""OffsetCommit: version 0 stores into ZooKeeper's offset registry, as the old consumers and tools read it; all later
ones store with the group's coordinator.

Source: KafkaApis.handleOffsetCommitRequest, commitOffsetsToZookeeper, GroupCoordinatorAdapter.commitOffsets@3.9.
"""

from collections.abc import Mapping, Sequence

from kafka_zk.group.offset_manager import Committer
from kafka_zk.group.records import NO_EXPIRY, OffsetAndMetadata
from kafka_zk.handlers.error_map import EXPECTED, error_code
from kafka_zk.handlers.large_requests import LARGE_BODY_BYTES, coded_in_turns
from kafka_zk.handlers.services import Services
from kafka_zk.network.slices import AT_ONCE, Turns
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.offset_commit import (
    OffsetCommitRequest,
    read_offset_commit_request,
    read_offset_commit_request_in_steps,
    result_struct,
    write_offset_commit_response,
)
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.registry.znodes.consumers import is_znode_name
from kafka_zk.security.authorizer import Operation, group, topic
from kafka_zk.storage.types import TopicPartition

_DEFAULT_RETENTION = -1
_DEFAULT_TIMESTAMP = -1
_LATEST_MS = 2**63 - 1

_NO_PARTITIONS: Mapping[int, object] = {}

Codes = dict[TopicPartition, ErrorCode]
Wanted = dict[TopicPartition, OffsetAndMetadata]


async def handle(services: Services, context: RequestContext, header: RequestHeader, body: memoryview) -> list[Part]:
    """An error code for each partition."""
    version = header.api_version
    turns: Turns | None = None
    if len(body) <= LARGE_BODY_BYTES:
        request = read_offset_commit_request(version, body)
    else:
        steps = read_offset_commit_request_in_steps(version, body)
        request = await coded_in_turns(services.clock, context, steps)
        turns = Turns(services.clock)
        del steps
    del body
    group_error = _group_error(services, context, version, request.group_id)
    now_ms = services.clock.wall_ms()
    expires_ms = _expires_ms(request, now_ms)
    codes: Codes = {}
    wanted: Wanted = {}
    asked: list[tuple[str, list[TopicPartition]]] = []
    for name, rows in request.topics:
        error = group_error or _topic_error(services, context, name)
        known = services.metadata.topics.get(name, _NO_PARTITIONS)
        tps: list[TopicPartition] = []
        asked.append((name, tps))
        for partition, offset, leader_epoch, metadata, at_ms in rows:
            tp = TopicPartition(name, partition)
            tps.append(tp)
            if turns is not None and not len(tps) % AT_ONCE and turns.is_over:
                await turns.next()
            if not error and partition in known:
                if at_ms == _DEFAULT_TIMESTAMP:
                    at_ms = now_ms
                wanted[tp] = OffsetAndMetadata(offset, leader_epoch, metadata, at_ms, expires_ms)
            else:
                codes[tp] = error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if version == 0:
        codes.update(await _store_in_zookeeper(services, request.group_id, wanted))
    elif wanted:
        committer = Committer(request.member_id, request.group_instance_id, request.generation_id)
        codes.update(await services.coordinator.offsets.commit(request.group_id, committer, wanted))
    return [write_offset_commit_response(version, header.correlation_id, await _results(version, turns, asked, codes))]


def _expires_ms(request: OffsetCommitRequest, now_ms: int) -> int:
    """Versions 2 to 4 say how long all are to be kept."""
    keeps_ms = request.retention_time_ms
    return NO_EXPIRY if keeps_ms == _DEFAULT_RETENTION else min(now_ms + keeps_ms, _LATEST_MS)


async def _store_in_zookeeper(services: Services, group_id: str, wanted: Wanted) -> Codes:
    codes: Codes = {}
    offsets: dict[TopicPartition, int] = {}
    turns = Turns(services.clock)
    for tp, committed in wanted.items():
        if turns.is_over:
            await turns.next()
        if len(committed.metadata) > services.config.offset_metadata_max_bytes:  # which ZooKeeper does not keep
            codes[tp] = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            codes[tp] = ErrorCode.NONE
            offsets[tp] = committed.offset
    try:
        await services.group_offsets(group_id).store(offsets)
    except EXPECTED as error:
        codes.update(dict.fromkeys(offsets, error_code(error)))
    return codes


async def _results(
    version: int, turns: Turns | None, asked: Sequence[tuple[str, Sequence[TopicPartition]]], codes: Codes
) -> list[tuple[str, list[bytes]]]:
    pack = result_struct(version).pack
    if turns is None:
        return [(name, [pack(tp[1], codes[tp]) for tp in tps]) for name, tps in asked]
    topics = []
    for name, tps in asked:
        results: list[bytes] = []
        for tp in tps:
            results.append(pack(tp.partition, codes[tp]))
            if not len(results) % AT_ONCE and turns.is_over:
                await turns.next()
        topics.append((name, results))
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
