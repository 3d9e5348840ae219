"""SaslHandshake and SaslAuthenticate on a connection without authentication get ILLEGAL_SASL_STATE. The connection
stays open. Source: KafkaApis.handleSaslHandshakeRequest, handleSaslAuthenticateRequest@3.9.
"""

from typing import Any

from kafka_zk.broker.handlers.services import Services
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

HandshakeResponse = codec.response(ApiKey.SASL_HANDSHAKE)
AuthenticateResponse = codec.response(ApiKey.SASL_AUTHENTICATE)


async def handshake(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    return HandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


async def authenticate(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    return AuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
