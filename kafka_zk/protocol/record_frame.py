"""The frame of a record in ``__cluster_metadata`` and ``__remote_log_metadata``.

A value is a frame version (1), the record's type (its ``apiKey``), its version, and its fields; the three numbers are
unsigned varints.
Source: AbstractApiMessageSerde.java, BytesApiMessageSerde.java@3.9.
"""

from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.primitives import MALFORMED, Buffer, read_unsigned_varint, unsigned_varint

_FRAME_VERSION = 1


def read_record_frame(value: Buffer) -> tuple[int, int, int]:
    """The record's type, its version, and the position of its fields. Raises ProtocolError."""
    try:
        frame_version, position = read_unsigned_varint(value, 0)
        kind, position = read_unsigned_varint(value, position)
        version, position = read_unsigned_varint(value, position)
    except MALFORMED:
        raise ProtocolError(f"a truncated metadata record of {len(value)} bytes") from None
    if frame_version != _FRAME_VERSION:
        raise ProtocolError(f"a metadata record with frame version {frame_version}, expected {_FRAME_VERSION}")
    return kind, version, position


def record_frame(kind: int, version: int) -> bytes:
    """The bytes before the fields."""
    return unsigned_varint(_FRAME_VERSION) + unsigned_varint(kind) + unsigned_varint(version)
