"""ElectLeaders: preferred or unclean elections. The controller responds when its metadata contains the leaders.

    2  flexible    1  unclean elections, an error for the whole request    0  preferred leaders only

Source: KafkaApis.handleElectLeaders, DelayedElectLeader@3.9; KIP-460.
"""

from collections.abc import Mapping
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.leader_elections import ElectionOutcome
from kafka_zk.broker.controller.operations import ElectLeaders
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import CLUSTER, Operation
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

_UNCLEAN = 1
_TYPES = (0, _UNCLEAN)

Response = codec.response(ApiKey.ELECT_LEADERS)
Result = Response.ReplicaElectionResult


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return one result per requested partition. If all are requested, only those with an election or an error."""
    election_type = request.election_type if header.api_version >= 1 else 0
    wanted = _wanted(services, request)
    if not services.authorizer.authorize(context, Operation.ALTER, CLUSTER):
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _response(dict.fromkeys(wanted if request.topic_partitions else (), ApiError(refused)), refused)
    if election_type not in _TYPES:
        return _response(dict.fromkeys(wanted, ApiError(ErrorCode.INVALID_REQUEST)))
    try:
        outcomes = await services.controller.carry_out(ElectLeaders(wanted, election_type == _UNCLEAN))
    except EXPECTED as error:
        return _response(dict.fromkeys(wanted, ApiError(error_code(error))))
    outcomes = await _known(services, outcomes, request.timeout_ms)
    if request.topic_partitions is None:
        outcomes = {tp: outcome for tp, outcome in outcomes.items() if not _is_needless(outcome)}
    turns = ResponseTurns(services.clock, context)
    return _response({tp: outcome async for tp, outcome in turns.each(outcomes.items())})


def _wanted(services: Services, request: Any) -> list[TopicPartition]:
    if request.topic_partitions is None:
        topics = services.metadata.topics
        return [TopicPartition(name, number) for name in sorted(topics) for number in sorted(topics[name])]
    named = [TopicPartition(entry.topic, number) for entry in request.topic_partitions for number in entry.partitions]
    return list(dict.fromkeys(named))


async def _known(
    services: Services, outcomes: Mapping[TopicPartition, ElectionOutcome], timeout_ms: int
) -> Mapping[TopicPartition, ElectionOutcome]:
    """Wait until the metadata contains the elected leaders. After the timeout, the others get REQUEST_TIMED_OUT."""
    missing = {tp: outcome for tp, outcome in outcomes.items() if isinstance(outcome, int)}

    def all_known() -> bool:
        for tp, leader in list(missing.items()):
            info = services.metadata.partition(tp.topic, tp.partition)
            if info is not None and info.leader == leader:
                del missing[tp]
        return not missing

    if not all_known() and timeout_ms > 0:
        await services.metadata_purgatory.wait(["metadata"], all_known, timeout_ms)
    return {**outcomes, **dict.fromkeys(missing, ApiError(ErrorCode.REQUEST_TIMED_OUT))}


def _is_needless(outcome: ElectionOutcome) -> bool:
    return isinstance(outcome, ApiError) and outcome.code is ErrorCode.ELECTION_NOT_NEEDED


def _response(outcomes: Mapping[TopicPartition, ElectionOutcome], code: ErrorCode = ErrorCode.NONE) -> Any:
    by_topic: dict[str, list[Any]] = {}
    for tp, outcome in outcomes.items():
        error = outcome if isinstance(outcome, ApiError) else None
        by_topic.setdefault(tp.topic, []).append(
            Result.PartitionResult(
                partition_id=tp.partition,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
        )
    results = [Result(topic=topic, partition_result=partitions) for topic, partitions in by_topic.items()]
    return Response(error_code=code, replica_election_results=results)
