"""DescribeTransactions: the coordinator's state of transactional ids (KIP-664).

Source: KafkaApis.handleDescribeTransactionsRequest@3.9.
"""

from typing import Any

from kafka_zk.base.types import partitions_by_topic
from kafka_zk.broker.handlers.long_responses import EncodedArray, ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import Operation, topic, transactional_id
from kafka_zk.broker.transaction.metadata import TransactionMetadata
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.memory import OBJECT_BYTES
from kafka_zk.protocol.request import RequestContext, RequestHeader

Response = codec.response(ApiKey.DESCRIBE_TRANSACTIONS)
State = Response.TransactionState
Topic = State.TopicData


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> list[Part]:
    """Return the state or an error for each distinct id. Topics that the client may not describe are left out."""
    turns = ResponseTurns(services.clock, context)
    states = EncodedArray(turns, header, "transaction_states")
    async for wanted in turns.each(dict.fromkeys(request.transactional_ids)):
        if services.authorizer.authorize(context, Operation.DESCRIBE, transactional_id(wanted)):
            found = services.transactions.describe(wanted)
        else:
            found = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if isinstance(found, TransactionMetadata):
            await turns.make(len(found.tps) * OBJECT_BYTES)
            await states.add(_state(services, context, wanted, found))
        else:
            await states.add(State(error_code=found, transactional_id=wanted))
    return await states.body(Response())


def _state(services: Services, context: RequestContext, wanted: str, found: TransactionMetadata) -> Any:
    return State(
        transactional_id=wanted,
        transaction_state=found.state.value,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            Topic(topic=name, partitions=partitions)
            for name, partitions in partitions_by_topic(sorted(found.tps)).items()
            if services.authorizer.may(context, Operation.DESCRIBE, topic(name))
        ],
    )
