"""Zigzag varints: the sign in bit 0, seven bits per byte, lowest first."""

from collections.abc import Sequence

from kafka_zk.storage.files.errors import InvalidRecord

_MAX_BYTES = 10  # enough for a 64-bit value
_LAST_SHIFT = 7 * (_MAX_BYTES - 1)
_ALL_BITS = (1 << 64) - 1


def _encode(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def as_long(value: int) -> int:
    """``value`` reduced to 64 bits, as Java's overflow does."""
    return (value + 2**63) % 2**64 - 2**63


_TABLE_SIZE = 4096
_TABLE = tuple(_encode(value) for value in range(_TABLE_SIZE))  # most are small


def encode_varint(value: int) -> bytes:
    """Encode a signed integer of at most 64 bits."""
    return _TABLE[value] if 0 <= value < _TABLE_SIZE else _encode(value)


def encode_varints(values: Sequence[int]) -> Sequence[bytes]:
    """Encode non-negative integers."""
    try:
        return list(map(_TABLE.__getitem__, values))
    except IndexError:
        return list(map(encode_varint, values))


def read_varint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Decode at ``position``. Returns (value, position after it). Bits above 64 are lost, as in Java.

    Raises: InvalidRecord above ten bytes, IndexError at the end of the data.
    """
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    result = byte & 0x7F
    shift = 7
    for following in range(position + 1, position + _MAX_BYTES):
        byte = data[following]
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            if shift == _LAST_SHIFT:
                result &= _ALL_BITS
            return (result >> 1) ^ -(result & 1), following + 1
        shift += 7
    raise InvalidRecord(f"a varint at position {position} is longer than {_MAX_BYTES} bytes")
