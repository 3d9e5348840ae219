"""Decodes a request with the codec, handles it and encodes the response."""

from collections.abc import Awaitable, Callable
from typing import Any

from kafka_zk.broker.handlers.large_requests import LARGE_BODY_BYTES, coded_in_turns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.protocol import codec
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.frame import UNCOUNTED_BYTES
from kafka_zk.protocol.request import RequestContext, RequestHeader, response_header

MessageHandler = Callable[[Services, RequestContext, RequestHeader, Any], Awaitable[Any]]
"""Returns a message, or the parts of its encoded body."""


async def answer(
    services: Services, context: RequestContext, header: RequestHeader, body: memoryview, handler: MessageHandler
) -> list[Part]:
    """Return the encoded response. Large messages are decoded and encoded in turns. Raises: ProtocolError,
    ClientGone."""
    if len(body) <= LARGE_BODY_BYTES:
        request = codec.decode_request(header.api_key, header.api_version, body)
    else:
        steps = codec.decode_request_in_steps(header.api_key, header.api_version, body)
        request = await coded_in_turns(services.clock, context, steps)
        del steps
    handling = handler(services, context, header, request)
    del body, request  # frees them while the request is handled
    response = await handling
    if isinstance(response, list):
        return [response_header(header.api_key, header.api_version, header.correlation_id), *response]
    if codec.is_large_response(header.api_key, header.api_version, response):
        encoding = codec.encode_response_in_steps(*header[:3], response)
        return list(await coded_in_turns(services.clock, context, encoding))
    encoded = codec.encode_response(header.api_key, header.api_version, header.correlation_id, response)
    if len(encoded) > UNCOUNTED_BYTES:
        context.memory.take(len(encoded))  # returned when the client has received the response
    return [encoded]
