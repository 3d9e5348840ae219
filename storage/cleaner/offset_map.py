"""Each key's last offset in the dirty part of a log, in fixed-size memory.

The map stores a 128-bit digest of each key, so an entry takes 24 bytes, whatever the key's size. Kafka's map uses MD5,
so an attacker can construct two keys with the same digest, and a record with one key would delete the record with the
other. Here, the digest includes a random secret, which prevents this. When an offset is replaced, a bit marks the old
one, so that its key need not be looked up again.
Source: SkimpyOffsetMap.java@3.9.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from struct import Struct
from typing import NamedTuple

from kafka_zk.base.operating_system.memory import zeroed_memory
from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.native.loading import Native
from kafka_zk.storage.files.errors import InvalidConfig

ENTRY_SIZE = 24
_halves = Struct("<QQ").unpack
_SECRET_BYTES = _DIGEST_BYTES = 16
_LEAST_SLOTS = 101
_SPARE = 1.2
"""For each n >= 101, there is a prime between n and n * _SPARE."""
_BITS_SHARE = 64


class Replaced(NamedTuple):
    """One bit for each offset from ``first_offset`` on: whether a later record has the same key."""

    first_offset: int = 0
    bits: bytearray = bytearray()

    def has_all(self, offset: int, count: int) -> bool:
        """True if ``count`` offsets from ``offset`` on are replaced."""
        place = offset - self.first_offset
        if place < 0 or count < 1 or place + count > len(self.bits) * 8:
            return False
        found = int.from_bytes(self.bits[place >> 3 : (place + count + 7) >> 3], "little") >> (place & 7)
        return ~found & (1 << count) - 1 == 0


NOTHING_REPLACED = Replaced()


class OffsetMap:
    """Open addressing in at most ``memory_bytes``, ``replaced`` included.

    Attributes:
        latest_offset: the log was read up to here; -1 at the beginning.
        size: number of keys; add at most ``max_size`` (``load_factor`` of the slots).
        table: digest and offset plus one, in native byte order; a free entry is zeros.
        secret: random, for the digests.
        replaced: a bit for each of ``offsets``, if these bits are few compared with the table. Valid only if each added
            offset is unique and lies within its batch; otherwise call ``forget_replaced``.

    Args:
        offsets: the offsets that may be added; their number limits the size of the table.
        native: computes digests and allows ``NativeLoops``; None: Python computes them.
    Raises: InvalidConfig if there is no room for a single key.
    """

    __slots__ = ("_digest", "_words", "latest_offset", "max_size", "replaced", "secret", "size", "slots", "table")

    def __init__(
        self,
        memory_bytes: int,
        load_factor: float = 0.9,
        offsets: range | None = None,
        native: Native | None = None,
    ) -> None:
        self.secret = SYSTEM_RANDOM.randbytes(_SECRET_BYTES)
        self._digest = _keyed_digest(self.secret) if native is None else partial(native.digest, self.secret)
        self.replaced = NOTHING_REPLACED
        if offsets is not None and len(offsets) // 8 + 1 <= memory_bytes // _BITS_SHARE:
            self.replaced = Replaced(offsets.start, bytearray(len(offsets) // 8 + 1))
        slots = (memory_bytes - len(self.replaced.bits)) // ENTRY_SIZE
        if offsets is not None and load_factor > 0:
            slots = min(slots, max(_LEAST_SLOTS, int(len(offsets) * max(2, _SPARE / load_factor))))
        self.slots = _prime_up_to(slots)
        self.max_size = min(int(self.slots * load_factor), self.slots - 1)  # a search must end at a free slot
        if self.max_size < 1:
            raise InvalidConfig(f"{memory_bytes} bytes with a load factor of {load_factor} have no room for a key")
        self.table = zeroed_memory(self.slots * ENTRY_SIZE)
        self._words = memoryview(self.table).cast("Q")
        self.size = 0
        self.latest_offset = -1

    @property
    def utilization(self) -> float:
        """The share of used slots, from 0 to 1."""
        return self.size / self.slots

    def put(self, key: bytes, offset: int) -> bool:
        """Store the offset of a key; False if the key is new and the map is full."""
        low, high = _halves(self._digest(key))
        words = self._words
        entry = low % self.slots * 3
        content = words[entry + 2]
        if content and (words[entry] != low or words[entry + 1] != high):
            entry = self._find(low, high)
            content = words[entry + 2]
        if not content:
            if self.size >= self.max_size:
                return False
            self.size += 1
            words[entry] = low
            words[entry + 1] = high
        elif content <= offset:
            first_offset, bits = self.replaced
            place = content - 1 - first_offset
            if 0 <= place >> 3 < len(bits):
                bits[place >> 3] |= 1 << (place & 7)
        words[entry + 2] = offset + 1
        return True

    def get(self, key: bytes) -> int:
        """The last stored offset; -1 for an unknown key."""
        low, high = _halves(self._digest(key))
        words = self._words
        entry = low % self.slots * 3
        if words[entry + 2] and (words[entry] != low or words[entry + 1] != high):
            entry = self._find(low, high)
        found: int = words[entry + 2] - 1
        return found

    def _find(self, low: int, high: int) -> int:
        """Where the digest's entry begins, or else the free entry that it can take."""
        words, slots = self._words, self.slots
        slot = low % slots
        step = 1 + high % (slots - 1)  # the number of slots is prime, so any step reaches all of them
        while True:
            entry = slot * 3
            if not words[entry + 2] or (words[entry] == low and words[entry + 1] == high):
                return entry
            slot = (slot + step) % slots

    def forget_replaced(self) -> None:
        self.replaced = NOTHING_REPLACED

    def close(self) -> None:
        self._words.release()
        self.table.close()


def _keyed_digest(secret: bytes) -> Callable[[bytes], bytes]:
    """Keyed BLAKE2s. Copying a hash object that already has the secret takes 0.6 times as long as creating one."""
    try:
        blake2s = import_module("_blake2").blake2s
    except ImportError:
        from hashlib import blake2s  # loads OpenSSL, which brokers avoid; only cleaner processes do this

    copied = blake2s(digest_size=_DIGEST_BYTES, key=secret).copy

    def digest(key: bytes) -> bytes:
        state = copied()
        state.update(key)
        found: bytes = state.digest()
        return found

    return digest


def _prime_up_to(number: int) -> int:
    """The largest prime up to ``number``; below 3 the number itself."""
    while number > 3 and (not number % 2 or any(not number % odd for odd in range(3, int(number**0.5) + 1, 2))):
        number -= 1
    return number
