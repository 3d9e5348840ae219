"""A request of any API whose first array is as long as a frame allows, made from the API's field table."""

import struct
import uuid
from typing import Any

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import is_flexible
from tests.attack.payloads import frame, unsigned_varint

_SMALLEST = {
    "string": "",
    "bytes": b"",
    "records": b"",
    "bool": False,
    "float64": 0.0,
    "uuid": uuid.UUID(int=0),
    "bitfield": set(),
}
_WANTED = {"acks": -1}
"""Values that make the broker answer."""


def long_array(api_key: int, version: int, size_bytes: int) -> bytes | None:
    """The first array has as many smallest elements as fit into ``size_bytes``; None when the request has no array."""
    one, two = (_body(api_key, version, count) for count in (1, 2))
    if one == two:
        return None
    after_count = next(position for position in range(len(one)) if one[position] != two[position]) + 1
    element_size = len(two) - len(one)
    elements_end = after_count + element_size
    count = size_bytes // element_size
    if is_flexible(api_key, version):
        front = one[: after_count - 1] + unsigned_varint(count + 1)
    else:
        front = one[: after_count - 4] + struct.pack(">i", count)
    return frame(api_key, version, front + one[after_count:elements_end] * count + one[elements_end:])


def _body(api_key: int, version: int, count: int) -> bytes:
    """With ``count`` elements in the first array, and with empty arrays elsewhere."""
    message_class = codec.request(api_key)
    values = _values(message_class._struct, version)
    for field in message_class._struct._fields:
        if field.is_array() and field.name in values and not field.tagged_field_q(version):
            values[field.name] = [_element(field, version)] * count
            break
    return bytes(codec.encode_body(message_class(version=version, **values), api_key, version))


def _values(table: Any, version: int) -> dict[str, Any]:
    return {field.name: _smallest(field, version) for field in table._fields if field.for_version_q(version)}


def _smallest(field: Any, version: int) -> Any:
    if field.is_array():
        return []
    if field.is_struct():
        return field.data_class(version=version, **_values(field, version))
    return _WANTED.get(field.name, _SMALLEST.get(field.type_str, 0))


def _element(array: Any, version: int) -> Any:
    if array.is_struct_array():
        return array.array_of.data_class(version=version, **_values(array.array_of, version))
    return _SMALLEST.get(array.array_of.type_str, 0)
