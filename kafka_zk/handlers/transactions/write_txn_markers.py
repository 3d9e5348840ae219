"""WriteTxnMarkers: a transaction coordinator has the ends of transactions written into the logs of this broker.

Source: KafkaApis.handleWriteTxnMarkersRequest@3.9. Tests: tests/kafka_zk/handlers/test_transactions_in_logs.py.
"""

from collections.abc import Awaitable, Iterator, Sequence
from typing import Any, NamedTuple

from twisted.internet.defer import ensureDeferred

from kafka_zk.handlers.error_map import error_code
from kafka_zk.handlers.services import Services
from kafka_zk.network.slices import Turns
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.replica.delayed_produce import AppendResult
from kafka_zk.replica.transaction_markers import MarkersAppended, TransactionMarker, append_markers, batch_of
from kafka_zk.security.authorizer import CLUSTER, Operation
from kafka_zk.storage.end_transaction_marker import MarkerBatch
from kafka_zk.storage.marker_appends import MOST_TOGETHER
from kafka_zk.storage.types import LogAppendInfo, TopicPartition

_TIMEOUT_MS = 30_000  # request.timeout.ms

Response = codec.response(ApiKey.WRITE_TXN_MARKERS)
Result = Response.WritableTxnMarkerResult
Topic = Result.WritableTxnMarkerTopicResult
Partition = Topic.WritableTxnMarkerPartitionResult

AT_ONCE = 64
"""So many markers are appended in one turn of the reactor."""

Codes = dict[TopicPartition, ErrorCode]
Written = dict[int, Codes]


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """A code for each partition of each marker, once the markers are in all in-sync replicas."""
    is_allowed = any(
        services.authorizer.authorize(context, operation, CLUSTER)
        for operation in (Operation.ALTER, Operation.CLUSTER_ACTION)
    )
    if not is_allowed:
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return Response(
            markers=[_answer(each.producer_id, dict.fromkeys(_tps(each), refused)) for each in request.markers]
        )
    writing = write(services, [(_marker(each), _tps(each)) for each in request.markers])
    results = writing if isinstance(writing, dict) else await writing
    return Response(markers=[_answer(producer_id, codes) for producer_id, codes in results.items()])


def write(
    services: Services, markers: Sequence[tuple[TransactionMarker, Sequence[TopicPartition]]]
) -> Written | Awaitable[Written]:
    """Append each marker to its partitions, which this broker leads: what became of it, by producer id. Nothing to
    await if nobody has to."""
    written: Written = {}
    parts = list(_parts(services, markers, written))
    if sum(len(part.markers) for part in parts) > AT_ONCE:
        return _write_in_turns(services, parts, written)
    outcomes = [_append(services, part) for part in parts]
    waiting = []
    for part, appended in zip(parts, outcomes, strict=True):
        if isinstance(appended.outcome, Awaitable):
            waiting.append((part, appended))
        else:
            _note(services, part, appended.results, appended.outcome, written)
    return _noted_later(services, waiting, written) if waiting else written


class _Part(NamedTuple):
    """Markers that are written together into one partition."""

    tp: TopicPartition
    markers: list[TransactionMarker]
    batches: list[MarkerBatch]


def _parts(
    services: Services, markers: Sequence[tuple[TransactionMarker, Sequence[TopicPartition]]], written: Written
) -> Iterator[_Part]:
    """In the order of the markers if a producer has several; of partitions that are not here only ``written`` tells."""
    now_ms = services.clock.wall_ms()
    most = MOST_TOGETHER if len({marker.producer_id for marker, _ in markers}) == len(markers) else 1
    parts: dict[TopicPartition, _Part] = {}
    for marker, tps in markers:
        codes = written.setdefault(marker.producer_id, {})
        batch = batch_of(marker, now_ms)
        for tp in tps:
            codes[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # unless it is here; answered in the order of the request
            part = parts.get(tp)
            if part is not None and len(part.markers) < most:
                part.markers.append(marker)
                part.batches.append(batch)
                continue
            if part is not None:
                yield part
            log = services.replicas.logs.get(tp)
            if log is None:
                continue
            if log.config.segment_bytes < MOST_TOGETHER * len(batch.batch):
                most = 1
            parts[tp] = _Part(tp, [marker], [batch])
    yield from parts.values()


def _append(services: Services, part: _Part) -> MarkersAppended:
    return append_markers(services.replicas, part.tp, part.batches, services.clock.wall_ms(), _TIMEOUT_MS)


async def _write_in_turns(services: Services, parts: list[_Part], written: Written) -> Written:
    """All are appended before one is waited for."""
    turns = Turns(services.clock, goes_on=True)
    begun = []
    for part in parts:
        if turns.is_over:
            await turns.next()
        begun.append((part, _append(services, part)))
    return await _noted_later(services, begun, written)


async def _noted_later(
    services: Services, begun: Sequence[tuple[_Part, MarkersAppended]], written: Written
) -> Written:
    """Each as soon as it is settled."""
    for noting in [ensureDeferred(_noted(services, *each, written)) for each in begun]:
        await noting
    return written


async def _noted(services: Services, part: _Part, appended: MarkersAppended, written: Written) -> None:
    results, outcome = appended
    _note(services, part, results, await outcome if isinstance(outcome, Awaitable) else outcome, written)


def _note(
    services: Services,
    part: _Part,
    results: Sequence[LogAppendInfo | Exception],
    outcome: AppendResult | None,
    written: Written,
) -> None:
    """What became of the markers in a partition. Committed offsets of a transaction count from now on, or never."""
    tp, listeners = part.tp, services.replicas.marker_listeners
    for (producer_id, _, _, is_commit), result in zip(part.markers, results, strict=True):
        settled = outcome if isinstance(result, LogAppendInfo) else result
        if isinstance(settled, Exception):
            written[producer_id][tp] = error_code(settled)
            continue
        written[producer_id][tp] = ErrorCode.NONE
        for markers_written in listeners:
            markers_written(producer_id, (tp,), is_commit)


def _marker(asked: Any) -> TransactionMarker:
    return TransactionMarker(
        asked.producer_id, asked.producer_epoch, asked.coordinator_epoch, asked.transaction_result
    )


def _tps(marker: Any) -> list[TopicPartition]:
    return [TopicPartition(named.name, number) for named in marker.topics for number in named.partition_indexes]


def _answer(producer_id: int, codes: Codes) -> Any:
    by_topic: dict[str, list[Any]] = {}
    for tp, code in codes.items():
        by_topic.setdefault(tp.topic, []).append(Partition(partition_index=tp.partition, error_code=code))
    topics = [Topic(name=name, partitions=partitions) for name, partitions in by_topic.items()]
    return Result(producer_id=producer_id, topics=topics)
