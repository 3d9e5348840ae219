"""Requests of any API with one array as long as a frame allows, built from the API's field table."""

import struct
import uuid
from collections.abc import Iterator
from typing import Any

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import is_flexible
from kafka_zk.protocol.field_table import Field, Table
from tests.attack.payloads import frame, unsigned_varint

_SMALLEST = {
    "string": "",
    "bytes": b"",
    "records": b"",
    "bool": False,
    "float64": 0.0,
    "uuid": uuid.UUID(int=0),
}
_WANTED = {"acks": -1}
"""Field values that make the broker respond."""


def long_arrays(api_key: int, version: int, size_bytes: int) -> list[bytes]:
    """A request for each array of the API, at any depth: that array has as many of the smallest elements as fit into
    ``size_bytes``, each array around it has one element, and all others are empty.
    """
    table = codec.request(api_key).table
    return [_long(api_key, version, path, size_bytes) for path in _array_paths(table, version)]


def _array_paths(table: Table, version: int) -> Iterator[tuple[Field, ...]]:
    for field in table.fields:
        if not field.versions.include(version) or field.tagged_versions.include(version):
            continue
        if field.is_array:
            yield (field,)
        if field.struct is not None:
            yield from ((field, *inner) for inner in _array_paths(field.struct, version))


def _long(api_key: int, version: int, path: tuple[Field, ...], size_bytes: int) -> bytes:
    one, two = (_body(api_key, version, path, count) for count in (1, 2))
    after_count = next(position for position in range(len(one)) if one[position] != two[position]) + 1
    element_size = len(two) - len(one)
    elements_end = after_count + element_size
    count = size_bytes // element_size
    if is_flexible(api_key, version):
        front = one[: after_count - 1] + unsigned_varint(count + 1)
    else:
        front = one[: after_count - 4] + struct.pack(">i", count)
    return frame(api_key, version, front + one[after_count:elements_end] * count + one[elements_end:])


def _body(api_key: int, version: int, path: tuple[Field, ...], count: int) -> bytes:
    """A body with ``count`` elements in the array at the end of ``path``."""
    message_class = codec.request(api_key)
    message = message_class(**_with_array(message_class.table, version, path, count))
    return bytes(codec.encode_body(message, api_key, version))


def _with_array(table: Table, version: int, path: tuple[Field, ...], count: int) -> dict[str, Any]:
    field, *inner = path
    values = _values(table, version)
    if not inner:
        values[field.name] = [_element(field, version)] * count
        return values
    assert field.struct is not None
    element = field.struct.message_class(**_with_array(field.struct, version, tuple(inner), count))
    values[field.name] = [element] if field.is_array else element
    return values


def _values(table: Table, version: int) -> dict[str, Any]:
    return {field.name: _smallest(field, version) for field in table.fields if field.versions.include(version)}


def _smallest(field: Field, version: int) -> Any:
    if field.is_array:
        return []
    return _WANTED[field.name] if field.name in _WANTED else _element(field, version)


def _element(field: Field, version: int) -> Any:
    """The smallest value of a field's type, or of its elements'."""
    if field.struct is not None:
        return field.struct.message_class(**_values(field.struct, version))
    return _SMALLEST.get(field.type_name, 0)
