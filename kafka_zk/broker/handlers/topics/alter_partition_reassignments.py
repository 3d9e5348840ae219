"""AlterPartitionReassignments: moves partitions to other replicas, or cancels a move (KIP-455).

Source: KafkaApis.handleAlterPartitionReassignmentsRequest@3.9.
"""

from collections.abc import Mapping
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.operations import AlterPartitionReassignments
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code, error_message
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import CLUSTER, Operation
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

Response = codec.response(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
Topic = Response.ReassignableTopicResponse


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Respond when the moves have begun. ListPartitionReassignments shows their progress."""
    if not services.authorizer.authorize(context, Operation.ALTER, CLUSTER):
        return _failure(ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    targets = {
        TopicPartition(topic.name, entry.partition_index): None if entry.replicas is None else tuple(entry.replicas)
        for topic in request.topics
        for entry in topic.partitions
    }
    try:
        outcomes = await services.controller.carry_out(AlterPartitionReassignments(targets))
    except EXPECTED as error:
        return _failure(error)
    return Response(error_message=None, responses=await _topics(ResponseTurns(services.clock, context), outcomes))


async def _topics(turns: ResponseTurns, outcomes: Mapping[TopicPartition, ApiError | None]) -> list[Any]:
    by_topic: dict[str, list[Any]] = {}
    async for tp, error in turns.each(outcomes.items()):
        by_topic.setdefault(tp.topic, []).append(
            Topic.ReassignablePartitionResponse(
                partition_index=tp.partition,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
        )
    return [Topic(name=name, partitions=partitions) for name, partitions in by_topic.items()]


def _failure(error: Exception) -> Any:
    return Response(error_code=error_code(error), error_message=error_message(error))
