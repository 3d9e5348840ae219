"""DescribeLogDirs: the logs in each log directory, and the free space of their file systems.

Source: KafkaApis.handleDescribeLogDirsRequest, ReplicaManager.describeLogDirs@3.9.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from twisted.logger import Logger

from kafka_zk.base.turns import in_turns
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import CLUSTER, Operation
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.storage.log.log import Log

_log = Logger()

INVALID_OFFSET_LAG = -1

Response = codec.response(ApiKey.DESCRIBE_LOG_DIRS)
Directory = Response.DescribeLogDirsResult
Topic = Directory.DescribeLogDirsTopic
Partition = Topic.DescribeLogDirsPartition


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return one result per configured directory. If the topics are null, all topics are included."""
    if not services.authorizer.authorize(context, Operation.DESCRIBE, CLUSTER):
        return Response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    turns = ResponseTurns(services.clock, context)
    asked = None if request.topics is None else await _asked(services, request.topics)
    by_directory: dict[str, list[Log]] = {}
    async for log in in_turns(services.clock, list(services.replicas.logs.all_logs())):
        if (asked is None or log.tp in asked) and services.replicas.logs.get(log.tp) is log:
            directory = os.path.abspath(services.replicas.logs.log_dir_of(log.tp))
            by_directory.setdefault(directory, []).append(log)
            moves = services.replicas.logs.moves
            future, future_dir = moves.future(log.tp), moves.future_dir_of(log.tp)
            if future is not None and future_dir is not None:
                by_directory.setdefault(os.path.abspath(future_dir), []).append(future)
    live = {os.path.abspath(directory) for directory in services.replicas.logs.live_directories}
    results = [
        await _result(services, turns, directory, by_directory.get(directory, ()), directory in live)
        for directory in _absolute(services.config.log_directories)
    ]
    return Response(results=results)


async def _asked(services: Services, topics: Iterable[Any]) -> set[TopicPartition]:
    partitions = (TopicPartition(named.topic, partition) for named in topics for partition in named.partitions)
    return {tp async for tp in in_turns(services.clock, partitions)}


def _absolute(directories: Iterable[Path]) -> list[str]:
    return list(dict.fromkeys(os.path.abspath(directory) for directory in directories))


async def _result(services: Services, turns: ResponseTurns, directory: str, logs: Iterable[Log], is_live: bool) -> Any:
    try:
        if not is_live:
            raise OSError(f"log directory {directory} is offline")
        space = os.statvfs(directory)
    except OSError as error:
        _log.warn("cannot describe {directory}: {error}", directory=directory, error=error)
        return Directory(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory)
    topics: dict[str, list[Any]] = {}
    async for log in turns.each(sorted(logs, key=lambda log: log.tp)):
        topics.setdefault(log.tp.topic, []).append(_partition(services, log))
    return Directory(
        log_dir=directory,
        topics=[Topic(name=name, partitions=partitions) for name, partitions in topics.items()],
        total_bytes=space.f_blocks * space.f_frsize,
        usable_bytes=space.f_bavail * space.f_frsize,
    )


def _partition(services: Services, log: Log) -> Any:
    """A log with its lag behind the high watermark or, for a move's copy, behind the current log."""
    partition = services.replicas.partitions.get(log.tp)
    current = services.replicas.logs.get(log.tp)
    is_future = current is not log
    if partition is None or partition.log is None or partition.log is not current:
        lag = INVALID_OFFSET_LAG
    elif is_future:
        lag = max(0, current.log_end_offset - log.log_end_offset)
    else:
        lag = max(0, log.high_watermark - log.log_end_offset)
    return Partition(
        partition_index=log.tp.partition, partition_size=log.size_bytes, offset_lag=lag, is_future_key=is_future
    )
