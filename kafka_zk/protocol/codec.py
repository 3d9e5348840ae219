"""Encodes and decodes all messages, except those of the hot path, with the field tables in ``messages/``.

``request(api_key)`` and ``response(api_key)`` return the class of a message. The classes of its structs are attributes
(``MetadataResponse.MetadataResponseTopic``). See ``message``.
"""

from collections.abc import Generator, Iterable, Iterator
from functools import cache
from typing import Any

from kafka_zk.protocol.api_keys import ApiKey, is_flexible
from kafka_zk.protocol.errors import ErrorCode, ProtocolError
from kafka_zk.protocol.field_table import Table
from kafka_zk.protocol.message import message_class
from kafka_zk.protocol.primitives import MALFORMED, Buffer
from kafka_zk.protocol.request import request_header, response_header
from kafka_zk.protocol.request_limits import MAX_BODY_BYTES, max_elements
from kafka_zk.protocol.response_limits import MAX_RESPONSE_ELEMENTS
from kafka_zk.protocol.schema_reader import Allowance, Reader, StepReader, struct_reader, struct_step_reader
from kafka_zk.protocol.schema_writer import struct_writer
from kafka_zk.protocol.step_writer import Arrays, Packer, arrays_of, is_large, row_packer, write_around, write_in_steps

Message = Any
"""An instance of one of the message classes."""

_UNSUPPORTED_VERSION = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")


def request(api_key: int) -> Any:
    """The class of the API's requests. Raises KeyError if the API is unknown or has no table."""
    return message_class(api_key, "request")


def response(api_key: int) -> Any:
    """The class of the API's responses. Raises KeyError if the API is unknown or has no table."""
    return message_class(api_key, "response")


def decode_request(api_key: int, version: int, body: Buffer) -> Message:
    """``body``: the frame without its header. Raises ProtocolError, also above the API's limit of elements."""
    return _decode(api_key, "request", version, body, max_elements(api_key))


def decode_request_in_steps(api_key: int, version: int, body: Buffer) -> Generator[int, None, Message]:
    """Decode a large request. Yields how many bytes of memory the next step needs, or 0. Raises ProtocolError."""
    if len(body) > MAX_BODY_BYTES:
        raise ProtocolError(f"a request of API {api_key} with {len(body)} bytes, at most {MAX_BODY_BYTES} are allowed")
    reader = _step_reader(api_key, version)
    try:
        message, _ = yield from reader(body, 0, Allowance(max_elements(api_key)))
    except MALFORMED as error:
        raise _malformed("request", api_key, version, error) from error
    return message


def decode_response(api_key: int, version: int, body: Buffer) -> Message:
    """``body``: the frame without its header. Raises ProtocolError, also above MAX_RESPONSE_ELEMENTS.

    An ApiVersions response with UNSUPPORTED_VERSION always has version 0 (KIP-511).
    """
    if api_key == ApiKey.API_VERSIONS and bytes(body[:2]) == _UNSUPPORTED_VERSION:
        version = 0
    return _decode(api_key, "response", version, body, MAX_RESPONSE_ELEMENTS)


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, message: Message
) -> bytes | bytearray:
    return request_header(api_key, version, correlation_id, client_id) + encode_body(message, api_key, version)


def encode_response(api_key: int, version: int, correlation_id: int, message: Message) -> bytes | bytearray:
    """The header and body, without the size prefix. Fields that ``version`` lacks are omitted."""
    return response_header(api_key, version, correlation_id) + encode_body(message, api_key, version)


def encode_body(message: Message, api_key: int, version: int) -> bytearray:
    """An invalid value raises a Python exception, because it is a bug."""
    out = bytearray()
    struct_writer(message.table, version, is_flexible(api_key, version))(message, out)
    return out


def encode_body_in_steps(message: Message, api_key: int, version: int) -> Generator[int, None, bytearray]:
    """The same bytes as ``encode_body``. Yields the bytes written since the last step."""
    out = bytearray()
    yield from write_in_steps(message.table, message, version, is_flexible(api_key, version), out)
    return out


@cache
def response_rows(api_key: int, version: int, *path: str) -> Packer:
    """The packer of the elements of the array at ``path``, which may contain only numbers and arrays of numbers."""
    table = _table(api_key, "response", version)
    for name in path:
        table = _elements_table(table, name)
    packer = row_packer(table, version, is_flexible(api_key, version))
    assert packer is not None, f"{path} of {ApiKey(api_key).name} has other fields, too"
    return packer


def is_large_response(api_key: int, version: int, message: Message) -> bool:
    """True if encoding the response in one step would block other requests."""
    return is_large(_response_arrays(api_key, version), message)


def encode_response_in_steps(
    api_key: int, version: int, correlation_id: int, message: Message
) -> Generator[int, None, list[bytes | bytearray]]:
    """The parts together are ``encode_response``'s bytes. Yields the bytes written since the last step."""
    table = message.table
    parts: list[bytes | bytearray] = [response_header(api_key, version, correlation_id)]
    for part in _parts_in_steps(table, message, version, is_flexible(api_key, version)):
        yield len(part)
        parts.append(part)
    return parts


def _parts_in_steps(table: Table, item: Any, version: int, flexible: bool) -> Iterator[bytearray]:
    """Yield parts, because one growing buffer would be copied and take up to twice the memory."""
    out = bytearray()
    for _ in write_in_steps(table, item, version, flexible, out):
        yield out[:]
        out.clear()
    yield out


class ElementEncoder:
    """Encodes elements of one array of a response: small ones whole, those with large arrays in parts."""

    def __init__(self, api_key: int, version: int, name: str) -> None:
        self._version, self._flexible = version, is_flexible(api_key, version)
        self._table = _elements_table(_table(api_key, "response", version), name)
        self._write = struct_writer(self._table, version, self._flexible)
        self._arrays = arrays_of(self._table, version)

    def parts(self, element: Any) -> Iterable[bytes | bytearray]:
        """The element must not change before all parts are taken."""
        if self._arrays and is_large(self._arrays, element, 0):
            return _parts_in_steps(self._table, element, self._version, self._flexible)
        out = bytearray()
        self._write(element, out)
        return (out,)


@cache
def response_element_encoder(api_key: int, version: int, name: str) -> ElementEncoder:
    return ElementEncoder(api_key, version, name)


def encode_body_around(message: Message, api_key: int, version: int, name: str, count: int) -> tuple[bytes, bytes]:
    """The bytes before and after the elements of the array ``name``. The array is empty in ``message`` but will have
    ``count`` elements.
    """
    before, after = bytearray(), bytearray()
    write_around(message.table, message, version, is_flexible(api_key, version), (name, count), before, after)
    return bytes(before), bytes(after)


def _table(api_key: int, kind: str, version: int) -> Table:
    try:
        found = message_class(api_key, kind)
    except KeyError:
        found = None
    if found is None or not found.valid_versions.include(version):
        raise ProtocolError(f"API {api_key} has no {kind} of version {version}")
    table: Table = found.table
    return table


def _elements_table(table: Table, name: str) -> Table:
    elements = table.field(name).struct
    assert elements is not None, f"{name} of {table.name} is not an array of structs"
    return elements


@cache
def _reader(api_key: int, kind: str, version: int) -> Reader:
    return struct_reader(_table(api_key, kind, version), version, is_flexible(api_key, version))


@cache
def _step_reader(api_key: int, version: int) -> StepReader:
    return struct_step_reader(_table(api_key, "request", version), version, is_flexible(api_key, version))


@cache
def _response_arrays(api_key: int, version: int) -> Arrays:
    return arrays_of(_table(api_key, "response", version), version)


def _malformed(kind: str, api_key: int, version: int, error: Exception) -> ProtocolError:
    return ProtocolError(f"a malformed {kind} of API {api_key} version {version}: {error}")


def _decode(api_key: int, kind: str, version: int, body: Buffer, element_count: int) -> Message:
    reader = _reader(api_key, kind, version)
    try:
        message, _ = reader(body, 0, Allowance(element_count))
    except MALFORMED as error:
        raise _malformed(kind, api_key, version, error) from error
    return message
