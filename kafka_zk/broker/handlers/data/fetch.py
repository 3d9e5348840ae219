"""Fetch: file slices from the requested offsets, after waiting at most ``max_wait_ms`` for ``min_bytes``.

Source: KafkaApis.handleFetchRequest, ReplicaManager.fetchMessages@3.9.
"""

from contextlib import ExitStack

from kafka_zk.base.types import new_tuple
from kafka_zk.broker.handlers.data import consumer_fetch_wait, conversion, leader_hints, replica_fetch
from kafka_zk.broker.handlers.data.partition_reads import PartitionReads
from kafka_zk.broker.handlers.data.preferred_read_replica import read_elsewhere
from kafka_zk.broker.handlers.data.remote_fetch import read_remote
from kafka_zk.broker.handlers.data.requested_partitions import RequestedPartition, resolve, resolve_in_turns
from kafka_zk.broker.handlers.error_map import error_code
from kafka_zk.broker.handlers.large_requests import LARGE_BODY_BYTES, coded_in_turns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.quota.buckets import RateBucket
from kafka_zk.broker.quota.enforcement import ExemptAnswer, ThrottledAnswer
from kafka_zk.broker.replica.fetch_session import FetchContext, Fetched
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.fetch import FetchedPartition, FetchResponse, Part, write_fetch_response
from kafka_zk.protocol.fetch_request import (
    TOPIC_IDS_SINCE,
    FetchRequest,
    read_fetch_request,
    read_fetch_request_in_steps,
)
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.storage.segments.file_slice import FileSlice

_ZSTD_SINCE = 10
_HEAD_BYTES, _ENTRY_BYTES = 40, 60  # size without records, but with topic ids and tags


async def handle(
    services: Services,
    context: RequestContext,
    header: RequestHeader,
    body: memoryview,
    quota: RateBucket | None = None,
) -> list[Part]:
    """Return the available records. Wait first if they have fewer than ``min_bytes``.

    ``quota``: the client's fetch quota; None for a follower.
    """
    version = header.api_version
    is_large = len(body) > LARGE_BODY_BYTES
    if is_large:
        request = await coded_in_turns(services.clock, context, read_fetch_request_in_steps(version, body))
    else:
        request = read_fetch_request(version, body)
    try:
        fetching = services.fetch_sessions.open(
            request, version >= TOPIC_IDS_SINCE, services.clock.wall_ns() // 1_000_000
        )
    except ApiError as error:
        refusal = write_fetch_response(version, header.correlation_id, FetchResponse([], error_code=error.code))
        return ExemptAnswer(refusal) if request.replica_id >= 0 else refusal
    is_follower = request.replica_id >= 0
    if quota is not None and (is_follower or request.max_bytes > quota.most_in_window):
        quota, request = (None, request) if is_follower else (quota, _capped(request, quota))
    seen_count = services.replicas.changes.count
    asked = replica_fetch.due(services, context, request, fetching) if is_follower else fetching.wanted
    if is_large:
        requested = await resolve_in_turns(services, context, request, asked)
    else:
        requested = resolve(services, context, request, asked.items())
    if version < _ZSTD_SINCE:
        requested = [_without_zstd(services, entry) for entry in requested]
    elsewhere = read_elsewhere(services, context, request) if request.rack_id else None
    reads = PartitionReads(services, version, request, elsewhere)
    fetched, size_bytes, is_final = reads.read_all(requested, is_first_read=True)
    if size_bytes < request.min_bytes and request.max_wait_ms > 0 and not (is_final and requested):
        if is_follower and fetching.wanted:
            waited = replica_fetch.FollowerWait(services, reads, fetching.wanted, requested, seen_count)
            await waited.wait()
            requested, fetched, is_final = waited.read(fetched)
            seen_count = waited.seen_count
        elif requested:
            await consumer_fetch_wait.wait(services, reads, requested, fetched)
            fetched, size_bytes, is_final = consumer_fetch_wait.read_again(reads, requested, fetched)
    fetched, remote_bytes = await read_remote(services, reads, requested, fetched)
    size_bytes += remote_bytes
    if quota is not None:
        wait_ms = quota.admit(_HEAD_BYTES + len(fetched) * _ENTRY_BYTES + size_bytes, services.clock.seconds() * 1000)
        if wait_ms > 0:
            return _refusal(services, header, fetching, wait_ms)
    if version < conversion.MAGIC_2_SINCE_FETCH:
        fetched = await _converted(services, context, reads, requested, fetched)
    if is_final and version >= leader_hints.FETCH_SINCE:
        tps = (entry.tp for entry in requested)
        endpoints = leader_hints.add_to_fetched(services, context.listener_name, tps, fetched)
        response = fetching.response(fetched)._replace(node_endpoints=endpoints)
    else:
        response = fetching.response(fetched)
    parts = write_fetch_response(version, header.correlation_id, response)
    if is_follower:
        replica_fetch.count_replication(services, requested, fetched, parts)
        replica_fetch.note_answer(services, request.replica_id, fetching, requested, fetched, seen_count)
        return ExemptAnswer(parts)
    return parts if quota is None or not wait_ms else ThrottledAnswer(parts, -wait_ms)


def _capped(request: FetchRequest, quota: RateBucket) -> FetchRequest:
    """Set ``max_bytes`` to the most that the quota can ever admit; unchanged if the quota admits nothing."""
    if not quota.most_in_window:
        return request
    return new_tuple(FetchRequest, (*request[:3], int(quota.most_in_window), *request[4:]))


def _refusal(services: Services, header: RequestHeader, fetching: FetchContext, wait_ms: int) -> list[Part]:
    services.fetch_sessions.take_back(fetching)
    empty = write_fetch_response(header.api_version, header.correlation_id, fetching.empty_response())
    return ThrottledAnswer(empty, wait_ms)


def _without_zstd(services: Services, entry: RequestedPartition) -> RequestedPartition:
    """Set UNSUPPORTED_COMPRESSION_TYPE for a zstd topic, because an old consumer would report damaged records."""
    partition = services.replicas.partitions.get(entry.tp)
    log = None if partition is None else partition.log
    if entry.error is not None or log is None or log.config.compression_type != "zstd":
        return entry
    return entry._replace(error=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


async def _converted(
    services: Services,
    context: RequestContext,
    reads: PartitionReads,
    requested: list[RequestedPartition],
    fetched: Fetched,
) -> Fetched:
    converting = conversion.DownConversion(services, context.memory, reads.version, reads.isolation)
    with ExitStack() as slices:
        held = [(key, _held(slices, result)) for key, result in fetched]
        return [
            (key, await converting.convert(entry.tp, entry.fetch.fetch_offset, result))
            for entry, (key, result) in zip(requested, held, strict=True)
        ]


def _held(slices: ExitStack, result: FetchedPartition) -> FetchedPartition:
    """The result, whose slice stays readable until ``slices`` is closed."""
    if isinstance(result.records, FileSlice):
        try:
            slices.callback(result.records.retain().release)
        except OSError as error:  # the segment was closed and cannot be reopened
            return FetchedPartition(result.partition, error_code(error))
    return result
