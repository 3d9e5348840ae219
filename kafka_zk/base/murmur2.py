"""The hash by which Java's clients and brokers choose partitions.

Source: Utils.java#murmur2@3.9.
"""

from struct import unpack_from

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Java's 32-bit murmur2 of ``data``, unsigned."""
    size = len(data)
    words = size >> 2
    value = _SEED ^ size
    for word in unpack_from(f"<{words}I", data):
        word = word * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER
        value = (value * _MULTIPLIER ^ word) & _MASK
    tail = data[words << 2 :]
    if tail:
        value = (value ^ int.from_bytes(tail, "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15
