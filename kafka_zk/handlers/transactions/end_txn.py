"""EndTxn: a producer commits or aborts its transaction. Source: KafkaApis.handleEndTxnRequest@3.9."""

from typing import Any

from kafka_zk.handlers.services import Services
from kafka_zk.handlers.transactions.errors import known_since
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.security.authorizer import Operation, transactional_id
from kafka_zk.transaction.requests import ProducerIdAndEpoch

_FENCED_SINCE = 2

Response = codec.response(ApiKey.END_TXN)


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """NONE as soon as the outcome is decided; the partitions hear of it after that."""
    wanted = request.transactional_id
    if services.authorizer.authorize(context, Operation.WRITE, transactional_id(wanted)):
        producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        code = await services.transactions.end(wanted, producer, commit=request.committed)
    else:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return Response(throttle_time_ms=0, error_code=known_since(code, header.api_version, _FENCED_SINCE))
