"""AlterPartition: a leader asks the controller to change the ISRs of its partitions (KIP-497).

    3  ISR members with broker epochs (which are -1 in ZooKeeper mode)    1  leader recovery state
    2  topic ids                                                          0

Source: KafkaApis.handleAlterPartitionRequest@3.9.
"""

from collections.abc import Mapping
from typing import Any

from kafka_zk.broker.controller.alter_partition import Proposal
from kafka_zk.broker.controller.isr_changes import Outcome
from kafka_zk.broker.controller.operations import AlterPartition, PartitionKey
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import CLUSTER, Operation
from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

_TOPIC_IDS_SINCE = 2
_BROKER_EPOCHS_SINCE = 3
_INELIGIBLE_SINCE = 2

Response = codec.response(ApiKey.ALTER_PARTITION)


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return each partition's current state, or the error if it was not changed."""
    if not services.authorizer.authorize(context, Operation.CLUSTER_ACTION, CLUSTER):
        return Response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    version = header.api_version
    try:
        outcomes = await services.controller.carry_out(
            AlterPartition(request.broker_id, request.broker_epoch, _proposals(request, version))
        )
    except EXPECTED as error:
        return Response(error_code=error_code(error))
    return Response(topics=_topics(outcomes, version))


def _proposals(request: Any, version: int) -> dict[PartitionKey, Proposal]:
    proposals: dict[PartitionKey, Proposal] = {}
    for topic in request.topics:
        name = topic.topic_id if version >= _TOPIC_IDS_SINCE else topic.topic_name
        for entry in topic.partitions:
            isr = [m.broker_id for m in entry.new_isr_with_epochs] if version >= _BROKER_EPOCHS_SINCE else entry.new_isr
            recovery = entry.leader_recovery_state if version >= 1 else 0
            proposals[PartitionKey(name, entry.partition_index)] = Proposal(
                entry.leader_epoch, tuple(isr), recovery, entry.partition_epoch
            )
    return proposals


def _topics(outcomes: Mapping[PartitionKey, Outcome], version: int) -> list[Any]:
    by_topic: dict[Any, list[Any]] = {}
    for key, outcome in outcomes.items():
        by_topic.setdefault(key.topic, []).append(_partition(key.partition, outcome, version))
    return [
        Response.TopicData(
            topic_name="" if version >= _TOPIC_IDS_SINCE else topic,
            topic_id=topic if version >= _TOPIC_IDS_SINCE else uuids.ZERO,
            partitions=partitions,
        )
        for topic, partitions in by_topic.items()
    ]


def _partition(partition: int, outcome: Outcome, version: int) -> Any:
    if isinstance(outcome, ErrorCode):
        if outcome is ErrorCode.INELIGIBLE_REPLICA and version < _INELIGIBLE_SINCE:
            outcome = ErrorCode.OPERATION_NOT_ATTEMPTED
        return Response.TopicData.PartitionData(partition_index=partition, error_code=outcome)
    return Response.TopicData.PartitionData(
        partition_index=partition,
        leader_id=outcome.leader,
        leader_epoch=outcome.leader_epoch,
        isr=outcome.isr,
        leader_recovery_state=outcome.leader_recovery_state,
        partition_epoch=outcome.zk_version,
    )
