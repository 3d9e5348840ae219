"""WriteTxnMarkers: a transaction coordinator has the ends of transactions written into the logs of this broker.

Source: KafkaApis.handleWriteTxnMarkersRequest@3.9. Tests: tests/kafka_zk/handlers/test_transactions_in_logs.py.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from kafka_zk.handlers.error_map import error_code
from kafka_zk.handlers.services import Services
from kafka_zk.network.slices import Turns
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.replica.delayed_produce import AppendResult
from kafka_zk.replica.transaction_markers import TransactionMarker, append_marker, marker_records
from kafka_zk.security.authorizer import CLUSTER, Operation
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
_Appends = dict[TopicPartition, AppendResult | Awaitable[AppendResult]]
_SETTLED = (LogAppendInfo, Exception)


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
    if sum(len(tps) for _, tps in markers) > AT_ONCE:
        return _write_in_turns(services, markers)
    begun = [(marker, _begin(services, marker, tps)) for marker, tps in markers]
    if not all(isinstance(append, _SETTLED) for _, appends in begun for append in appends.values()):
        return _results_later(services, begun)
    results: Written = {}
    for marker, appends in begun:
        _note(services, results, marker, appends)
    return results


async def _write_in_turns(
    services: Services, markers: Sequence[tuple[TransactionMarker, Sequence[TopicPartition]]]
) -> Written:
    """All are appended before one is waited for."""
    turns = Turns(services.clock, goes_on=True)
    begun: list[tuple[TransactionMarker, _Appends]] = []
    for marker, tps in markers:
        for start in range(0, len(tps), AT_ONCE):
            if turns.is_over:
                await turns.next()
            begun.append((marker, _begin(services, marker, tps[start : start + AT_ONCE])))
    return await _results_later(services, begun)


def _begin(services: Services, marker: TransactionMarker, tps: Sequence[TopicPartition]) -> _Appends:
    """Append the marker everywhere; nobody is waited for yet."""
    begun: _Appends = {}
    replicas = services.replicas
    records = marker_records(marker, services.clock.wall_ms())
    for tp in tps:
        if replicas.logs.get(tp) is None:
            begun[tp] = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            begun[tp] = append_marker(replicas, tp, records, _TIMEOUT_MS)
    return begun


async def _results_later(services: Services, begun: Sequence[tuple[TransactionMarker, _Appends]]) -> Written:
    results: Written = {}
    for marker, appends in begun:
        settled = {tp: each if isinstance(each, _SETTLED) else await each for tp, each in appends.items()}
        _note(services, results, marker, settled)
    return results


def _note(
    services: Services, results: Written, marker: TransactionMarker, settled: Mapping[TopicPartition, Any]
) -> None:
    """What became of the appends of a marker."""
    codes = {tp: _code_of(append) for tp, append in settled.items()}
    _tell(services, marker, codes)
    known = results.get(marker.producer_id)
    if known is None:
        results[marker.producer_id] = codes
    else:
        known.update(codes)


def _code_of(result: AppendResult) -> ErrorCode:
    return ErrorCode.NONE if isinstance(result, LogAppendInfo) else error_code(result)


def _tell(services: Services, marker: TransactionMarker, codes: Codes) -> None:
    """Committed offsets of the transaction count from now on, or never."""
    written = [tp for tp, code in codes.items() if code is ErrorCode.NONE]
    if written:
        for markers_written in services.replicas.marker_listeners:
            markers_written(marker.producer_id, written, marker.is_commit)


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
