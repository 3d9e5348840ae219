"""ListOffsets: the earliest or latest offset, the first at or after a timestamp, or that of the largest timestamp.

Source: KafkaApis.handleListOffsetRequest, UnifiedLog.fetchOffsetByTimestamp and legacyFetchOffsetsBefore@3.9.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any

from kafka_zk.base.types import FetchIsolation, TimestampOffset, TopicPartition
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.replica.partition import Partition
from kafka_zk.broker.security.authorizer import Operation, topic
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.memory import OBJECT_BYTES, VALUE_BYTES
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.segments.timestamp_search import Result as SearchResult
from kafka_zk.storage.segments.timestamp_search import Search

if TYPE_CHECKING:  # most brokers have no remote storage
    from kafka_zk.broker.tiered.remote_reads import RemoteReads

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5

_OFFSET_NOT_AVAILABLE_SINCE = 5
_FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
_RESULT_BYTES = OBJECT_BYTES + 2 * VALUE_BYTES  # in version 0, a result is a list
_COST = 256  # cost of a partition for ``turns.Turns``
_STEP_COST = 4 * 1024  # cost of searching a segment
_UNKNOWN = TimestampOffset(-1, -1, -1)

Response = codec.response(ApiKey.LIST_OFFSETS)
Topic = Response.ListOffsetsTopicResponse
Result = Topic.ListOffsetsPartitionResponse


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return offset, timestamp and leader epoch (version 0: a list of offsets), or an error, for each partition."""
    asked: Counter[tuple[str, int]] = Counter()
    turns = ResponseTurns(services.clock, context)
    for named in request.topics:
        for wanted in named.partitions:
            if turns.is_over:
                await turns.next()
            asked[named.name, wanted.partition_index] += 1
    topics = []
    for named in request.topics:
        results = []
        for wanted in named.partitions:
            tp = TopicPartition(named.name, wanted.partition_index)
            try:
                if asked[tp] > 1 and header.api_version > 0:
                    raise ApiError(ErrorCode.INVALID_REQUEST)
                await turns.make(_RESULT_BYTES)
                await turns.spend(_COST)
                results.append(
                    await _result(services, context, turns, header.api_version, request, tp, wanted)
                )
            except EXPECTED as error:
                results.append(
                    Result(partition_index=wanted.partition_index, error_code=error_code(error), old_style_offsets=[])
                )
        topics.append(Topic(name=named.name, partitions=results))
    return Response(throttle_time_ms=0, topics=topics)


async def _result(
    services: Services,
    context: RequestContext,
    turns: ResponseTurns,
    version: int,
    request: Any,
    tp: TopicPartition,
    wanted: Any,
) -> Any:
    if not services.authorizer.authorize(context, Operation.DESCRIBE, topic(tp.topic)):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    partition = services.replicas.partition(tp)
    log = partition.leader_log(wanted.current_leader_epoch if version >= 4 else -1)
    isolation = _isolation(request, version)
    number = tp.partition
    try:
        if version > 0:
            found = await _lookup(services, turns, log, partition, isolation, wanted.timestamp, version)
        else:
            offsets = _offsets_before(
                log, log.readable_end(isolation), wanted.timestamp, wanted.max_num_offsets, services.clock.wall_ms()
            )
    except OSError as error:
        services.replicas.logs.fail_directory(log, error)
        raise
    if version == 0:
        return Result(partition_index=number, error_code=0, old_style_offsets=offsets)
    return Result(
        partition_index=number,
        error_code=0,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _isolation(request: Any, version: int) -> FetchIsolation:
    if request.replica_id >= 0:
        return FetchIsolation.LOG_END
    is_committed_only = version >= 2 and request.isolation_level == 1
    return FetchIsolation.TXN_COMMITTED if is_committed_only else FetchIsolation.HIGH_WATERMARK


async def _lookup(
    services: Services,
    turns: ResponseTurns,
    log: Log,
    partition: Partition,
    isolation: FetchIsolation,
    timestamp: int,
    version: int,
) -> TimestampOffset:
    if version < _FIRST_VERSION.get(timestamp, 0) or timestamp < LATEST_TIERED:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if timestamp == LATEST:
        _check_committed_is_known(partition, isolation, version)
        return TimestampOffset(-1, log.readable_end(isolation), log.leader_epochs.latest_epoch)
    if timestamp == EARLIEST:
        return _at(log, log.log_start_offset)
    if timestamp == EARLIEST_LOCAL:
        return _at(log, log.local_log_start_offset)
    remote = services.remote_reads if log.config.is_tiered else None
    if timestamp == LATEST_TIERED:
        return _UNKNOWN if remote is None else await _latest_tiered(remote, partition, log)
    local_start = log.local_log_start_offset
    found = None
    if timestamp >= 0 and remote is not None and log.log_start_offset < local_start:
        found = await remote.offset_for_timestamp(partition, log, timestamp)
    if found is None:
        search = log.max_timestamp_search() if timestamp == MAX_TIMESTAMP else log.timestamp_search(timestamp)
        found = await _searched(services, turns, search)
        if remote is not None and log.local_log_start_offset != local_start:  # some local records became remote
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
    _check_same(partition, log)
    if found is not None and found.offset < log.readable_end(isolation):
        return found
    _check_committed_is_known(partition, isolation, version)
    return _UNKNOWN


async def _latest_tiered(remote: "RemoteReads", partition: Partition, log: Log) -> TimestampOffset:
    offset = await remote.latest_tiered(partition, log)
    _check_same(partition, log)
    return _at(log, offset)


def _check_same(partition: Partition, log: Log) -> None:
    """Raise ApiError if the log has since been deleted or moved, or has failed."""
    if partition.leader_log() is not log:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _at(log: Log, offset: int) -> TimestampOffset:
    return TimestampOffset(-1, offset, log.leader_epochs.epoch_for_offset(offset))


def _check_committed_is_known(partition: Partition, isolation: FetchIsolation, version: int) -> None:
    """Raise ApiError for a consumer that, after an election, could see the log's end move back."""
    if isolation is not FetchIsolation.LOG_END and not partition.knows_what_is_committed:
        is_known = version >= _OFFSET_NOT_AVAILABLE_SINCE
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE)


async def _searched(services: Services, turns: ResponseTurns, search: Search) -> TimestampOffset | None:
    """Run a search. A helper process does the long steps; other work runs in between."""
    result: SearchResult = None
    try:
        while True:
            wanted = search.send(result)
            await turns.spend(_STEP_COST)
            result = None if wanted is None else await services.replicas.batch_helpers.run_on(*wanted)
    except StopIteration as stop:
        found: TimestampOffset | None = stop.value
        return found


def _offsets_before(log: Log, end_offset: int, timestamp: int, max_count: int, now_ms: int) -> list[int]:
    """Version 0: segments' base offsets (and the log's end) before a timestamp, newest first; never empty for -1 and
    -2.

    A segment counts by its last modification, the log's end by ``now_ms``.
    """
    if timestamp == EARLIEST:
        return [log.log_start_offset][:max_count]
    candidates = [max(segment.base_offset, log.log_start_offset) for segment in log.segments]
    if log.segments[-1].size_bytes:
        candidates.append(log.log_end_offset)
    if timestamp != LATEST:
        changed_ms = [segment.modified_ms() for segment in log.segments] + [now_ms]
        count = len(candidates)
        while count and changed_ms[count - 1] > timestamp:
            count -= 1
        del candidates[count:]
    newest_first = candidates[::-1][: max(0, max_count)]
    visible = [offset for offset in newest_first if offset <= end_offset]
    return visible if len(visible) == len(newest_first) else [end_offset, *visible]
