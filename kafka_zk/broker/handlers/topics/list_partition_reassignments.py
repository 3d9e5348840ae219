"""ListPartitionReassignments: the partition moves in progress (KIP-455).

Source: KafkaApis.handleListPartitionReassignmentsRequest@3.9.
"""

from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.operations import ListPartitionReassignments
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code, error_message
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import CLUSTER, Operation
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

Response = codec.response(ApiKey.LIST_PARTITION_REASSIGNMENTS)
Topic = Response.OngoingTopicReassignment


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return the moves of the requested partitions, or all moves."""
    if not services.authorizer.authorize(context, Operation.DESCRIBE, CLUSTER):
        return _failure(ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    named = None
    if request.topics is not None:
        named = [TopicPartition(topic.name, number) for topic in request.topics for number in topic.partition_indexes]
    try:
        moving = await services.controller.carry_out(ListPartitionReassignments(named))
    except EXPECTED as error:
        return _failure(error)
    by_topic: dict[str, list[Any]] = {}
    async for tp, assignment in ResponseTurns(services.clock, context).each(moving.items()):
        by_topic.setdefault(tp.topic, []).append(
            Topic.OngoingPartitionReassignment(
                partition_index=tp.partition,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
            )
        )
    topics = [Topic(name=name, partitions=partitions) for name, partitions in by_topic.items()]
    return Response(error_message=None, topics=topics)


def _failure(error: Exception) -> Any:
    return Response(error_code=error_code(error), error_message=error_message(error))
