"""The last offset of each key in the dirty part of a log, in memory of a fixed size.

A key is known by its MD5 digest, 24 bytes an entry with the offset, so that the map's size depends on neither keys nor
Python's objects. Two keys with one digest would count as one key, in Kafka's map as well.
Source: SkimpyOffsetMap.java@3.9. Tests: tests/storage/test_offset_map.py.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from struct import Struct
from typing import Any

from kafka_zk.storage.errors import InvalidConfig
from kafka_zk.system.memory import zeroed_memory

ENTRY_SIZE = 24
NOT_FOUND = -1
_ENTRY = Struct("<QQq")  # a digest, one more than the offset: an entry of zeros is free
_unpack, _pack = _ENTRY.unpack_from, _ENTRY.pack_into
_halves = Struct("<QQ").unpack
_LEAST_SLOTS = 101


class OffsetMap:
    """Open addressing in a table of at most ``memory_bytes``.

    ``latest_offset``: up to where the log has been looked at, -1 at the beginning. ``size`` is the number of keys;
    above ``max_size``, the share ``load_factor`` of the slots, no more should be put in. An entry of ``table`` is a
    digest and one more than its offset, little-endian; an entry of zeros is free.

    Args:
        most_keys: so many keys there are at most; the table is not made bigger than that needs.
    Raises: InvalidConfig if there is no room for a single key.
    """

    __slots__ = ("_md5", "_step_count", "latest_offset", "max_size", "size", "slots", "table")

    def __init__(self, memory_bytes: int, load_factor: float = 0.9, most_keys: int | None = None) -> None:
        self._md5 = _load_md5()
        slots = memory_bytes // ENTRY_SIZE
        if most_keys is not None:
            slots = min(slots, max(_LEAST_SLOTS, 2 * most_keys))
        self.slots = _prime_up_to(slots)
        self.max_size = min(int(self.slots * load_factor), self.slots - 1)  # a free slot ends every search
        if self.max_size < 1:
            raise InvalidConfig(f"{memory_bytes} bytes with a load factor of {load_factor} have no room for a key")
        self._step_count = max(1, self.slots - 1)
        self.table = zeroed_memory(self.slots * ENTRY_SIZE)  # zeros that take no memory before they are touched
        self.size = 0
        self.latest_offset = -1

    @property
    def utilization(self) -> float:
        """Which share of the slots is taken, from 0 to 1."""
        return self.size / self.slots

    def put(self, key: bytes, offset: int) -> bool:
        """Note the offset of a key; False if the key is new and the map is full."""
        low, high = _halves(self._md5(key).digest())
        position, found = self._find(low, high)
        if not found:
            if self.size >= self.max_size:
                return False
            self.size += 1
        _pack(self.table, position, low, high, offset + 1)
        return True

    def get(self, key: bytes) -> int:
        """The offset noted last, NOT_FOUND for an unknown key."""
        low, high = _halves(self._md5(key).digest())
        return self._find(low, high)[1] - 1

    def _find(self, low: int, high: int) -> tuple[int, int]:
        """Position and content of the digest's entry, or of the free one where it belongs, whose content is 0."""
        table = self.table
        slots = self.slots
        slot = low % slots
        step = 0
        while True:
            position = slot * ENTRY_SIZE
            found_low, found_high, content = _unpack(table, position)
            if (found_low == low and found_high == high) or not content:
                return position, content
            if not step:  # slots are a prime number, so any step comes to all of them
                step = 1 + high % self._step_count
            slot = (slot + step) % slots

    def close(self) -> None:
        """Give the memory back."""
        self.table.close()


def _load_md5() -> Callable[[bytes], Any]:
    """Python's own implementation, which takes a quarter of OpenSSL's time for a key; where it is left out, that."""
    try:
        found: Callable[[bytes], Any] = import_module("_md5").md5
    except ImportError:
        from hashlib import md5  # brings OpenSSL along, which a broker does without: its helpers clean

        return partial(md5, usedforsecurity=False)
    return found


def _prime_up_to(number: int) -> int:
    """The largest prime that is at most ``number``; the number itself below 3."""
    while number > 3 and (not number % 2 or any(not number % odd for odd in range(3, int(number**0.5) + 1, 2))):
        number -= 1
    return number
