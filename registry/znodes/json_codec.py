"""JSON in Kafka's znodes: UTF-8, no whitespace, keys in any order, unknown ones ignored.

Up to 0.10, brokers and consumers parse every number as a 32-bit integer or reject the document. So values that can
exceed 2^31-1 (timestamps, producer ids) are strings; readers accept both. Invalid content, such as a value outside its
field's type in Kafka, raises InvalidZnode with the path.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from kafka_zk.base.integers import INT32, INT64, decimal_integer
from kafka_zk.registry.client.errors import InvalidZnode

PARTITIONS = range(2**31)

MOST_REPLICAS = 1000
"""Maximum number of replicas per partition. Each is a log on another broker, and one turn handles all of them."""

LONGEST_TEXT_BYTES = 2**15 - 1  # limit of a STRING in Kafka's protocol

_INTEGER = re.compile(r"-?[0-9]{1,20}")
_SHOWN_CHARACTERS = 60
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


def encode(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def decode(path: str, data: bytes | None) -> Any:
    """Decode any JSON value. Raises InvalidZnode, also for empty data."""
    try:
        document = json.loads((data or b"").decode())
        if data and _SURROGATE_ESCAPE.search(data):
            encode(document)  # raises for half a surrogate pair, an unusable name
        return document
    except (ValueError, RecursionError) as error:
        raise InvalidZnode(f"{path}: not JSON: {error}") from error


def decode_object(path: str, data: bytes | None) -> dict[str, Any]:
    document = decode(path, data)
    if not isinstance(document, dict):
        raise InvalidZnode(f"{path}: a JSON object is expected")
    return document


def integer(
    path: str, document: Mapping[str, Any], key: str, default: int | None = None, within: range = INT32
) -> int:
    """A JSON integer or a string of digits. Raises InvalidZnode."""
    value = document.get(key, default)
    if type(value) is int:
        number = value
    elif isinstance(value, str) and _INTEGER.fullmatch(value):
        number = int(value)
    else:
        raise InvalidZnode(f"{path}: {key!r} must be an integer, not {shown(value)}")
    return in_range(path, repr(key), number, within)


def integer_text(path: str, data: bytes | None, within: range = INT64) -> int:
    """A znode that is a decimal number. Raises InvalidZnode."""
    number = (data or b"").decode(errors="replace").strip()
    if not _INTEGER.fullmatch(number):
        raise InvalidZnode(f"{path}: {shown(data)} is not a number")
    return in_range(path, "the number", int(number), within)


def number_of(name: str, within: range) -> int | None:
    """The number in a key or znode name; None unless it has Kafka's form."""
    number = decimal_integer(name, within)
    return number if number is not None and number >= 0 and str(number) == name else None


def in_range(path: str, name: str, number: int, within: range) -> int:
    if number not in within:
        raise InvalidZnode(f"{path}: {name} must be from {within[0]} to {within[-1]}, not {shown(number)}")
    return number


def shown(value: object) -> str:
    """Format a value for a message, shortened if necessary."""
    try:
        text = repr(value)
    except ValueError:  # an int of thousands of digits
        return "a huge number"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def text(path: str, document: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = document.get(key, default)
    if not isinstance(value, str):
        raise InvalidZnode(f"{path}: {key!r} must be a string, not {shown(value)}")
    if len(value) * 4 > LONGEST_TEXT_BYTES < len(value.encode()):
        raise InvalidZnode(f"{path}: {key!r} is longer than {LONGEST_TEXT_BYTES} bytes")
    return value


def optional_text(path: str, document: Mapping[str, Any], key: str) -> str | None:
    """The string at ``key``; None if the key is absent or null. Raises InvalidZnode."""
    return None if document.get(key) is None else text(path, document, key)


def string_map(path: str, document: Mapping[str, Any], key: str) -> dict[str, str]:
    """The object at ``key`` whose values are strings; empty if the key is absent. Raises InvalidZnode."""
    value = document.get(key, {})
    if not isinstance(value, dict) or not all(isinstance(entry, str) for entry in value.values()):
        raise InvalidZnode(f"{path}: {key!r} must be an object of strings")
    return value


def broker_ids(path: str, key: str, value: object) -> list[int]:
    """Check that ``value`` is a list of at most MOST_REPLICAS 32-bit integers, and return it. Raises InvalidZnode."""
    if isinstance(value, list) and len(value) > MOST_REPLICAS:
        raise InvalidZnode(f"{path}: {key!r} names {len(value)} replicas; at most {MOST_REPLICAS} are allowed")
    if not isinstance(value, list) or [entry for entry in value if type(entry) is not int or entry not in INT32]:
        raise InvalidZnode(f"{path}: {key!r} must be a list of integers of 32 bits, not {shown(value)}")
    return value


def text_list(path: str, key: str, value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise InvalidZnode(f"{path}: {key!r} must be a list of strings")
    return value


def object_list(path: str, document: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    value = document.get(key)
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise InvalidZnode(f"{path}: {key!r} must be a list of objects")
    return value


def version(path: str, document: Mapping[str, Any]) -> int:
    """The version number of the document, at least 1. Raises InvalidZnode."""
    number = integer(path, document, "version")
    if number < 1:
        raise InvalidZnode(f"{path}: version {number} is not known")
    return number
