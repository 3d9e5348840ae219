"""AllocateProducerIds: reserves a block of producer ids for a broker (KIP-730).

kafka-zk's brokers reserve blocks in ZooKeeper themselves, with the same conditional write to the same znode.
Source: KafkaApis.handleAllocateProducerIdsRequest@3.9.
"""

from typing import Any

from kafka_zk.broker.controller.operations import AllocateProducerIds
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import CLUSTER, Operation
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

Response = codec.response(ApiKey.ALLOCATE_PRODUCER_IDS)


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return the block's first id and its length."""
    if not services.authorizer.authorize(context, Operation.CLUSTER_ACTION, CLUSTER):
        return _answer(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        block = await services.controller.carry_out(AllocateProducerIds(request.broker_id, request.broker_epoch))
    except EXPECTED as error:
        return _answer(error_code(error))
    return _answer(ErrorCode.NONE, block)


def _answer(code: ErrorCode, block: range = range(0)) -> Any:
    return Response(error_code=code, producer_id_start=block.start, producer_id_len=len(block))
