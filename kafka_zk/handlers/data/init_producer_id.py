"""InitProducerId for idempotent producers (KIP-98). Source: KafkaApis.handleInitProducerIdRequest@3.9."""

from typing import Any

from kafka_zk.handlers.services import Services
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.registry.errors import RegistryError
from kafka_zk.security.authorizer import CLUSTER, Operation

Response = codec.response(ApiKey.INIT_PRODUCER_ID)


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """A new producer id with epoch 0; there is no transaction coordinator yet, so none for a transactional id."""
    if request.transactional_id == "":
        return _refusal(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if not services.authorizer.authorize(context, Operation.IDEMPOTENT_WRITE, CLUSTER):
        return _refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        producer_id = await services.producer_ids.next_id()
    except RegistryError:
        return _refusal(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        )  # retriable, as Kafka answers while it waits for a block
    return Response(throttle_time_ms=0, error_code=0, producer_id=producer_id, producer_epoch=0)


def _refusal(code: ErrorCode) -> Any:
    return Response(throttle_time_ms=0, error_code=code, producer_id=-1, producer_epoch=-1)
