"""Fetch: file slices from the offsets asked for, after waiting for ``min_bytes`` at most ``max_wait_ms``.

Source: KafkaApis.handleFetchRequest, ReplicaManager.fetchMessages and readFromLog@3.9.
"""

import functools
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from typing import NamedTuple

from kafka_zk.base.turns import Turns
from kafka_zk.base.types import FetchIsolation, TopicPartition
from kafka_zk.broker.handlers.data import conversion, leader_hints
from kafka_zk.broker.handlers.data.preferred_read_replica import Elsewhere, read_elsewhere
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code
from kafka_zk.broker.handlers.large_requests import LARGE_BODY_BYTES, coded_in_turns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.replica import follower_fetch
from kafka_zk.broker.replica.fetch_session import FetchContext, Fetched, PartitionKey, TopicKey, Wanted
from kafka_zk.broker.replica.follower_waits import FOLLOWER_FETCHES, FollowerFetches, NewlyLed
from kafka_zk.broker.replica.isr_updates import Follower
from kafka_zk.broker.security.authorizer import CLUSTER, Operation, topic
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.fetch import AbortedTransaction, FetchedPartition, FetchResponse, Part, write_fetch_response
from kafka_zk.protocol.fetch_request import (
    TOPIC_IDS_SINCE,
    FetchPartition,
    FetchRequest,
    read_fetch_request,
    read_fetch_request_in_steps,
)
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.storage.files.errors import OffsetOutOfRange
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.segments.log_segments import LogRead
from kafka_zk.storage.segments.segment import FileSlice

_LOG_END, _HIGH_WATERMARK, _TXN_COMMITTED = (
    FetchIsolation.LOG_END, FetchIsolation.HIGH_WATERMARK, FetchIsolation.TXN_COMMITTED
)  # fmt: skip
_READ_COMMITTED = 1
_MAGIC_2_SINCE = conversion.MAGIC_2_SINCE_FETCH
_ZSTD_SINCE = 10
_ANY_REPLICA_SINCE = 11
"""Consumers of this version and later may read from followers (KIP-392)."""
_AT_ONCE = 250
_FILES_SHARE = 8
"""An answer has slices of one in so many files that may be open: they stay open until the client has taken it."""


class _Wanted(NamedTuple):
    """One partition of the request; ``error`` when it cannot be read at all."""

    topic: TopicKey
    tp: TopicPartition
    fetch: FetchPartition
    error: ErrorCode | None


async def handle(services: Services, context: RequestContext, header: RequestHeader, body: memoryview) -> list[Part]:
    """Answer with what there is, waiting for more if that is less than the client asked for."""
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
        return write_fetch_response(version, header.correlation_id, FetchResponse([], error_code=error.code))
    is_follower = request.replica_id >= 0
    seen_count = services.replicas.changes.count
    asked = _due(services, context, request, fetching) if is_follower else fetching.wanted
    if is_large:
        wanted = await _resolve_in_turns(services, context, request, asked)
    else:
        wanted = _resolve(services, context, request, asked.items())
    if version < _ZSTD_SINCE:
        wanted = [_without_zstd(services, entry) for entry in wanted]
    isolation = _LOG_END if is_follower else _HIGH_WATERMARK
    if request.isolation_level == _READ_COMMITTED and not is_follower:
        isolation = _TXN_COMMITTED
    elsewhere = read_elsewhere(services, context, request) if request.rack_id else None
    fetched, size_bytes, is_final = _read_all(
        services, version, request, wanted, isolation, is_first_read=True, elsewhere=elsewhere
    )
    is_waiting = size_bytes < request.min_bytes and request.max_wait_ms > 0 and not (is_final and wanted)
    if is_waiting and is_follower and fetching.wanted:
        waited = _FollowerWait(services, version, request, fetching.wanted, wanted, seen_count)
        await waited.wait()
        wanted, fetched, is_final = waited.read(fetched)
        seen_count = waited.seen_count
    elif is_waiting and wanted:
        await _wait(services, version, request, wanted, isolation, fetched)
        fetched, is_final = _read_again(services, version, request, wanted, isolation, fetched, elsewhere)
    if version < _MAGIC_2_SINCE:
        fetched = await _converted(services, context, version, wanted, isolation, fetched)
    if is_final and version >= leader_hints.FETCH_SINCE:
        tps = (entry.tp for entry in wanted)
        endpoints = leader_hints.add_to_fetched(services, context.listener_name, tps, fetched)
        response = fetching.response(fetched)._replace(node_endpoints=endpoints)
    else:
        response = fetching.response(fetched)
    parts = write_fetch_response(version, header.correlation_id, response)
    if is_follower:
        _count_replication(services, wanted, fetched, parts)
        if fetching.session is not None:
            fetching.session.answered(_unfinished(services, request.replica_id, wanted, fetched), seen_count)
    return parts


def _due(services: Services, context: RequestContext, request: FetchRequest, fetching: FetchContext) -> Wanted:
    """What of a follower's partitions to look at."""
    session, replicas = fetching.session, services.replicas
    if session is None or not fetching.is_incremental:
        return fetching.wanted
    changed = None
    if not replicas.quotas.leader.throttled:
        tps = replicas.changes.since(session.seen_count)
        if tps is not None and tps <= replicas.partitions.keys():
            changed = {_key_of(services, tp, session.uses_topic_ids) for tp in tps}
    names: dict[TopicKey, str] = {}

    def agrees(key: PartitionKey, fetch: FetchPartition) -> bool:
        topic, number = key
        if topic not in names:
            names[topic] = _resolve_topic(services, context, request, topic)[0]
        return _is_of_one_epoch(services, TopicPartition(names[topic], number), fetch)

    return session.due(request, changed, replicas.isr_updates.now_ms(), agrees)


def _is_of_one_epoch(services: Services, tp: TopicPartition, fetch: FetchPartition) -> bool:
    """Whether the follower is in this broker's leader epoch, as far as both are known."""
    partition = services.replicas.partitions.get(tp)
    return partition is None or fetch.current_leader_epoch in (-1, partition.leader_epoch)


def _key_of(services: Services, tp: TopicPartition, uses_topic_ids: bool) -> PartitionKey:
    return (services.replicas.partitions[tp].topic_id.bytes if uses_topic_ids else tp.topic), tp.partition


def _unfinished(
    services: Services, broker_id: int, wanted: list[_Wanted], fetched: Fetched
) -> Iterator[PartitionKey]:
    for entry, (key, result) in zip(wanted, fetched, strict=True):
        partition = services.replicas.partitions.get(entry.tp)
        if (
            result.error_code
            or result.records
            or result.diverging_epoch is not None
            or partition is None
            or partition.log is None
            or partition.log.log_end_offset != entry.fetch.fetch_offset
            or partition.remotes is None
            or broker_id not in partition.remotes.state.maximal_isr
            or not partition.remotes.knows(broker_id, entry.fetch.fetch_offset, entry.fetch.log_start_offset)
        ):
            yield key, result.partition


def _count_replication(services: Services, wanted: list[_Wanted], fetched: Fetched, parts: list[Part]) -> None:
    """Those in sync are not held back, but what they are sent counts."""
    replicas = services.replicas
    replicas.replication_bytes_out += sum(map(len, parts))
    quota = replicas.quotas.leader
    if quota.throttled:
        sizes_bytes = (
            len(result.records or b"")
            for entry, (_, result) in zip(wanted, fetched, strict=True)
            if quota.is_throttled(entry.tp)
        )
        quota.record(sum(sizes_bytes), replicas.isr_updates.now_ms())


async def _resolve_in_turns(
    services: Services, context: RequestContext, request: FetchRequest, asked: Wanted
) -> list[_Wanted]:
    """For many partitions."""
    remaining = iter(list(asked.items()))  # of a session, which may change between two turns
    turns = Turns(services.clock)
    wanted: list[_Wanted] = []
    while some := _resolve(services, context, request, islice(remaining, _AT_ONCE)):
        wanted += some
        if turns.is_over:
            await turns.next()
    return wanted


def _resolve(
    services: Services,
    context: RequestContext,
    request: FetchRequest,
    asked: Iterable[tuple[PartitionKey, FetchPartition]],
) -> list[_Wanted]:
    """Find the topics' names and whether the client may read them."""
    names: dict[TopicKey, tuple[str, ErrorCode | None]] = {}
    known = services.metadata.topics
    wanted = []
    for (key, partition), fetch in asked:
        if key not in names:
            names[key] = _resolve_topic(services, context, request, key)
        name, error = names[key]
        if error is None and request.replica_id < 0 and partition not in known.get(name, ()):
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        wanted.append(_Wanted(key, TopicPartition(name, partition), fetch, error))
    return wanted


def _without_zstd(services: Services, entry: _Wanted) -> _Wanted:
    """An old consumer would take records of a topic that is kept in zstd for damaged."""
    partition = services.replicas.partitions.get(entry.tp)
    log = None if partition is None else partition.log
    if entry.error is not None or log is None or log.config.compression_type != "zstd":
        return entry
    return entry._replace(error=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


@functools.lru_cache(maxsize=1000)
def _topic_id(key: bytes) -> uuid.UUID:
    """Consumers ask for the same few topics again and again, and making the object costs as much as finding it."""
    return uuid.UUID(bytes=key)


def _resolve_topic(
    services: Services, context: RequestContext, request: FetchRequest, key: TopicKey
) -> tuple[str, ErrorCode | None]:
    is_follower = request.replica_id >= 0
    name = services.metadata.topic_names.get(_topic_id(key)) if isinstance(key, bytes) else key
    if name is None and is_follower and isinstance(key, bytes):
        name = services.replicas.topic_ids.name(_topic_id(key))  # LeaderAndIsr comes before UpdateMetadata
    if is_follower and not services.authorizer.authorize(context, Operation.CLUSTER_ACTION, CLUSTER):
        return name or "", ErrorCode.TOPIC_AUTHORIZATION_FAILED  # reads to the log end are for followers only
    if name is None:
        return "", ErrorCode.UNKNOWN_TOPIC_ID
    if not is_follower and not services.authorizer.authorize(context, Operation.READ, topic(name)):
        return name, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return name, None


def _read_all(
    services: Services,
    version: int,
    request: FetchRequest,
    wanted: list[_Wanted],
    isolation: FetchIsolation,
    *,
    is_first_read: bool = False,
    elsewhere: Elsewhere | None = None,
) -> tuple[Fetched, int, bool]:
    """What there is, its size in bytes, and whether waiting would not change it (an error, or nothing asked for).

    ``elsewhere`` answers for a partition that the consumer should read from another broker.
    """
    follower = Follower(request.replica_id, request.replica_epoch) if request.replica_id >= 0 else None
    left_bytes = min(request.max_bytes, services.config.fetch_max_bytes)
    slices_left = services.replicas.logs.pool.max_open_files // _FILES_SHARE
    size_bytes = 0
    is_final = not wanted
    fetched = []
    for entry in wanted:
        if entry.error is not None:
            result = FetchedPartition(entry.fetch.partition, entry.error)
        elif follower is not None:
            result = _read_for(follower, services, entry, left_bytes, size_bytes == 0, is_first_read)
        elif elsewhere is not None and (moved := elsewhere(entry.tp, entry.fetch)) is not None:
            result = moved
        elif version >= _MAGIC_2_SINCE:
            result = _read(services, version, entry, isolation, left_bytes, size_bytes == 0)
        else:
            result = conversion.read(
                services, version, entry.tp, entry.fetch, isolation, left_bytes, size_bytes == 0
            )
        found_bytes = 0 if result.records is None else len(result.records)
        if result.error_code:
            is_final = True
        elif found_bytes:
            size_bytes += found_bytes
            slices_left -= 1
            left_bytes = max(0, left_bytes - found_bytes)
            if slices_left <= 0:
                left_bytes = 0
                is_final = True
        elif result.diverging_epoch is not None or result.preferred_read_replica >= 0:
            is_final = True
        fetched.append((entry.topic, result))
    return fetched, size_bytes, is_final


def _read_again(
    services: Services,
    version: int,
    request: FetchRequest,
    wanted: list[_Wanted],
    isolation: FetchIsolation,
    fetched: Fetched,
    elsewhere: Elsewhere | None,
) -> tuple[Fetched, bool]:
    """What there is after the wait, and whether an error can be among it. A request that waited for its first byte had
    none, and of many partitions few have news."""
    if request.min_bytes > 1 or elsewhere is not None:
        again, _, is_final = _read_all(services, version, request, wanted, isolation, elsewhere=elsewhere)
        return again, is_final
    places = [
        place
        for place, (_, before) in enumerate(fetched)
        if _has_something(services, version, request, wanted[place], isolation, before)
    ]
    news, _, is_final = _read_all(services, version, request, [wanted[place] for place in places], isolation)
    again = list(fetched)
    for place, result in zip(places, news, strict=True):
        again[place] = result
    return again, is_final


def _read(
    services: Services,
    version: int,
    wanted: _Wanted,
    isolation: FetchIsolation,
    left_bytes: int,
    min_one_batch: bool,
) -> FetchedPartition:
    fetch = wanted.fetch
    try:
        log, found = services.replicas.read(
            wanted.tp,
            fetch.fetch_offset,
            min(fetch.partition_max_bytes, left_bytes),
            isolation,
            current_leader_epoch=fetch.current_leader_epoch,
            min_one_batch=min_one_batch,
            any_replica=version >= _ANY_REPLICA_SINCE,
        )
    except OffsetOutOfRange:
        return _out_of_range(services, wanted)
    except EXPECTED as error:
        return FetchedPartition(fetch.partition, error_code(error))
    aborted: list[AbortedTransaction] | None = None
    if isolation is _TXN_COMMITTED:
        try:
            aborted = _aborted(services, log, fetch.fetch_offset, found)
        except OSError as error:
            return FetchedPartition(fetch.partition, error_code(error))
    return FetchedPartition(
        fetch.partition,
        0,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        found.slice if found.slice is not None else b"",
        aborted,
    )


def _aborted(services: Services, log: Log, fetch_offset: int, found: LogRead) -> list[AbortedTransaction]:
    """What a reader of committed data must skip in what was found."""
    if found.slice is None:
        return []
    transactions = services.replicas.aborted_transactions(log, fetch_offset, found.next_offset)
    return [AbortedTransaction(each.producer_id, each.first_offset) for each in transactions]


def _read_for(
    follower: Follower,
    services: Services,
    wanted: _Wanted,
    left_bytes: int,
    min_one_batch: bool,
    is_first_read: bool,
) -> FetchedPartition:
    fetch = wanted.fetch
    try:
        log, records, diverging_epoch = follower_fetch.read(
            services.replicas,
            wanted.tp,
            follower,
            fetch,
            min(fetch.partition_max_bytes, left_bytes),
            min_one_batch=min_one_batch,
            is_first_read=is_first_read,
        )
    except OffsetOutOfRange:
        return _out_of_range(services, wanted)
    except EXPECTED as error:
        return FetchedPartition(fetch.partition, error_code(error))
    return FetchedPartition(
        fetch.partition,
        0,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        b"" if records is None else records,
        diverging_epoch=diverging_epoch,
    )


def _out_of_range(services: Services, wanted: _Wanted) -> FetchedPartition:
    log = services.replicas.partition(wanted.tp).readable_log()
    code = ErrorCode.OFFSET_OUT_OF_RANGE
    return FetchedPartition(wanted.fetch.partition, code, log_start_offset=log.log_start_offset)


async def _converted(
    services: Services,
    context: RequestContext,
    version: int,
    wanted: list[_Wanted],
    isolation: FetchIsolation,
    fetched: Fetched,
) -> Fetched:
    """For versions 0 to 3: the records as message sets."""
    converting = conversion.DownConversion(services, context.memory, version, isolation)
    with ExitStack() as slices:
        held = [(key, _held(slices, result)) for key, result in fetched]
        return [
            (key, await converting.convert(entry.tp, entry.fetch.fetch_offset, result))
            for entry, (key, result) in zip(wanted, held, strict=True)
        ]


def _held(slices: ExitStack, result: FetchedPartition) -> FetchedPartition:
    """The result, whose slice stays readable until ``slices`` is closed."""
    if isinstance(result.records, FileSlice):
        try:
            slices.callback(result.records.retain().release)
        except OSError as error:  # its file was closed, and cannot be opened again
            return FetchedPartition(result.partition, error_code(error))
    return result


class _Awaited:
    """What a consumer's request that waits would get, kept up to date from the partitions that change; no other is
    looked at.

    Each partition counts with what it would give if it were alone in the answer, as in Kafka.
    """

    def __init__(self, services: Services, version: int, request: FetchRequest, isolation: FetchIsolation) -> None:
        self._services = services
        self._version = version
        self._request = request
        self._isolation = isolation
        self._wanted: dict[TopicPartition, _Wanted] = {}
        self._sizes_bytes: dict[TopicPartition, int] = {}  # of partitions that have something
        self._size_bytes = 0  # their sum
        self._most_slices = services.replicas.logs.pool.max_open_files // _FILES_SHARE
        self.is_over = False

    def add(self, key: TopicPartition, entry: _Wanted, result: FetchedPartition) -> None:
        """A partition, and what it gave last."""
        self._wanted[key] = entry
        if result.records:
            self._count(key, len(result.records))

    def changed(self, key: TopicPartition) -> None:
        """Find out whether the wait is over: there is enough, or waiting would not bring more."""
        entry = self._wanted[key]
        if self._request.min_bytes <= 1:
            self.is_over = _has_something(self._services, self._version, self._request, entry, self._isolation)
            return
        _, size_bytes, is_final = _read_all(self._services, self._version, self._request, [entry], self._isolation)
        self._count(key, size_bytes)
        has_enough = self._size_bytes >= self._request.min_bytes
        self.is_over = is_final or has_enough or len(self._sizes_bytes) >= self._most_slices

    def _count(self, key: TopicPartition, size_bytes: int) -> None:
        self._size_bytes += size_bytes - self._sizes_bytes.pop(key, 0)
        if size_bytes:
            self._sizes_bytes[key] = size_bytes


async def _wait(
    services: Services,
    version: int,
    request: FetchRequest,
    wanted: list[_Wanted],
    isolation: FetchIsolation,
    fetched: Fetched,
) -> None:
    """Until there are ``min_bytes`` or a partition changes so that waiting is pointless, at most ``max_wait_ms``.

    ``fetched``: what there is now, which is less.
    """
    awaited = _Awaited(services, version, request, isolation)
    for entry, (_, result) in zip(wanted, fetched, strict=True):
        awaited.add(entry.tp, entry, result)
    keys = [entry.tp for entry in wanted]
    await services.fetch_purgatory.wait(keys, lambda: awaited.is_over, request.max_wait_ms, awaited.changed)


class _FollowerWait:
    """A follower's fetch that waits: which partitions change meanwhile, and what it is told then.

    Args:
        wanted: all that it follows here.
        looked_at: what was read before the wait, when there were ``seen_count`` changes.
    """

    def __init__(
        self,
        services: Services,
        version: int,
        request: FetchRequest,
        wanted: Wanted,
        looked_at: list[_Wanted],
        seen_count: int,
    ) -> None:
        self._services = services
        self._version = version
        self._request = request
        self._wanted = wanted
        self._looked_at = looked_at
        self._news: dict[TopicPartition, _Wanted] = {}
        self._is_over = False
        self.seen_count = seen_count

    async def wait(self) -> None:
        """As ``_wait``. What this follower told may have let a producer go on, who wrote more after it was read."""
        self._look()
        if not self._is_over:
            replicas = self._services.replicas
            max_wait_ms = replicas.follower_waits.limit_ms(self._request.max_wait_ms)
            keys = (FOLLOWER_FETCHES, NewlyLed())
            await replicas.purgatory.wait(keys, lambda: self._is_over, max_wait_ms, self._look)
            self._look()

    def _look(self, key: FollowerFetches | NewlyLed | None = None) -> None:
        changes = self._services.replicas.changes
        changed = changes.since(self.seen_count)
        if isinstance(key, NewlyLed) or changed is None or not changed <= self._services.replicas.partitions.keys():
            self._is_over = True  # and whatever has changed is due with the next request
            return
        self.seen_count = changes.count
        news = [entry for entry in map(self._entry, sorted(changed)) if entry is not None]
        self._news.update((entry.tp, entry) for entry in news)
        if self._request.min_bytes <= 1:
            self._is_over = any(map(self._has_something, news))
        elif news:
            followed = list({entry.tp: entry for entry in (*self._looked_at, *self._news.values())}.values())
            _, size_bytes, is_final = _read_all(self._services, self._version, self._request, followed, _LOG_END)
            self._is_over = is_final or size_bytes >= self._request.min_bytes

    def _entry(self, tp: TopicPartition) -> _Wanted | None:
        key = _key_of(self._services, tp, self._version >= TOPIC_IDS_SINCE)
        fetch = self._wanted.get(key)
        if fetch is None or not _is_of_one_epoch(self._services, tp, fetch):
            return None
        return _Wanted(key[0], tp, fetch, None)

    def _has_something(self, entry: _Wanted, before: FetchedPartition | None = None) -> bool:
        if follower_fetch.is_held_back(self._services.replicas, entry.tp, self._request.replica_id):
            return False
        return _has_something(self._services, self._version, self._request, entry, _LOG_END, before)

    def read(self, fetched: Fetched) -> tuple[list[_Wanted], Fetched, bool]:
        """What was read, what there is now, and whether an error can be among it; ``fetched``: what was read before."""
        places = [
            place
            for place, (entry, (_, before)) in enumerate(zip(self._looked_at, fetched, strict=True))
            if _has_something(self._services, self._version, self._request, entry, _LOG_END, before)
        ]
        known = {entry.tp for entry in self._looked_at}
        more = [entry for tp, entry in self._news.items() if tp not in known]
        again = [*(self._looked_at[place] for place in places), *more]
        news, _, is_final = _read_all(self._services, self._version, self._request, again, _LOG_END)
        told = list(fetched)
        for place, result in zip(places, news, strict=False):
            told[place] = result
        return [*self._looked_at, *more], [*told, *news[len(places) :]], is_final


def _has_something(
    services: Services,
    version: int,
    request: FetchRequest,
    entry: _Wanted,
    isolation: FetchIsolation,
    before: FetchedPartition | None = None,
) -> bool:
    """Whether a read would find records or an error, or another high watermark or log start offset than ``before``."""
    partition = services.replicas.partitions.get(entry.tp)
    if partition is None:
        return True
    any_replica = version >= _ANY_REPLICA_SINCE and request.replica_id < 0
    fetch = entry.fetch
    try:
        log = (partition.readable_log if any_replica else partition.leader_log)(fetch.current_leader_epoch)
    except ApiError:
        return True
    return log.readable_end(isolation) > fetch.fetch_offset or (
        before is not None
        and (log.high_watermark != before.high_watermark or log.log_start_offset != before.log_start_offset)
    )
