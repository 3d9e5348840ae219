"""The header of a request, and its context.

=============== ======== ==========================================================
request_api_key int16
api_version     int16
correlation_id  int32
client_id       string   nullable, never compact; absent in ControlledShutdown v0
tagged fields            in flexible versions only
=============== ======== ==========================================================
"""

import struct
from typing import NamedTuple

from kafka_zk.base.types import new_tuple
from kafka_zk.protocol.api_keys import FLEXIBLE_SINCE, NEVER, ApiKey, is_flexible
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.memory import UNLIMITED, Memory
from kafka_zk.protocol.primitives import MALFORMED, skip_tagged_fields, string

NO_REQUEST = -1
"""The API key of a message without a header: SASL after SaslHandshake version 0."""

MAX_TAGGED_BYTES = 64 * 1024
"""Limit for each header. Kafka's clients send no tagged fields in headers."""

_FIXED = struct.Struct(">hhi")
_FIXED_AND_LENGTH = struct.Struct(">hhih")
_CORRELATION_ID = struct.Struct(">i")
_CONTROLLED_SHUTDOWN = int(ApiKey.CONTROLLED_SHUTDOWN)
_API_VERSIONS = int(ApiKey.API_VERSIONS)


class RequestHeader(NamedTuple):
    """``api_key``: a plain number, which may be unknown."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


class RequestContext(NamedTuple):
    """All requests of a connection share one object after the handshake, unless the broker has an authorizer, which
    needs the API key of each request.

    ``memory``: for large responses; all of it is returned with the response. ``api_key``: -1 without an authorizer.
    ``token_authenticated``: the principal logged in with a delegation token.
    """

    listener_name: str
    security_protocol: str
    principal: str  # in Kafka's form: "User:ANONYMOUS"
    peer_host: str
    peer_port: int
    connection_id: str  # local address-remote address-number, as in Kafka's logs
    memory: Memory = UNLIMITED
    token_authenticated: bool = False
    api_key: int = -1  # must be last, see ``for_request``

    def for_request(self, api_key: int) -> "RequestContext":
        return new_tuple(RequestContext, (*self[:-1], api_key))


def parse_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """The header of a request and the position of its body. Raises ProtocolError."""
    try:
        api_key, api_version, correlation_id, length = _FIXED_AND_LENGTH.unpack_from(frame)
        if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
            return RequestHeader(api_key, 0, correlation_id, None), 8
        position = 10
        client_id = None
        if length >= 0:
            position += length
            if position > len(frame):
                raise ProtocolError(f"a client id of {length} bytes with {len(frame) - 10} left")
            client_id = str(frame[10:position], "utf-8", "replace")
        elif length != -1:
            raise ProtocolError(f"a client id of {length} bytes")
        if api_version >= FLEXIBLE_SINCE.get(api_key, NEVER):
            position = position + 1 if not frame[position] else _skip_tagged_fields(frame, position)
        return new_tuple(RequestHeader, (api_key, api_version, correlation_id, client_id)), position
    except MALFORMED as error:
        raise ProtocolError(f"a malformed request header: {error}") from error


def _skip_tagged_fields(frame: memoryview, position: int) -> int:
    end = skip_tagged_fields(frame, position)
    if end - position > MAX_TAGGED_BYTES:
        raise ProtocolError(f"{end - position} bytes of tagged fields, at most {MAX_TAGGED_BYTES} are allowed")
    return end


def request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    fixed = _FIXED.pack(api_key, api_version, correlation_id)
    if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
        return fixed
    tagged = b"\x00" if is_flexible(api_key, api_version) else b""
    return fixed + string(client_id, False) + tagged


def response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """The header of ApiVersions is never flexible (KIP-511)."""
    if is_flexible(api_key, api_version) and api_key != _API_VERSIONS:
        return _CORRELATION_ID.pack(correlation_id) + b"\x00"
    return _CORRELATION_ID.pack(correlation_id)


def correlation_id_of(frame: memoryview) -> int:
    if len(frame) < 4:
        raise ProtocolError(f"a response of {len(frame)} bytes")
    correlation_id: int = _CORRELATION_ID.unpack_from(frame)[0]
    return correlation_id


def response_body_position(frame: memoryview, api_key: int, api_version: int) -> int:
    if not is_flexible(api_key, api_version) or api_key == _API_VERSIONS:
        return 4
    try:
        return skip_tagged_fields(frame, 4)
    except MALFORMED as error:
        raise ProtocolError(f"a malformed response header: {error}") from error
