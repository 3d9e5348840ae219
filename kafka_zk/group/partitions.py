"""The partitions of ``__consumer_offsets``: which one a group belongs to.

Source: GroupMetadataManager.partitionFor, Utils.abs@3.9; java.lang.String.hashCode.
"""

import struct

OFFSETS_TOPIC = "__consumer_offsets"

_MASK = 0xFFFF_FFFF
_SMALLEST = 1 << 31  # the smallest int of Java, without its sign


def partition_for(group_id: str, partition_count: int) -> int:
    """The partition whose leader coordinates the group."""
    return _positive(_java_hash(group_id)) % partition_count


def _java_hash(text: str) -> int:
    """Java's hash of a string, as 32 bits without sign; it counts UTF-16 units."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for unit in struct.unpack(f">{len(encoded) // 2}H", encoded):
        result = (31 * result + unit) & _MASK
    return result


def _positive(hashed: int) -> int:
    """The absolute value of the int that these bits are in Java; the smallest int has none and gives 0."""
    if hashed == _SMALLEST:
        return 0
    return hashed if hashed < _SMALLEST else (1 << 32) - hashed
