"""WriteTxnMarkers: a coordinator writes markers to logs that this broker leads.

Source: KafkaApis.handleWriteTxnMarkersRequest@3.9.
Tests: tests/kafka_zk/broker/handlers/transactions/test_transactions_in_logs.py.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeAlias

from twisted.internet.defer import ensureDeferred

from kafka_zk.base.turns import Turns
from kafka_zk.base.types import LogAppendInfo, TopicPartition
from kafka_zk.broker.handlers.error_map import error_code
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.replica.delayed_produce import APPEND_ERRORS, AppendResult
from kafka_zk.broker.replica.transaction_markers import MarkersAppended, TransactionMarker, append_markers, batch_of
from kafka_zk.broker.security.authorizer import CLUSTER, Operation
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.storage.log.log import MAX_MARKERS_PER_WRITE
from kafka_zk.storage.records.end_transaction_marker import MARKER_BYTES, MarkerBatch

_TIMEOUT_MS = 30_000  # request.timeout.ms

Response = codec.response(ApiKey.WRITE_TXN_MARKERS)
Result = Response.WritableTxnMarkerResult
Topic = Result.WritableTxnMarkerTopicResult
Partition = Topic.WritableTxnMarkerPartitionResult

AT_ONCE = 64
"""Number of markers that are appended in one turn of the reactor."""

Codes = dict[TopicPartition, ErrorCode]
Written = dict[int, Codes]
_Part: TypeAlias = tuple[TopicPartition, list[MarkerBatch]]
"""A partition, and the markers of one append."""

_SETTLED = (LogAppendInfo, *APPEND_ERRORS)
_NONE, _UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_MAX_MARKERS_BYTES = MAX_MARKERS_PER_WRITE * MARKER_BYTES


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return a code for each partition of each marker, when all in-sync replicas have the markers."""
    turns = ResponseTurns(services.clock, context)
    authorizer = services.authorizer
    may_alter = authorizer.has_rules and authorizer.may(context, Operation.ALTER, CLUSTER)
    if not (may_alter or authorizer.authorize(context, Operation.CLUSTER_ACTION, CLUSTER)):
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return Response(
            markers=[
                await _answer(turns, each.producer_id, dict.fromkeys(_tps(each), refused)) for each in request.markers
            ]
        )
    writing = write(services, [(_marker(each), _tps(each)) for each in request.markers])
    results = writing if isinstance(writing, dict) else await writing
    return Response(markers=[await _answer(turns, producer_id, codes) for producer_id, codes in results.items()])


def write(
    services: Services, markers: Sequence[tuple[TransactionMarker, Sequence[TopicPartition]]]
) -> Written | Awaitable[Written]:
    """Error codes by producer id; an awaitable of them if an append is not complete."""
    written: Written = {}
    parts = _parts(services, markers, written)
    if sum([len(tps) for _, tps in markers]) > AT_ONCE:
        return _write_in_turns(services, parts, written)
    now_ms = services.clock.wall_ms()
    waiting = []
    for tp, batches in parts:
        appended = append_markers(services.replicas, tp, batches, now_ms, _TIMEOUT_MS)
        outcome, refused = appended
        if outcome is None or isinstance(outcome, _SETTLED):
            _note(services, tp, batches, refused, outcome, written)
        else:
            waiting.append((tp, batches, appended))
    return _noted_later(services, waiting, written) if waiting else written


def _parts(
    services: Services, markers: Sequence[tuple[TransactionMarker, Sequence[TopicPartition]]], written: Written
) -> list[_Part]:
    """Group markers into appends, in request order if a producer has several. A partition without a log on this broker
    only gets a code in ``written``."""
    now_ms, logs = services.clock.wall_ms(), services.replicas.logs
    most = MAX_MARKERS_PER_WRITE if len({marker.producer_id for marker, _ in markers}) == len(markers) else 1
    full: list[_Part] = []
    parts: dict[TopicPartition, list[MarkerBatch]] = {}
    for marker, tps in markers:
        codes = written.setdefault(marker.producer_id, {})
        batch = batch_of(marker, now_ms)
        for tp in tps:
            codes[tp] = _UNKNOWN  # replaced if the log exists; set now to keep the request order
            batches = parts.get(tp)
            if batches is not None and len(batches) < most:
                batches.append(batch)
                continue
            if batches is not None:
                full.append((tp, batches))
            log = logs.get(tp)
            if log is None:
                continue
            if log.config.segment_bytes < _MAX_MARKERS_BYTES:
                most = 1
            parts[tp] = [batch]
    return [*full, *parts.items()]


async def _write_in_turns(services: Services, parts: list[_Part], written: Written) -> Written:
    """All appends begin before the first is awaited."""
    turns = Turns(services.clock, ignores_disconnect=True)
    begun = []
    for tp, batches in parts:
        if turns.is_over:
            await turns.next()
        appended = append_markers(services.replicas, tp, batches, services.clock.wall_ms(), _TIMEOUT_MS)
        begun.append((tp, batches, appended))
    return await _noted_later(services, begun, written)


async def _noted_later(
    services: Services, begun: Sequence[tuple[TopicPartition, list[MarkerBatch], MarkersAppended]], written: Written
) -> Written:
    """Handle each append as soon as it completes."""
    for noting in [ensureDeferred(_noted(services, *each, written)) for each in begun]:
        await noting
    return written


async def _noted(
    services: Services, tp: TopicPartition, batches: list[MarkerBatch], appended: MarkersAppended, written: Written
) -> None:
    outcome, refused = appended
    settled = outcome if outcome is None or isinstance(outcome, _SETTLED) else await outcome
    _note(services, tp, batches, refused, settled, written)


def _note(
    services: Services,
    tp: TopicPartition,
    batches: list[MarkerBatch],
    refused: Mapping[int, Exception],
    outcome: AppendResult | None,
    written: Written,
) -> None:
    """Record the codes of a partition's markers, then notify listeners: committed offsets of the transactions take
    effect or are dropped."""
    code = error_code(outcome) if isinstance(outcome, Exception) else _NONE
    for _, header, _ in batches:
        written[header.producer_id][tp] = code
    for place, error in refused.items():
        written[batches[place].header.producer_id][tp] = error_code(error)
    accepted = [each for place, each in enumerate(batches) if place not in refused] if refused else batches
    if isinstance(outcome, LogAppendInfo):
        for markers_written in services.replicas.marker_listeners:
            markers_written(tp, outcome.first_offset, accepted)


def _marker(asked: Any) -> TransactionMarker:
    return TransactionMarker(
        asked.producer_id, asked.producer_epoch, asked.coordinator_epoch, asked.transaction_result
    )


def _tps(marker: Any) -> list[TopicPartition]:
    return [TopicPartition(named.name, number) for named in marker.topics for number in named.partition_indexes]


async def _answer(turns: ResponseTurns, producer_id: int, codes: Codes) -> Any:
    by_topic: dict[str, list[Any]] = {}
    async for tp, code in turns.each(codes.items()):
        by_topic.setdefault(tp.topic, []).append(Partition(partition_index=tp.partition, error_code=code))
    topics = [Topic(name=name, partitions=partitions) for name, partitions in by_topic.items()]
    return Result(producer_id=producer_id, topics=topics)
