"""DescribeProducers: the idempotent and transactional producers that a partition's leader remembers (KIP-664).

Source: KafkaApis.handleDescribeProducersRequest, ReplicaManager.activeProducerState@3.9.
"""

from typing import Any

from kafka_zk.handlers.error_map import EXPECTED, error_code, error_message
from kafka_zk.handlers.services import Services
from kafka_zk.network.slices import Turns
from kafka_zk.protocol import codec, topic_names
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.memory import OBJECT_BYTES
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.security.authorizer import Operation, topic
from kafka_zk.storage.types import TopicPartition

Response = codec.response(ApiKey.DESCRIBE_PRODUCERS)
Topic = Response.TopicResponse
Partition = Topic.PartitionResponse
Producer = Partition.ProducerState


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """The producers or an error for each partition."""
    turns = Turns(services.clock)
    topics = []
    for named in request.topics:
        refusal = _refusal(services, context, named.name)
        partitions = []
        for index in named.partition_indexes:
            if turns.is_over:
                await turns.next()
            try:
                if refusal is not None:
                    raise refusal
                producers = _producers(services, TopicPartition(named.name, index))
                await context.memory.reserve(len(producers) * OBJECT_BYTES)
                partitions.append(
                    Partition(partition_index=index, error_code=0, error_message=None, active_producers=producers)
                )
            except EXPECTED as error:
                partitions.append(
                    Partition(
                        partition_index=index,
                        error_code=error_code(error),
                        error_message=error_message(error),
                        active_producers=[],
                    )
                )
        topics.append(Topic(name=named.name, partitions=partitions))
    return Response(throttle_time_ms=0, topics=topics)


def _refusal(services: Services, context: RequestContext, name: str) -> ApiError | None:
    try:
        topic_names.check_name(name)
    except ApiError as error:
        return error
    if not services.authorizer.authorize(context, Operation.READ, topic(name)):
        return ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None if name in services.metadata.topics else ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _producers(services: Services, tp: TopicPartition) -> list[Any]:
    partition = services.replicas.partitions.get(tp)
    if partition is None:
        known = services.metadata.partition(*tp) is not None
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if partition.refusal is not None:
        raise ApiError(partition.refusal)
    if partition.log is None:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return [
        Producer(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.last_timestamp_ms,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=producer.current_txn_first_offset,
        )
        for producer in partition.log.producers.producers.values()
    ]
