"""StopReplica: the controller removes partitions from this broker, and deletes them.

Source: KafkaApis.handleStopReplicaRequest, ReplicaManager.stopReplicas@3.9.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from kafka_zk.base.turns import in_slices
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.inter_broker.authorization import confirm_controller, refusal
from kafka_zk.broker.handlers.services import Services
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

_EPOCH_UNKNOWN = -1
_EPOCH_DURING_DELETE = -2

Response = codec.response(ApiKey.STOP_REPLICA)


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return an error code for each partition. Raises: like ``confirm_controller``."""
    await confirm_controller(services, context, request.controller_epoch)
    async with services.replicas.state_changes:
        refused = refusal(services, context, request.controller_epoch, request.broker_epoch)
        if refused is not ErrorCode.NONE:
            return Response(error_code=refused)
        wanted = list(_wanted(request, header.api_version))
        await _note_deleted(services, wanted)
        errors = await in_slices(services.clock, _stopped(services, wanted))
        await _make_deletions_durable(services)
    return Response(partition_errors=errors)


async def _note_deleted(services: Services, wanted: Iterable[tuple[TopicPartition, int, bool]]) -> None:
    """Record tiered logs of deleted topics before the logs are deleted, so that their remote segments are also
    deleted."""
    if services.deleted_partitions is None:
        return
    found = [
        services.replicas.logs.get(tp)
        for tp, leader_epoch, delete in wanted
        if delete and leader_epoch == _EPOCH_DURING_DELETE
    ]
    await services.deleted_partitions.note(log for log in found if log is not None)


async def _make_deletions_durable(services: Services) -> None:
    """Make deletions durable: the controller deletes a topic after the response, so its logs must not reappear after a
    power loss."""
    for work, failed in services.replicas.logs.upkeep.prepare_deletions():
        try:
            await services.replicas.run_in_thread(work)
        except OSError as error:
            failed(error)


def _stopped(services: Services, wanted: Iterable[tuple[TopicPartition, int, bool]]) -> Iterator[Any]:
    for tp, leader_epoch, delete in wanted:
        code = services.replicas.stop_replica(tp, leader_epoch, delete=delete)
        yield Response.StopReplicaPartitionError(
            topic_name=tp.topic, partition_index=tp.partition, error_code=code
        )


def _wanted(request: Any, version: int) -> Iterator[tuple[TopicPartition, int, bool]]:
    if version >= 3:
        for topic in request.topic_states:
            for state in topic.partition_states:
                tp = TopicPartition(topic.topic_name, state.partition_index)
                yield tp, state.leader_epoch, state.delete_partition
    elif version >= 1:
        for topic in request.topics:
            for partition in topic.partition_indexes:
                yield TopicPartition(topic.name, partition), _EPOCH_UNKNOWN, request.delete_partitions
    else:
        for entry in request.ungrouped_partitions:
            yield TopicPartition(entry.topic_name, entry.partition_index), _EPOCH_UNKNOWN, request.delete_partitions
