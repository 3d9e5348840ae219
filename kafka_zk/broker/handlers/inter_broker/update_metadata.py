"""UpdateMetadata: the controller sends the live brokers and the partitions' leaders.

Source: KafkaApis.handleUpdateMetadataRequest@3.9.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from kafka_zk.base.turns import in_slices
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.inter_broker.authorization import confirm_controller, refusal
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.metadata.cache import PartitionChange, partition_changes
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

Response = codec.response(ApiKey.UPDATE_METADATA)


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Prepare the update in slices, apply it, and wake requests that wait for metadata.

    Raises: like ``confirm_controller``.
    """
    await confirm_controller(services, context, request.controller_epoch)
    async with services.metadata.updates:
        refused = await _update(services, context, request)
    return Response(error_code=refused)


async def _update(services: Services, context: RequestContext, request: Any) -> ErrorCode:
    refused = refusal(services, context, request.controller_epoch, request.broker_epoch)
    if refused is ErrorCode.NONE:
        changes = await in_slices(services.clock, partition_changes(request))
        # A newer controller may have sent requests in between.
        refused = refusal(services, context, request.controller_epoch, request.broker_epoch)
    if refused is ErrorCode.NONE:
        before = services.metadata.brokers.keys()
        services.metadata.update(request, changes)
        services.metadata_purgatory.check("metadata")
        if before - services.metadata.brokers.keys():
            replicas = services.replicas
            await in_slices(services.clock, replicas.isr_updates.brokers_gone(list(replicas.partitions.values())))
        deleted = await in_slices(services.clock, _deleted(changes))
        if deleted:
            await services.coordinator.offsets.partitions_deleted(deleted)
    return refused


def _deleted(changes: Iterable[PartitionChange]) -> Iterator[TopicPartition]:
    for change in changes:
        if change.info is None:
            yield TopicPartition(change.topic, change.partition)
