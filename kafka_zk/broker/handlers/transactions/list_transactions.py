"""ListTransactions: the transactional ids that this broker coordinates (KIP-664; version 1 also filters by duration,
KIP-994).

Source: KafkaApis.handleListTransactionsRequest@3.9.
"""

from typing import Any

from kafka_zk.broker.handlers.long_responses import EncodedArray, ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import Operation, transactional_id
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.request import RequestContext, RequestHeader

_DURATION_SINCE = 1
_ANY_DURATION = -1

Response = codec.response(ApiKey.LIST_TRANSACTIONS)
State = Response.TransactionState


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> list[Part]:
    """Return the transactions that the client may describe."""
    duration_ms = request.duration_filter if header.api_version >= _DURATION_SINCE else _ANY_DURATION
    error, unknown_states, transactions = await services.transactions.list_transactions(
        request.state_filters, request.producer_id_filters, duration_ms
    )
    turns = ResponseTurns(services.clock, context)
    states = EncodedArray(turns, header, "transaction_states")
    async for each in turns.each(transactions):
        if services.authorizer.may(context, Operation.DESCRIBE, transactional_id(each.transactional_id)):
            await states.add(
                State(
                    transactional_id=each.transactional_id,
                    producer_id=each.producer_id,
                    transaction_state=each.state,
                )
            )
    return await states.body(Response(error_code=error, unknown_state_filters=list(unknown_states)))
