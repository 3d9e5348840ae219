"""AlterReplicaLogDirs: moves replicas to other log directories of this broker (KIP-113).

    2  flexible    1  the same as 0    0

Source: KafkaApis.handleAlterReplicaLogDirsRequest, ReplicaManager.alterReplicaLogDirs@3.9.
"""

import os
from pathlib import Path
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import CLUSTER, Operation
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

Response = codec.response(ApiKey.ALTER_REPLICA_LOG_DIRS)
Result = Response.AlterReplicaLogDirTopicResult


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Returns an error code for each partition; NONE if the move has started or is not needed."""
    is_allowed = services.authorizer.authorize(context, Operation.ALTER, CLUSTER)
    wanted = (
        (TopicPartition(topic.name, number), named.path)
        for named in request.dirs
        for topic in named.topics
        for number in topic.partitions
    )
    by_topic: dict[str, list[Any]] = {}
    async for tp, path in ResponseTurns(services.clock, context).each(wanted):
        code = _alter(services, tp, path) if is_allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        by_topic.setdefault(tp.topic, []).append(
            Result.AlterReplicaLogDirPartitionResult(partition_index=tp.partition, error_code=code)
        )
    results = [Result(topic_name=topic, partitions=partitions) for topic, partitions in by_topic.items()]
    return Response(results=results)


def _alter(services: Services, tp: TopicPartition, path: str) -> ErrorCode:
    """Begin a move. ``path`` is absolute, as in DescribeLogDirs."""
    if path not in {os.path.abspath(each) for each in services.config.log_directories}:
        return ErrorCode.LOG_DIR_NOT_FOUND
    return services.alter_log_dirs.alter(tp, Path(path))
