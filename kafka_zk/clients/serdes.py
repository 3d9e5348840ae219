"""Serializers and deserializers of keys and values. They produce the same bytes as Java's.

    string    the text in UTF-8 (or another encoding)        StringSerializer
    integer   4 bytes, big-endian, signed                    IntegerSerializer
    long      8 bytes, big-endian, signed                    LongSerializer
    float     4 bytes, big-endian, IEEE 754                  FloatSerializer
    double    8 bytes, big-endian, IEEE 754                  DoubleSerializer
    bytes     as they are                                    ByteArraySerializer
    json      a JSON document in UTF-8, without spaces

``None`` stays None both ways (a tombstone). Clients accept any object with ``serialize`` or ``deserialize``, for
example for a schema registry. Pure.
Source: org.apache.kafka.common.serialization@3.9.
"""

import json
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from kafka_zk.clients.connection.errors import ConfigError
from kafka_zk.storage.records.record_batch import Header

_INT_RANGES = {"i": 31, "q": 63}


class SerializationError(ValueError):
    """A value that the serializer rejects, or bytes that the deserializer cannot decode."""


class Serializer(Protocol):
    def serialize(self, topic: str, value: Any, headers: Sequence[Header]) -> bytes | None:
        """Raises: SerializationError."""


class Deserializer(Protocol):
    def deserialize(self, topic: str, data: bytes | None, headers: Sequence[Header]) -> Any:
        """Raises: SerializationError."""


class Serde(NamedTuple):
    serializer: Serializer
    deserializer: Deserializer


class StringSerde:
    """``encoding``: Java's serializer.encoding."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def serialize(self, topic: str, value: Any, headers: Sequence[Header] = ()) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, str):
            raise SerializationError(f"a string was expected, not {type(value).__name__}")
        try:
            return value.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise SerializationError(f"the string cannot be written in {self.encoding}: {error.reason}") from error

    def deserialize(self, topic: str, data: bytes | None, headers: Sequence[Header] = ()) -> str | None:
        if data is None:
            return None
        try:
            return data.decode(self.encoding)
        except UnicodeDecodeError as error:
            raise SerializationError(f"{len(data)} bytes are not valid {self.encoding}: {error.reason}") from error


class BytesSerde:
    def serialize(self, topic: str, value: Any, headers: Sequence[Header] = ()) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, bytes | bytearray | memoryview):
            raise SerializationError(f"bytes were expected, not {type(value).__name__}")
        return bytes(value)

    def deserialize(self, topic: str, data: bytes | None, headers: Sequence[Header] = ()) -> bytes | None:
        return data


class NumberSerde:
    """A number of a fixed size, big-endian. ``name``: the name in Java. ``code``: the format character for ``struct``.
    """

    def __init__(self, name: str, code: str) -> None:
        self.name = name
        self._code = code
        self._struct = struct.Struct(">" + code)

    def serialize(self, topic: str, value: Any, headers: Sequence[Header] = ()) -> bytes | None:
        if value is None:
            return None
        whole = self._code in _INT_RANGES
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            raise SerializationError(f"a number ({self.name}) was expected, not {type(value).__name__}")
        try:
            return self._struct.pack(value)
        except (struct.error, OverflowError):
            raise SerializationError(f"{value} does not fit into {self._struct.size} bytes ({self.name})") from None

    def deserialize(self, topic: str, data: bytes | None, headers: Sequence[Header] = ()) -> int | float | None:
        if data is None:
            return None
        if len(data) != self._struct.size:
            raise SerializationError(f"{self.name} has {self._struct.size} bytes, not {len(data)}")
        value: int | float = self._struct.unpack(data)[0]
        return value


class JsonSerde:
    """A JSON document without spaces between tokens; characters beyond ASCII are not escaped."""

    def serialize(self, topic: str, value: Any, headers: Sequence[Header] = ()) -> bytes | None:
        if value is None:
            return None
        try:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise SerializationError(f"the value cannot be written as JSON: {error}") from error

    def deserialize(self, topic: str, data: bytes | None, headers: Sequence[Header] = ()) -> Any:
        if data is None:
            return None
        try:
            return json.loads(data)
        except ValueError as error:  # includes UnicodeDecodeError
            raise SerializationError(f"{len(data)} bytes are not valid JSON: {error}") from error


_STRING, _BYTES, _JSON = StringSerde(), BytesSerde(), JsonSerde()
_NUMBERS = {
    name: NumberSerde(name, code) for name, code in (("integer", "i"), ("long", "q"), ("float", "f"), ("double", "d"))
}
SERDES: dict[str, Serde] = {
    "string": Serde(_STRING, _STRING),
    "bytes": Serde(_BYTES, _BYTES),
    "json": Serde(_JSON, _JSON),
    **{name: Serde(number, number) for name, number in _NUMBERS.items()},
}
"""Serdes by their name in configurations and on command lines."""


def serde_named(key: str, name: str) -> Serde:
    """Raises ConfigError naming the configuration ``key`` and the known names."""
    if name not in SERDES:
        raise ConfigError(f"{key}: {name!r} is not one of {', '.join(sorted(SERDES))}")
    return SERDES[name]
