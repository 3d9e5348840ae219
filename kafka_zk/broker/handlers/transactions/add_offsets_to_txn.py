"""AddOffsetsToTxn: adds a group's partition of ``__consumer_offsets`` to the producer's transaction.

Source: KafkaApis.handleAddOffsetsToTxnRequest@3.9.
"""

from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.partitions import OFFSETS_TOPIC
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.handlers.transactions.errors import known_since
from kafka_zk.broker.security.authorizer import Operation, group, transactional_id
from kafka_zk.broker.transaction.requests import ProducerIdAndEpoch
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

_FENCED_SINCE = 2

Response = codec.response(ApiKey.ADD_OFFSETS_TO_TXN)


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    code = await _code(services, context, request)
    return Response(error_code=known_since(code, header.api_version, _FENCED_SINCE))


async def _code(services: Services, context: RequestContext, request: Any) -> ErrorCode:
    wanted, authorize = request.transactional_id, services.authorizer.authorize
    if not authorize(context, Operation.WRITE, transactional_id(wanted)):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not authorize(context, Operation.READ, group(request.group_id)):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    tp = TopicPartition(OFFSETS_TOPIC, services.coordinator.partition_for(request.group_id))
    added = services.transactions.add_partitions(wanted, producer, frozenset([tp]))
    return added if isinstance(added, ErrorCode) else await added
