"""OffsetCommit: stores offsets in ZooKeeper in version 0, for old consumers and tools; otherwise in the group
coordinator.

Source: KafkaApis.handleOffsetCommitRequest, commitOffsetsToZookeeper, GroupCoordinatorAdapter.commitOffsets@3.9.
"""

from collections.abc import Iterator
from itertools import repeat
from operator import itemgetter

from kafka_zk.base.turns import Turns
from kafka_zk.base.types import TopicPartition, new_tuple
from kafka_zk.broker.group.offset_manager import Committer
from kafka_zk.broker.group.records import NO_EXPIRY, OffsetAndMetadata
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code
from kafka_zk.broker.handlers.groups import plain_commit
from kafka_zk.broker.handlers.groups.plain_commit import cached_tps, tps_of_topic
from kafka_zk.broker.handlers.large_requests import LARGE_BODY_BYTES, coded_in_turns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import Operation, group, topic
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.offset_commit import (
    OffsetCommitRequest,
    Rows,
    read_offset_commit_request,
    read_offset_commit_request_in_steps,
    result_struct,
    topic_result,
    write_offset_commit_response,
)
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.registry.znodes.consumers import is_znode_name

_DEFAULT_RETENTION = -1
_DEFAULT_TIMESTAMP = -1
_LATEST_MS = 2**63 - 1

_partition_of = itemgetter(1)

Codes = dict[TopicPartition, ErrorCode]
Wanted = dict[TopicPartition, OffsetAndMetadata]

CommittedPartitions = list[tuple[str, list[tuple[TopicPartition, ...]]]]
"""Topics of a request with their partitions, in chunks."""


async def handle(services: Services, context: RequestContext, header: RequestHeader, body: memoryview) -> list[Part]:
    """Returns an error code for each partition."""
    version = header.api_version
    turns: Turns | None = None
    if len(body) <= LARGE_BODY_BYTES:
        plain = plain_commit.read(services, context, header, body)
        if plain is not None:
            del body  # frees the frame while the commit waits
            error = await services.coordinator.offsets.commit_batch(plain.group_id, plain.committer, plain.batch)
            return [plain.response if error is ErrorCode.NONE else await _failed(header, plain.topics, error)]
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
    asked: CommittedPartitions = []
    for name, pieces in request.topics:
        error = group_error or topic_error(services, context, name)
        known = () if error else services.metadata.topics.get(name, ())
        tps_of = cached_tps if known else tps_of_topic
        asked_pieces: list[tuple[TopicPartition, ...]] = []
        asked.append((name, asked_pieces))
        for rows in pieces:
            if turns is not None and turns.is_over:
                await turns.next()
            tps = tps_of(name, rows.partitions)
            asked_pieces.append(tps)
            offsets = zip(tps, _offsets(rows, now_ms, expires_ms), strict=True)
            if all(map(known.__contains__, rows.partitions)):
                wanted.update(offsets)
            else:
                codes.update(dict.fromkeys(tps, error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                wanted.update((tp, offset) for tp, offset in offsets if tp.partition in known)
    if version == 0:
        codes.update(await _store_in_zookeeper(services, request.group_id, wanted))
    elif wanted:
        committer = Committer(request.member_id, request.group_instance_id, request.generation_id)
        codes.update(await services.coordinator.offsets.commit(request.group_id, committer, wanted))
    results = await _results(version, turns, asked, codes)
    return [write_offset_commit_response(version, header.correlation_id, results)]


async def _failed(header: RequestHeader, topics: plain_commit.Topics, error: ErrorCode) -> bytes:
    asked: CommittedPartitions = [(name, [cached_tps(name, partitions)]) for name, partitions, _ in topics]
    codes = {tp: error for _, [tps] in asked for tp in tps}
    results = await _results(header.api_version, None, asked, codes)
    return write_offset_commit_response(header.api_version, header.correlation_id, results)


def _offsets(rows: Rows, now_ms: int, expires_ms: int) -> Iterator[OffsetAndMetadata]:
    if rows.metadata is None:  # the usual case
        columns = zip(rows.offsets, rows.leader_epochs, repeat(""), repeat(now_ms), repeat(expires_ms), strict=False)
        return map(new_tuple, repeat(OffsetAndMetadata), columns)
    times_ms = [now_ms if each == _DEFAULT_TIMESTAMP else each for each in rows.timestamps_ms]
    columns = zip(rows.offsets, rows.leader_epochs, rows.metadata, times_ms, repeat(expires_ms), strict=False)
    return map(new_tuple, repeat(OffsetAndMetadata), columns)


def _expires_ms(request: OffsetCommitRequest, now_ms: int) -> int:
    """The expiry time, which is the same for all partitions, because versions 2 to 4 have one retention time."""
    keeps_ms = request.retention_time_ms
    return NO_EXPIRY if keeps_ms == _DEFAULT_RETENTION else min(now_ms + keeps_ms, _LATEST_MS)


async def _store_in_zookeeper(services: Services, group_id: str, wanted: Wanted) -> Codes:
    codes: Codes = {}
    offsets: dict[TopicPartition, int] = {}
    turns = Turns(services.clock)
    for tp, committed in wanted.items():
        if turns.is_over:
            await turns.next()
        # As in Kafka, too much metadata is an error, although only the offset is stored.
        if len(committed.metadata) > services.config.offset_metadata_max_bytes:
            codes[tp] = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            codes[tp] = ErrorCode.NONE
            offsets[tp] = committed.offset
    try:
        await services.group_offsets(group_id).store(offsets)
    except EXPECTED as error:
        codes.update(dict.fromkeys(offsets, error_code(error)))
    return codes


async def _results(version: int, turns: Turns | None, asked: CommittedPartitions, codes: Codes) -> list[bytes]:
    pack = result_struct(version).pack
    topics = []
    for name, pieces in asked:
        results: list[bytes] = []
        for tps in pieces:
            if turns is not None and turns.is_over:
                await turns.next()
            results += map(pack, map(_partition_of, tps), map(codes.__getitem__, tps))
        topics.append(topic_result(version, name, results))
    return topics


def _group_error(services: Services, context: RequestContext, version: int, group_id: str) -> ErrorCode:
    if not services.authorizer.authorize(context, Operation.READ, group(group_id)):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if version == 0 and not is_znode_name(group_id):
        return ErrorCode.INVALID_GROUP_ID
    return ErrorCode.NONE


def topic_error(services: Services, context: RequestContext, name: str) -> ErrorCode:
    """The error if the client may not commit offsets of this topic, otherwise NONE."""
    allowed = services.authorizer.authorize(context, Operation.READ, topic(name))
    return ErrorCode.NONE if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
