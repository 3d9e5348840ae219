"""InitProducerId: for idempotent producers, and for transactional ones (KIP-98, KIP-360).

Source: KafkaApis.handleInitProducerIdRequest@3.9.
"""

from typing import Any

from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.handlers.transactions.errors import known_since
from kafka_zk.broker.security.authorizer import CLUSTER, Authorizer, Operation, transactional_id
from kafka_zk.broker.transaction.requests import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdAndEpoch, Result
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

Response = codec.response(ApiKey.INIT_PRODUCER_ID)

_FENCED_SINCE = 4
_WRITE = Operation.WRITE


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return the producer's id and its new epoch."""
    code, (producer_id, producer_epoch) = await _result(services, context, request)
    return Response(
        error_code=known_since(code, header.api_version, _FENCED_SINCE),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def _may_be_idempotent(authorizer: Authorizer, context: RequestContext) -> bool:
    """True if the client may use an idempotent producer. Permission to write to any topic is enough."""
    return (
        authorizer.may(context, Operation.IDEMPOTENT_WRITE, CLUSTER)
        or authorizer.may_any(context, _WRITE, "Topic")
        or authorizer.authorize(context, Operation.IDEMPOTENT_WRITE, CLUSTER)  # logs a denial
    )


async def _result(services: Services, context: RequestContext, request: Any) -> Result:
    authorize, wanted = services.authorizer.authorize, request.transactional_id
    if wanted is None:
        if not _may_be_idempotent(services.authorizer, context):
            return Result(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    elif not authorize(context, _WRITE, transactional_id(wanted)):
        return Result(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_PRODUCER_EPOCH
    if has_id != has_epoch:
        return Result(ErrorCode.INVALID_REQUEST)
    if wanted is None:
        return await services.transactions.new_producer_id()
    expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch) if has_id else None
    timeout_ms = request.transaction_timeout_ms
    return await services.transactions.init_producer_id(wanted, timeout_ms, expected, context.peer_host)
