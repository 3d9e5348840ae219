"""The wire's primitive types, for code that does not use the codec.

These functions run several times per request on the data path, so they handle one-byte varints, by far the most
frequent ones, without a call.

Every reader takes a buffer and a position and returns the value and the position after it. A length that exceeds the
buffer, or a varint of more than five bytes, is a ProtocolError. Reading a fixed-size number beyond the end raises
``struct.error`` or ``IndexError``, which the caller converts to a ProtocolError for the whole message.
"""

import struct

from kafka_zk.protocol.errors import ProtocolError

Buffer = bytes | bytearray | memoryview

MAX_STRING_BYTES = 0x7FFF
"""As in Kafka, the limit also applies if the length is a varint."""

MAX_TAGGED_FIELDS = 100
"""Limit for each struct. Kafka's messages have fewer than ten, but unknown ones must be skipped one by one."""

_VARINTS_OF_ONE_BYTE = tuple(bytes([value]) for value in range(0x80))
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")

MALFORMED = (struct.error, IndexError, ValueError, OverflowError)
"""Raised for reading beyond the end of a buffer, or invalid data."""


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Raises ProtocolError if it is longer than five bytes or above 2^32 - 1."""
    byte = buffer[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        position += 1
        byte = buffer[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position + 1
    raise ProtocolError("a varint of more than 32 bits")


def read_length(buffer: Buffer, position: int, flexible: bool) -> tuple[int, int]:
    """The length of an array, bytes or records; -1 is null. Raises ProtocolError if it exceeds the buffer."""
    if flexible:
        length = buffer[position] - 1
        if length < 0x7F:
            position += 1
        else:
            length, position = read_unsigned_varint(buffer, position)
            length -= 1
    else:
        (length,) = _INT32.unpack_from(buffer, position)
        position += 4
        if length < -1:
            raise ProtocolError(f"a length of {length}")
    if length > len(buffer) - position:
        raise ProtocolError(f"a length of {length} with {len(buffer) - position} bytes left")
    return length, position


def read_count(buffer: Buffer, position: int, flexible: bool) -> tuple[int, int]:
    """The length of a non-null array. Raises ProtocolError."""
    if flexible and 0 < buffer[position] < 0x80 and buffer[position] <= len(buffer) - position:
        return buffer[position] - 1, position + 1
    count, position = read_length(buffer, position, flexible)
    if count < 0:
        raise ProtocolError("null instead of an array")
    return count, position


def read_string(buffer: Buffer, position: int, flexible: bool) -> tuple[str | None, int]:
    """A nullable string. As in Java, invalid UTF-8 becomes U+FFFD. Raises ProtocolError if it is truncated."""
    if flexible:
        length = buffer[position] - 1
        if length < 0x7F:
            position += 1
        else:
            length, position = read_unsigned_varint(buffer, position)
            length -= 1
            if length > MAX_STRING_BYTES:
                raise ProtocolError(f"a string of {length} bytes, at most {MAX_STRING_BYTES} are allowed")
    else:
        (length,) = _INT16.unpack_from(buffer, position)
        position += 2
    if length < 0:
        if length != -1:
            raise ProtocolError(f"a string length of {length}")
        return None, position
    end = position + length
    if end > len(buffer):
        raise ProtocolError(f"a string of {length} bytes with {len(buffer) - position} left")
    return str(buffer[position:end], "utf-8", "replace"), end


def read_name(buffer: Buffer, position: int, flexible: bool) -> tuple[str, int]:
    """A non-null string. Raises ProtocolError."""
    value, position = read_string(buffer, position, flexible)
    if value is None:
        raise ProtocolError("null instead of a string")
    return value, position


def skip_tagged_fields(buffer: Buffer, position: int) -> int:
    """The position after the section of tagged fields. Raises ProtocolError if the section is truncated."""
    if buffer[position] == 0:
        return position + 1
    return tagged_field_spans(buffer, position)[-1][2]


def tagged_field_spans(buffer: Buffer, position: int) -> list[tuple[int, int, int]]:
    """The tag, start and end of each field. The last row is (-1, end, end of the section)."""
    count, position = read_unsigned_varint(buffer, position)
    if count > len(buffer) - position:
        raise ProtocolError(f"{count} tagged fields with {len(buffer) - position} bytes left")
    if count > MAX_TAGGED_FIELDS:
        raise ProtocolError(f"{count} tagged fields, at most {MAX_TAGGED_FIELDS} are allowed")
    fields = []
    for _ in range(count):
        tag, position = read_unsigned_varint(buffer, position)
        size_bytes, position = read_unsigned_varint(buffer, position)
        end = position + size_bytes
        if end > len(buffer):
            raise ProtocolError(f"a tagged field of {size_bytes} bytes with {len(buffer) - position} left")
        fields.append((tag, position, end))
        position = end
    fields.append((-1, position, position))
    return fields


def unsigned_varint(value: int) -> bytes:
    """``value``: 0 to 2^32 - 1."""
    if 0 <= value < 0x80:
        return _VARINTS_OF_ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(value: str | None, flexible: bool) -> bytes:
    """Encode a nullable string. If not flexible, raises ValueError above 32767 bytes."""
    if value is None:
        return b"\x00" if flexible else b"\xff\xff"
    data = value.encode("utf-8")
    if flexible:
        size = len(data) + 1
        return (_VARINTS_OF_ONE_BYTE[size] if size < 0x80 else unsigned_varint(size)) + data
    if len(data) > 32767:
        raise ValueError(f"a string of {len(data)} bytes, at most 32767 are allowed")
    return _INT16.pack(len(data)) + data


def length(count: int, flexible: bool) -> bytes:
    """The encoded length of an array, bytes or records; -1 is null."""
    if not flexible:
        return _INT32.pack(count)
    return _VARINTS_OF_ONE_BYTE[count + 1] if -1 <= count < 0x7F else unsigned_varint(count + 1)
