"""Every message but the hot path's: bytes to objects and back, on the field tables of kafka-python 3.

This is the only module that touches kafka-python. Its tables and message classes are used (``encode`` too), its decoder
is not, see ``schema_reader``. Messages that it lacks are tables of our own under ``messages/``, whose facts come from
Kafka 3.9's message descriptions; ``MetadataResponse`` and the like keep kafka-python's field names.

A message is built from the class that ``request(api_key)`` or ``response(api_key)`` gives, the structs inside it from
the class's attributes (``MetadataResponse.MetadataResponseTopic``), with ``version=`` or without. Give every array: the
default of an array field is one list shared by all messages.
"""

import importlib
import types
from collections.abc import Generator, Iterable, Iterator
from functools import cache
from typing import Any

from kafka_zk.protocol import messages
from kafka_zk.protocol.api_keys import ApiKey, is_flexible
from kafka_zk.protocol.errors import ErrorCode, ProtocolError
from kafka_zk.protocol.kafka_python import ApiMessage, EncodeBuffer, without_loader_warnings
from kafka_zk.protocol.primitives import MALFORMED, Buffer
from kafka_zk.protocol.request import request_header, response_header
from kafka_zk.protocol.request_limits import MAX_BODY_BYTES, max_elements
from kafka_zk.protocol.response_limits import MAX_RESPONSE_ELEMENTS
from kafka_zk.protocol.schema_reader import Allowance, Reader, StepReader, compile_reader, compile_step_reader
from kafka_zk.protocol.schema_writer import (
    Arrays,
    Packer,
    arrays_of,
    is_large,
    row_packer,
    write_around,
    write_in_steps,
)

Message = Any
"""An instance of one of kafka-python's message classes, or of ours in the same style."""

_UNSUPPORTED_VERSION = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")

_MODULES = ("admin", "consumer", "metadata", "producer", "sasl")
_OWN_TABLES = (
    "LeaderAndIsr",
    "StopReplica",
    "UpdateMetadata",
    "ControlledShutdown",
    "AlterPartition",
    "AllocateProducerIds",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "CreateDelegationToken",
    "RenewDelegationToken",
    "ExpireDelegationToken",
    "DescribeDelegationToken",
)


def _message_classes() -> dict[tuple[int, str], Any]:
    """Every message class by API key and type ("request" or "response")."""
    classes: list[Any] = [
        types.new_class(name + suffix, (ApiMessage,), {"load_json": messages})
        for name in _OWN_TABLES
        for suffix in ("Request", "Response")
    ]
    for name in _MODULES:
        importlib.import_module(f"kafka.protocol.{name}")
    # kafka-python makes a subclass per version that somebody used; those are left out.
    classes += [cls for cls in ApiMessage.__subclasses__() if cls._class_version is None]
    # Not by ``cls.type``: in LeaderAndIsrRequest and UpdateMetadataRequest a field of that name hides it.
    return {(cls._json["apiKey"], cls._json["type"]): cls for cls in classes}


with without_loader_warnings():
    _CLASSES = _message_classes()


def request(api_key: int) -> Any:
    """The class of an API's request. Raises KeyError when there is none."""
    return _CLASSES[api_key, "request"]


def response(api_key: int) -> Any:
    """The class of an API's response. Raises KeyError when there is none."""
    return _CLASSES[api_key, "response"]


def decode_request(api_key: int, version: int, body: Buffer) -> Message:
    """The request in ``body`` (the frame without its header). Raises ProtocolError, also if it has more elements than
    such a request can need."""
    return _decode(api_key, "request", version, body, max_elements(api_key))


def decode_request_in_steps(api_key: int, version: int, body: Buffer) -> Generator[int, None, Message]:
    """The same for a large body: yields the bytes of memory that are needed next, before they are used, and 0 now and
    then. Raises ProtocolError."""
    if len(body) > MAX_BODY_BYTES:
        raise ProtocolError(f"a request of API {api_key} with {len(body)} bytes, at most {MAX_BODY_BYTES} are allowed")
    reader = _step_reader(api_key, version)
    try:
        message, _ = yield from reader(body, 0, Allowance(max_elements(api_key)))
    except MALFORMED as error:
        raise _malformed("request", api_key, version, error) from error
    message._header = message._min_version = message._max_version = None
    return message


def decode_response(api_key: int, version: int, body: Buffer) -> Message:
    """The response in ``body`` (the frame without its header). Raises ProtocolError, also for more elements than
    MAX_RESPONSE_ELEMENTS.

    An ApiVersions response with UNSUPPORTED_VERSION is of version 0 whatever was asked (KIP-511).
    """
    if api_key == ApiKey.API_VERSIONS and bytes(body[:2]) == _UNSUPPORTED_VERSION:
        version = 0
    return _decode(api_key, "response", version, body, MAX_RESPONSE_ELEMENTS)


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, message: Message
) -> bytes | bytearray:
    """Header and body, without the size prefix."""
    return request_header(api_key, version, correlation_id, client_id) + encode_body(message, api_key, version)


def encode_response(api_key: int, version: int, correlation_id: int, message: Message) -> bytes | bytearray:
    """Header and body, without the size prefix. Fields that ``version`` does not have are left out."""
    return response_header(api_key, version, correlation_id) + encode_body(message, api_key, version)


def encode_body(message: Message, api_key: int, version: int) -> bytearray:
    """The body alone. A value that its field cannot hold raises what Python raises: it is our mistake."""
    flexible = is_flexible(api_key, version)
    out = EncodeBuffer(512)
    encode = message._struct.compiled_encode_into(version, compact=flexible, tagged=flexible)
    encode(message, out)
    body: bytearray = out.result()
    return body


def encode_body_in_steps(message: Message, api_key: int, version: int) -> Generator[int, None, bytearray]:
    """The same bytes as ``encode_body`` gives; yields now and then how many have become of the message since."""
    flexible = is_flexible(api_key, version)
    out = EncodeBuffer(512)
    yield from write_in_steps(message._struct, message, version, flexible, out)
    body: bytearray = out.result()
    return body


@cache
def response_rows(api_key: int, version: int, *path: str) -> Packer:
    """What encodes an element of the array that the fields ``path`` lead to; it has numbers and arrays of numbers."""
    table = _message_class(api_key, "response", version)._struct
    for name in path:
        table = table.fields[name].array_of
    packer = row_packer(table, version, is_flexible(api_key, version))
    assert packer is not None, f"{path} of {ApiKey(api_key).name} has other fields, too"
    return packer


def is_large_response(api_key: int, version: int, message: Message) -> bool:
    """Whether it should be encoded in steps, so that nobody waits for the whole."""
    return is_large(_response_arrays(api_key, version), message)


def encode_response_in_steps(
    api_key: int, version: int, correlation_id: int, message: Message
) -> Generator[int, None, list[bytes | bytearray]]:
    """The same bytes as ``encode_response`` gives, in parts; yields now and then how many have become of the message
    since."""
    table = message._struct
    parts: list[bytes | bytearray] = [response_header(api_key, version, correlation_id)]
    for part in _parts_in_steps(table, message, version, is_flexible(api_key, version)):
        yield len(part)
        parts.append(part)
    return parts


def _parts_in_steps(table: Any, item: Any, version: int, flexible: bool) -> Iterator[bytearray]:
    """A struct in parts: one buffer that grows would be copied, and hold up to twice as much."""
    out = EncodeBuffer(512)
    for _ in write_in_steps(table, item, version, flexible, out):
        yield out.result()
        out.reset()
    yield out.result()


class ElementEncoder:
    """Encodes elements of one array of a response: small ones in one go, those with arrays of their own in parts."""

    def __init__(self, api_key: int, version: int, name: str) -> None:
        self._version, self._flexible = version, is_flexible(api_key, version)
        self._table = _message_class(api_key, "response", version)._struct.fields[name].array_of
        self._encode = self._table.compiled_encode_into(version, compact=self._flexible, tagged=self._flexible)
        self._arrays = arrays_of(self._table, version)

    def parts(self, element: Any) -> Iterable[bytes | bytearray]:
        """The bytes of the element, which must not change before all parts are taken."""
        if self._arrays and is_large(self._arrays, element, 0):
            return _parts_in_steps(self._table, element, self._version, self._flexible)
        out = EncodeBuffer(512)
        self._encode(element, out)
        encoded: bytearray = out.result()
        return (encoded,)


@cache
def response_element_encoder(api_key: int, version: int, name: str) -> ElementEncoder:
    """For the array ``name`` of a response."""
    return ElementEncoder(api_key, version, name)


def encode_body_around(message: Message, api_key: int, version: int, name: str, count: int) -> tuple[bytes, bytes]:
    """What stands before and after the elements of the array ``name``, which has ``count`` of them and is empty in
    ``message``."""
    before, after = EncodeBuffer(512), EncodeBuffer(512)
    write_around(message._struct, message, version, is_flexible(api_key, version), (name, count), before, after)
    return bytes(before.result()), bytes(after.result())


def _message_class(api_key: int, kind: str, version: int) -> Any:
    message_class = _CLASSES.get((api_key, kind))
    if message_class is None or not 0 <= version <= message_class.max_version:
        raise ProtocolError(f"API {api_key} has no {kind} of version {version}")
    return message_class


@cache
def _reader(api_key: int, kind: str, version: int) -> Reader:
    return compile_reader(_message_class(api_key, kind, version), version, is_flexible(api_key, version))


@cache
def _step_reader(api_key: int, version: int) -> StepReader:
    return compile_step_reader(_message_class(api_key, "request", version), version, is_flexible(api_key, version))


@cache
def _response_arrays(api_key: int, version: int) -> Arrays:
    return arrays_of(_message_class(api_key, "response", version)._struct, version)


def _malformed(kind: str, api_key: int, version: int, error: Exception) -> ProtocolError:
    return ProtocolError(f"a malformed {kind} of API {api_key} version {version}: {error}")


def _decode(api_key: int, kind: str, version: int, body: Buffer, element_count: int) -> Message:
    reader = _reader(api_key, kind, version)
    try:
        message, _ = reader(body, 0, Allowance(element_count))
    except MALFORMED as error:
        raise _malformed(kind, api_key, version, error) from error
    message._header = message._min_version = message._max_version = None
    return message
