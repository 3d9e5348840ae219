"""A request of any API whose first array is as long as a frame allows, made from the API's field table."""

import struct
import uuid
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
    values = _values(message_class.table, version)
    for field in message_class.table.fields:
        if field.is_array and field.name in values and not field.tagged_versions.include(version):
            values[field.name] = [_element(field, version)] * count
            break
    return bytes(codec.encode_body(message_class(**values), api_key, version))


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
