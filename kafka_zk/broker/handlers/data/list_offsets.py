"""ListOffsets: the earliest or latest offset, the first at or after a timestamp, or that of the largest timestamp.

Source: KafkaApis.handleListOffsetRequest, UnifiedLog.fetchOffsetByTimestamp and legacyFetchOffsetsBefore@3.9.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_zk.base.types import FetchIsolation, TimestampOffset, TopicPartition
from kafka_zk.broker.handlers.data.remote_searches import RemoteSearch, search_all
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
_SEARCH_BYTES = 4 * OBJECT_BYTES
_COST = 256  # cost of a partition for ``turns.Turns``
_STEP_COST = 4 * 1024  # cost of searching a segment
_UNKNOWN = TimestampOffset(-1, -1, -1)

Response = codec.response(ApiKey.LIST_OFFSETS)
Topic = Response.ListOffsetsTopicResponse
Result = Topic.ListOffsetsPartitionResponse


class _Asked(NamedTuple):
    """The request. ``version``: the version of the API."""

    services: Services
    context: RequestContext
    turns: ResponseTurns
    version: int
    isolation: FetchIsolation


class _Lookup(NamedTuple):
    """A partition that this broker leads, and the timestamp that is looked up."""

    partition: Partition
    log: Log
    timestamp: int


class _RemoteLookup(NamedTuple):
    """A lookup that begins in remote storage.

    The search returns the found offset, and the first local offset at the time when the search began.
    """

    lookup: _Lookup
    search: RemoteSearch[tuple[TimestampOffset | None, int]]


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return offset, timestamp and leader epoch (version 0: a list of offsets), or an error, for each partition.
    Lookups in remote storage are concurrent; those that take too long are answered with REQUEST_TIMED_OUT."""
    turns = ResponseTurns(services.clock, context)
    counts = await _counted(turns, request)
    asked = _Asked(services, context, turns, header.api_version, _isolation(request, header.api_version))
    topics, remote = [], []
    for named in request.topics:
        results: list[Any] = []
        for wanted in named.partitions:
            tp = TopicPartition(named.name, wanted.partition_index)
            try:
                if counts[tp] > 1 and header.api_version > 0:
                    raise ApiError(ErrorCode.INVALID_REQUEST)
                await turns.make(_RESULT_BYTES)
                await turns.spend(_COST)
                result = await _result(asked, tp, wanted)
            except EXPECTED as error:
                result = _failed(wanted.partition_index, error)
            if isinstance(result, _RemoteLookup):
                await turns.make(_SEARCH_BYTES)
                remote.append((results, len(results), result))
            results.append(result)
        topics.append(Topic(name=named.name, partitions=results))
    if remote:
        await search_all(services.clock, turns, (lookup.search for _, _, lookup in remote))
    for results, place, lookup in remote:
        await turns.spend(_COST)
        number = lookup.lookup.partition.tp.partition
        try:
            results[place] = _found(number, await _after_search(asked, lookup))
        except EXPECTED as error:
            results[place] = _failed(number, error)
    return Response(topics=topics)


async def _counted(turns: ResponseTurns, request: Any) -> Counter[tuple[str, int]]:
    """How often the request names each partition."""
    counts: Counter[tuple[str, int]] = Counter()
    for named in request.topics:
        for wanted in named.partitions:
            if turns.is_over:
                await turns.next()
            counts[named.name, wanted.partition_index] += 1
    return counts


async def _result(asked: _Asked, tp: TopicPartition, wanted: Any) -> Any:
    """The result for a partition, or a _RemoteLookup."""
    services, version = asked.services, asked.version
    if not services.authorizer.authorize(asked.context, Operation.DESCRIBE, topic(tp.topic)):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    partition = services.replicas.partition(tp)
    log = partition.leader_log(wanted.current_leader_epoch if version >= 4 else -1)
    if version > 0:
        found = await _looked_up(asked, _Lookup(partition, log, wanted.timestamp))
        return found if isinstance(found, _RemoteLookup) else _found(tp.partition, found)
    with _reading(services, log):
        offsets = _offsets_before(
            log, log.readable_end(asked.isolation), wanted.timestamp, wanted.max_num_offsets, services.clock.wall_ms()
        )
    return Result(partition_index=tp.partition, error_code=0, old_style_offsets=offsets)


def _found(number: int, found: TimestampOffset) -> Any:
    return Result(
        partition_index=number,
        error_code=0,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _failed(number: int, error: Exception) -> Any:
    return Result(partition_index=number, error_code=error_code(error), old_style_offsets=[])


@contextmanager
def _reading(services: Services, log: Log) -> Iterator[None]:
    """An OSError takes the log's directory offline."""
    try:
        yield
    except OSError as error:
        services.replicas.logs.fail_directory(log, error)
        raise


def _isolation(request: Any, version: int) -> FetchIsolation:
    if request.replica_id >= 0:
        return FetchIsolation.LOG_END
    is_committed_only = version >= 2 and request.isolation_level == 1
    return FetchIsolation.TXN_COMMITTED if is_committed_only else FetchIsolation.HIGH_WATERMARK


async def _looked_up(asked: _Asked, lookup: _Lookup) -> TimestampOffset | _RemoteLookup:
    partition, log, timestamp = lookup
    if asked.version < _FIRST_VERSION.get(timestamp, 0) or timestamp < LATEST_TIERED:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if timestamp == LATEST:
        _check_committed_is_known(asked, partition)
        return TimestampOffset(-1, log.readable_end(asked.isolation), log.leader_epochs.latest_epoch)
    if timestamp == EARLIEST:
        return _at(log, log.log_start_offset)
    local_start = log.local_log_start_offset
    if timestamp == EARLIEST_LOCAL:
        return _at(log, local_start)
    remote = _remote(asked, log)
    if timestamp == LATEST_TIERED and remote is not None:
        return _RemoteLookup(lookup, RemoteSearch(partial(_latest_tiered, remote, lookup)))
    if timestamp == LATEST_TIERED:
        return _UNKNOWN
    if timestamp >= 0 and remote is not None and log.log_start_offset < local_start:
        return _RemoteLookup(lookup, RemoteSearch(partial(_remote_offset, remote, lookup)))
    return _visible(asked, lookup, await _local_offset(asked, lookup, local_start))


def _remote(asked: _Asked, log: Log) -> "RemoteReads | None":
    return asked.services.remote_reads if log.config.is_tiered else None


async def _latest_tiered(remote: "RemoteReads", lookup: _Lookup) -> tuple[TimestampOffset | None, int]:
    local_start = lookup.log.local_log_start_offset
    return _at(lookup.log, await remote.latest_tiered(lookup.partition, lookup.log)), local_start


async def _remote_offset(remote: "RemoteReads", lookup: _Lookup) -> tuple[TimestampOffset | None, int]:
    local_start = lookup.log.local_log_start_offset
    return await remote.offset_for_timestamp(lookup.partition, lookup.log, lookup.timestamp), local_start


async def _after_search(asked: _Asked, remote: _RemoteLookup) -> TimestampOffset:
    """The result of a search in remote storage. If the search found nothing, the result of a search in the local log.
    Raises what the search in remote storage raised."""
    lookup = remote.lookup
    with _reading(asked.services, lookup.log):
        found, local_start = remote.search.result
    if found is None:
        found = await _local_offset(asked, lookup, local_start)
    elif lookup.timestamp == LATEST_TIERED:
        _check_same(lookup.partition, lookup.log)
        return found
    return _visible(asked, lookup, found)


async def _local_offset(asked: _Asked, lookup: _Lookup, local_start: int) -> TimestampOffset | None:
    """Search the local log, which began at ``local_start`` when the lookup began."""
    log, timestamp = lookup.log, lookup.timestamp
    with _reading(asked.services, log):
        search = log.max_timestamp_search() if timestamp == MAX_TIMESTAMP else log.timestamp_search(timestamp)
        found = await _searched(asked.services, asked.turns, search)
    if _remote(asked, log) is not None and log.local_log_start_offset != local_start:
        # some local records became remote
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
    return found


def _visible(asked: _Asked, lookup: _Lookup, found: TimestampOffset | None) -> TimestampOffset:
    _check_same(lookup.partition, lookup.log)
    if found is not None and found.offset < lookup.log.readable_end(asked.isolation):
        return found
    _check_committed_is_known(asked, lookup.partition)
    return _UNKNOWN


def _check_same(partition: Partition, log: Log) -> None:
    """Raise ApiError if the log has since been deleted or moved, or has failed."""
    if partition.leader_log() is not log:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _at(log: Log, offset: int) -> TimestampOffset:
    return TimestampOffset(-1, offset, log.leader_epochs.epoch_for_offset(offset))


def _check_committed_is_known(asked: _Asked, partition: Partition) -> None:
    """Raise ApiError for a consumer that, after an election, could see the log's end move back."""
    if asked.isolation is not FetchIsolation.LOG_END and not partition.knows_what_is_committed:
        is_known = asked.version >= _OFFSET_NOT_AVAILABLE_SINCE
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
