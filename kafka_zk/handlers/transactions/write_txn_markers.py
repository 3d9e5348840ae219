"""WriteTxnMarkers: a transaction coordinator has the ends of transactions written into the logs of this broker.

Source: KafkaApis.handleWriteTxnMarkersRequest@3.9. Tests: tests/kafka_zk/handlers/test_transactions_in_logs.py.
"""

from collections.abc import Awaitable, Iterable
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
    results = await write(services, [(_marker(each), _tps(each)) for each in request.markers])
    return Response(markers=[_answer(producer_id, codes) for producer_id, codes in results.items()])


async def write(services: Services, markers: Iterable[tuple[TransactionMarker, Iterable[TopicPartition]]]) -> Written:
    """Append each marker to its partitions, which this broker leads: what became of it, by producer id."""
    turns = Turns(services.clock, goes_on=True)
    begun = [(marker, await _begin(services, turns, marker, tps)) for marker, tps in markers]
    results: dict[int, Codes] = {}
    for marker, appends in begun:
        codes = {tp: await _settled(append) for tp, append in appends.items()}
        _tell(services, marker, codes)
        results.setdefault(marker.producer_id, {}).update(codes)
    return results


async def _begin(
    services: Services, turns: Turns, marker: TransactionMarker, tps: Iterable[TopicPartition]
) -> dict[TopicPartition, AppendResult | Awaitable[AppendResult]]:
    """Append the marker everywhere; nobody is waited for yet."""
    begun: dict[TopicPartition, AppendResult | Awaitable[AppendResult]] = {}
    records = marker_records(marker, services.clock.wall_ms())
    for tp in tps:
        if turns.is_over:
            await turns.next()
        if services.replicas.logs.get(tp) is None:
            begun[tp] = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            begun[tp] = append_marker(services.replicas, tp, records, _TIMEOUT_MS)
    return begun


async def _settled(append: AppendResult | Awaitable[AppendResult]) -> ErrorCode:
    result = append if isinstance(append, LogAppendInfo | Exception) else await append
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
