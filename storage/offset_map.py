"""The last offset of each key in the dirty part of a log, in memory of a fixed size.

A key is known by its MD5 digest, 24 bytes an entry with the offset, so that the map's size depends on neither keys nor
Python's objects. Two keys with one digest would count as one key, in Kafka's map as well.
Source: SkimpyOffsetMap.java@3.9. Tests: tests/storage/test_offset_map.py.
"""

import mmap
from functools import partial
from struct import Struct

from kafka_zk.storage.errors import InvalidConfig

ENTRY_SIZE = 24
NOT_FOUND = -1
_DIGEST_SIZE = 16
_OFFSET = Struct("=q")  # one more than the offset: an entry of zeros is free
_NO_DIGEST = bytes(_DIGEST_SIZE)
_LEAST_SLOTS = 101


class OffsetMap:
    """Open addressing in a table of at most ``memory_bytes``.

    ``latest_offset``: up to where the log has been looked at, -1 at the beginning. ``size`` is the number of keys;
    above ``max_size``, the share ``load_factor`` of the slots, no more should be put in. An entry of ``table`` is a
    digest and one more than its offset, in the machine's order of bytes; an entry of zeros is free.

    Args:
        most_keys: so many keys there are at most; the table is not made bigger than that needs.
    Raises: InvalidConfig if there is no room for a single key.
    """

    __slots__ = ("_md5", "_step_count", "latest_offset", "max_size", "size", "slots", "table")

    def __init__(self, memory_bytes: int, load_factor: float = 0.9, most_keys: int | None = None) -> None:
        from hashlib import md5  # brings OpenSSL along, which a broker does without: its helpers clean

        self._md5 = partial(md5, usedforsecurity=False)
        slots = memory_bytes // ENTRY_SIZE
        if most_keys is not None:
            slots = min(slots, max(_LEAST_SLOTS, 2 * most_keys))
        self.slots = _prime_up_to(slots)
        self.max_size = min(int(self.slots * load_factor), self.slots - 1)  # a free slot ends every search
        if self.max_size < 1:
            raise InvalidConfig(f"{memory_bytes} bytes with a load factor of {load_factor} have no room for a key")
        self._step_count = max(1, self.slots - 1)
        self.table = mmap.mmap(-1, self.slots * ENTRY_SIZE)  # zeros that take no memory before they are touched
        self.size = 0
        self.latest_offset = -1

    @property
    def utilization(self) -> float:
        """Which share of the slots is taken, from 0 to 1."""
        return self.size / self.slots

    def put(self, key: bytes, offset: int) -> bool:
        """Note the offset of a key; False if the key is new and the map is full."""
        digest = self._md5(key).digest()
        position, is_new = self._find(digest)
        if is_new:
            if self.size >= self.max_size:
                return False
            self.size += 1
        self.table[position : position + ENTRY_SIZE] = digest + _OFFSET.pack(offset + 1)
        return True

    def get(self, key: bytes) -> int:
        """The offset noted last, NOT_FOUND for an unknown key."""
        position, is_new = self._find(self._md5(key).digest())
        offset: int = _OFFSET.unpack_from(self.table, position + _DIGEST_SIZE)[0]
        return NOT_FOUND if is_new else offset - 1

    def _find(self, digest: bytes) -> tuple[int, bool]:
        """(position, False) of the digest's entry, or (position, True) of the free one where it belongs."""
        table = self.table
        slots = self.slots
        slot = int.from_bytes(digest[:8], "little") % slots
        step = 0
        while True:
            position = slot * ENTRY_SIZE
            found = table[position : position + _DIGEST_SIZE]
            if found == _NO_DIGEST and not _OFFSET.unpack_from(table, position + _DIGEST_SIZE)[0]:
                return position, True
            if found == digest:
                return position, False
            if not step:  # slots are a prime number, so any step comes to all of them
                step = 1 + int.from_bytes(digest[8:], "little") % self._step_count
            slot = (slot + step) % slots

    def close(self) -> None:
        """Give the memory back."""
        self.table.close()


def _prime_up_to(number: int) -> int:
    """The largest prime that is at most ``number``; the number itself below 3."""
    while number > 3 and (not number % 2 or any(not number % odd for odd in range(3, int(number**0.5) + 1, 2))):
        number -= 1
    return number
