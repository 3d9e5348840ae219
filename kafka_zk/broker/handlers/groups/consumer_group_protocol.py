"""ConsumerGroupHeartbeat and ConsumerGroupDescribe (KIP-848) need KRaft, so they get UNSUPPORTED_VERSION.

Kafka 3.9.1 in ZooKeeper mode does the same. Clients fall back to the classic protocol.
Source: KafkaApis.handleConsumerGroupHeartbeat, handleConsumerGroupDescribe@3.9.
"""

from typing import Any

from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

HeartbeatResponse = codec.response(ApiKey.CONSUMER_GROUP_HEARTBEAT)
DescribeResponse = codec.response(ApiKey.CONSUMER_GROUP_DESCRIBE)
Group = DescribeResponse.DescribedGroup


async def heartbeat(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    return HeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)


async def describe(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Responds UNSUPPORTED_VERSION for each group."""
    return DescribeResponse(
        groups=[
            Group(error_code=ErrorCode.UNSUPPORTED_VERSION, group_id=group_id)
            async for group_id in ResponseTurns(services.clock, context).each(dict.fromkeys(request.group_ids))
        ]
    )
