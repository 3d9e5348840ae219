"""Confluent's framing of a value: a zero byte, the schema id in four bytes, a message path (Protobuf only), the data.

Source: "Wire format" in the documentation of Confluent's Schema Registry.
"""

import struct
from typing import NamedTuple

_HEAD = struct.Struct(">bI")
_MAGIC = 0
_VARINT_BYTES_MAX = 5
_PATH_MAX = 64


class ValueUndecodable(ValueError):
    """The message gives the reason, also for the headers of a dead letter."""


class Frame(NamedTuple):
    schema_id: int
    payload: bytes


def read_frame(value: bytes) -> Frame:
    """The schema id and the data. Raises ValueUndecodable."""
    if len(value) < _HEAD.size:
        raise ValueUndecodable(f"no schema id: the value has only {len(value)} bytes")
    magic, schema_id = _HEAD.unpack_from(value)
    if magic != _MAGIC:
        raise ValueUndecodable(f"no schema id: the first byte is {value[0]}, not 0")
    return Frame(schema_id, value[_HEAD.size :])


def read_message_path(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    """The path to the message in its Protobuf schema, outermost message first, and the message's bytes. Raises
    ValueUndecodable."""
    count, position = _zigzag(payload, 0)
    if count == 0:  # short form of the first message
        return (0,), payload[position:]
    if not 0 < count <= _PATH_MAX:
        raise ValueUndecodable(f"not a Protobuf message: {count} message indexes")
    path = []
    for _ in range(count):
        step, position = _zigzag(payload, position)
        path.append(step)
    return tuple(path), payload[position:]


def _zigzag(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for number, byte in enumerate(data[position : position + _VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position + number + 1
    raise ValueUndecodable("not a Protobuf message: its message indexes have no end")
