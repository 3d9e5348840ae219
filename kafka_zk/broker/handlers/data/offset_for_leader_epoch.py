"""OffsetForLeaderEpoch: the end offset of an epoch, for followers and for consumers that detect truncation (KIP-320).

Source: KafkaApis.handleOffsetForLeaderEpochRequest, ReplicaManager.lastOffsetForLeaderEpoch@3.9.
"""

from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import CLUSTER, Operation, topic
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1
_CURRENT_LEADER_EPOCH_SINCE = 2

Response = codec.response(ApiKey.OFFSET_FOR_LEADER_EPOCH)
Topic = Response.OffsetForLeaderTopicResult
Result = Topic.EpochEndOffset


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """For each partition, return the largest known epoch that is not above the requested one, and the offset after its
    last record."""
    is_broker = services.authorizer.may(context, Operation.CLUSTER_ACTION, CLUSTER)
    turns = ResponseTurns(services.clock, context)
    topics = []
    for named in request.topics:
        allowed = is_broker or services.authorizer.authorize(context, Operation.DESCRIBE, topic(named.topic))
        results = []
        for wanted in named.partitions:
            await turns.make()
            try:
                if not allowed:
                    raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                tp = TopicPartition(named.topic, wanted.partition)
                epoch, end_offset = _lookup(services, header.api_version, tp, wanted)
                results.append(_result(wanted.partition, ErrorCode.NONE, epoch, end_offset))
            except EXPECTED as error:
                results.append(_result(wanted.partition, error_code(error)))
        topics.append(Topic(topic=named.topic, partitions=results))
    return Response(topics=topics)


def _lookup(services: Services, version: int, tp: TopicPartition, wanted: Any) -> tuple[int, int]:
    partition = services.replicas.partitions.get(tp)
    if partition is None:
        known = services.metadata.partition(*tp) is not None
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    log = partition.leader_log(wanted.current_leader_epoch if version >= _CURRENT_LEADER_EPOCH_SINCE else -1)
    return log.end_offset_for_epoch(wanted.leader_epoch)


def _result(
    partition: int, code: ErrorCode, epoch: int = UNDEFINED_EPOCH, end_offset: int = UNDEFINED_EPOCH_OFFSET
) -> Any:
    return Result(partition=partition, error_code=code, leader_epoch=epoch, end_offset=end_offset)
