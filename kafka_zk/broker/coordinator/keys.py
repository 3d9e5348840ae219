"""Maps a group id or transactional id to its coordinator's partition.

Source: GroupMetadataManager.partitionFor, TransactionStateManager.partitionFor, Utils.abs@3.9; Java's String.hashCode.
"""

import struct
from functools import lru_cache
from operator import mul

from kafka_zk.protocol.primitives import MAX_STRING_BYTES

_MASK = 0xFFFF_FFFF
_SMALLEST = 1 << 31  # bits of Java's Integer.MIN_VALUE
_LONGEST_CACHED = 255


def is_storable(text: str) -> bool:
    """True if ``text`` fits in a record as UTF-8. Decoding invalid UTF-8 may have made it longer."""
    return len(text) <= MAX_STRING_BYTES // 4 or len(text.encode()) <= MAX_STRING_BYTES


def partition_for(key: str, partition_count: int) -> int:
    """The partition whose leader coordinates ``key``, a group id or a transactional id."""
    return (_cached_hash if len(key) <= _LONGEST_CACHED else _hash)(key) % partition_count


def _hash(key: str) -> int:
    return _positive(_java_hash(key))


_cached_hash = lru_cache(maxsize=4096)(_hash)


def _java_hash(text: str) -> int:
    """Java's String.hashCode over UTF-16 units, unsigned; 2 ms for the longest id."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    units = struct.unpack(f">{len(encoded) // 2}H", encoded)
    hashed = 0
    for start in range(0, len(units), _AT_ONCE):
        part = units[start : start + _AT_ONCE]
        hashed = (hashed * _POWERS[_AT_ONCE - len(part)] + sum(map(mul, part, _POWERS[-len(part) :]))) & _MASK
    return hashed


_AT_ONCE = 256
_POWERS = tuple(pow(31, exponent, 1 << 32) for exponent in range(_AT_ONCE, -1, -1))
"""Descending powers of 31, down to 1: weights of the units in a part, and of the parts before it."""


def _positive(hashed: int) -> int:
    """Java's Math.abs of these bits, but 0 for Integer.MIN_VALUE."""
    if hashed == _SMALLEST:
        return 0
    return hashed if hashed < _SMALLEST else (1 << 32) - hashed
