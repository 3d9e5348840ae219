"""Writes ``throttle_time_ms`` into an encoded response.

In most responses the field comes first, or after fixed-size fields. In Produce it follows the topics. In some other
responses it follows arrays, which must be decoded to find it. Version 0 of many APIs, and all versions of a few, lack
it. In error responses to FindCoordinator (versions 1 to 3) and AlterUserScramCredentials, Kafka leaves the field at 0.

Source for error responses: getErrorResponse in FindCoordinatorRequest and AlterUserScramCredentialsRequest@3.9.
"""

import struct
from functools import cache
from typing import Any

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.produce import FLEXIBLE_SINCE, read_produce_response, write_produce_response
from kafka_zk.protocol.request import response_body_position
from kafka_zk.protocol.struct_formats import FIXED_FORMATS

_INT32 = struct.Struct(">i")
_FIELD = "throttle_time_ms"
_BEHIND = -1  # follows fields whose size depends on their value
_PRODUCE = int(ApiKey.PRODUCE)
_PRODUCE_TAGS_SINCE = 10  # NodeEndpoints follows the throttle time
_FIND_COORDINATOR = int(ApiKey.FIND_COORDINATOR)
_MANY_KEYS_SINCE = 4
_ALTER_SCRAM = int(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
_REFUSALS_OF_ALL = (ErrorCode.NOT_CONTROLLER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def set_throttle_time(api_key: int, version: int, correlation_id: int, parts: list[Part], throttle_ms: int) -> bool:
    """Replace the field in an encoded response. Returns False if this version lacks it, or if Kafka leaves it at 0."""
    position = _position(api_key, version)
    if position is None or _is_refusal_without_time(api_key, version, parts):
        return False
    if position != _BEHIND:
        _patch(parts, response_body_position_of(api_key, version) + position, throttle_ms)
    elif api_key == _PRODUCE and version < _PRODUCE_TAGS_SINCE:
        whole = bytearray(_joined(parts))
        tags_size = 1 if version >= FLEXIBLE_SINCE else 0
        _INT32.pack_into(whole, len(whole) - tags_size - 4, throttle_ms)
        parts[:] = [whole]
    else:
        parts[:] = [_encoded_anew(api_key, version, correlation_id, _joined(parts), throttle_ms)]
    return True


def throttle_time_at_start(api_key: int, version: int, parts: list[Part]) -> int:
    assert _position(api_key, version) == 0
    beginning = b"".join(bytes(part) for part in parts[:2] if not hasattr(part, "retain"))
    throttle_ms: int = _INT32.unpack_from(beginning, response_body_position_of(api_key, version))[0]
    return throttle_ms


def _is_refusal_without_time(api_key: int, version: int, parts: list[Part]) -> bool:
    if api_key == _FIND_COORDINATOR and version < _MANY_KEYS_SINCE:
        return bool(_decoded(api_key, version, _joined(parts)).error_code)
    if api_key == _ALTER_SCRAM:
        results = _decoded(api_key, version, _joined(parts)).results
        return bool(results) and results[0].error_code in _REFUSALS_OF_ALL
    return False


@cache
def response_body_position_of(api_key: int, version: int) -> int:
    """The position of the body in a broker's responses, whose headers have no tagged fields."""
    return response_body_position(memoryview(bytes(5)), api_key, version)


@cache
def _position(api_key: int, version: int) -> int | None:
    position = 0
    is_behind = False
    for field in codec.response(api_key).table.fields:
        if not field.versions.include(version):
            continue
        if field.name == _FIELD:
            return _BEHIND if is_behind else position
        if field.is_fixed and not is_behind:
            position += struct.calcsize(">" + FIXED_FORMATS[field.type_name])
        else:
            is_behind = True
    return None


def _patch(parts: list[Part], position: int, throttle_ms: int) -> None:
    index = 0
    while position >= len(parts[index]):
        position -= len(parts[index])
        index += 1
    part = parts[index]
    assert isinstance(part, bytes | bytearray | memoryview), "no file begins a response"
    patched = bytearray(part)
    _INT32.pack_into(patched, position, throttle_ms)
    parts[index] = patched


def _joined(parts: list[Part]) -> bytes:
    return b"".join(bytes(part) for part in parts if isinstance(part, bytes | bytearray | memoryview))


def _encoded_anew(
    api_key: int, version: int, correlation_id: int, whole: bytes, throttle_ms: int
) -> bytes | bytearray:
    if api_key == _PRODUCE:
        produced = read_produce_response(version, memoryview(whole)[response_body_position_of(api_key, version) :])
        return write_produce_response(version, correlation_id, produced._replace(throttle_time_ms=throttle_ms))
    message = _decoded(api_key, version, whole)
    message.throttle_time_ms = throttle_ms
    return codec.encode_response(api_key, version, correlation_id, message)


def _decoded(api_key: int, version: int, whole: bytes) -> Any:
    return codec.decode_response(api_key, version, memoryview(whole)[response_body_position_of(api_key, version) :])
