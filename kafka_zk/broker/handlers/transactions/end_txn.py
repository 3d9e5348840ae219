"""EndTxn: commits or aborts a producer's transaction. Source: KafkaApis.handleEndTxnRequest@3.9."""

from kafka_zk.base.types import new_tuple
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.handlers.transactions.errors import known_since
from kafka_zk.broker.security.authorizer import Operation, transactional_id
from kafka_zk.broker.transaction.requests import ProducerIdAndEpoch
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.protocol.transactions import read_end_txn_request, write_end_txn_response

_FENCED_SINCE = 2
_WRITE = Operation.WRITE


async def handle(services: Services, context: RequestContext, header: RequestHeader, body: memoryview) -> list[Part]:
    """Respond NONE as soon as the decision is stored. The markers follow."""
    version = header.api_version
    wanted, producer_id, producer_epoch, committed = read_end_txn_request(version, body)
    del body  # the request may wait for the log
    if services.authorizer.authorize(context, _WRITE, transactional_id(wanted)):
        producer = new_tuple(ProducerIdAndEpoch, (producer_id, producer_epoch))
        ended = services.transactions.end(wanted, producer, commit=committed)
        code = ended if isinstance(ended, ErrorCode) else await ended
    else:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return [write_end_txn_response(version, header.correlation_id, known_since(code, version, _FENCED_SINCE))]
