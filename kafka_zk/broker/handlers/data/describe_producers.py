"""DescribeProducers: the idempotent and transactional producers that a partition's leader knows (KIP-664).

Source: KafkaApis.handleDescribeProducersRequest, ReplicaManager.activeProducerState@3.9.
"""

from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code, error_message
from kafka_zk.broker.handlers.long_responses import EncodedArray, ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import Operation, topic
from kafka_zk.protocol import codec, topic_names
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.storage.log.producer_snapshot import ProducerEntry

Response = codec.response(ApiKey.DESCRIBE_PRODUCERS)
Topic = Response.TopicResponse
Partition = Topic.PartitionResponse
Producer = Partition.ProducerState


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> list[Part]:
    """Return each requested partition with its producers or an error, only once even if the request repeats it."""
    turns = ResponseTurns(services.clock, context)
    topics = EncodedArray(turns, header, "topics")
    asked: dict[str, dict[int, None]] = {}
    for named in request.topics:
        asked.setdefault(named.name, {}).update(dict.fromkeys(named.partition_indexes))
    for name, indexes in asked.items():
        await turns.make()
        refusal = _refusal(services, context, name)
        partitions = []
        async for index in turns.each(indexes):
            partition = Partition(partition_index=index)
            try:
                if refusal is not None:
                    raise refusal
                entries = _entries(services, TopicPartition(name, index))
                partition.active_producers = [_producer(entry) async for entry in turns.each(entries)]
            except EXPECTED as error:
                partition.error_code, partition.error_message = error_code(error), error_message(error)
            partitions.append(partition)
        await topics.add(Topic(name=name, partitions=partitions))
    return await topics.body(Response())


def _refusal(services: Services, context: RequestContext, name: str) -> ApiError | None:
    try:
        topic_names.check_name(name)
    except ApiError as error:
        return error
    if not services.authorizer.authorize(context, Operation.READ, topic(name)):
        return ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None if name in services.metadata.topics else ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _entries(services: Services, tp: TopicPartition) -> list[ProducerEntry]:
    partition = services.replicas.partitions.get(tp)
    if partition is None:
        known = services.metadata.partition(*tp) is not None
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if partition.refusal is not None:
        raise ApiError(partition.refusal)
    if partition.log is None:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return list(partition.log.producers.producers.values())


def _producer(entry: ProducerEntry) -> Any:
    return Producer(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )
