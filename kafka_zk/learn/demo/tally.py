"""Checks that the output equals the input: count, totals per key, order within each key. Pure."""

from hashlib import blake2b
from typing import Any
from zlib import crc32


class Tally:
    """For each key: number of records, a checksum that ignores their order, and a digest that depends on it."""

    def __init__(self) -> None:
        self.counts: dict[bytes, int] = {}
        self.size_bytes = 0
        self._checksums: dict[bytes, int] = {}
        self._digests: dict[bytes, Any] = {}

    def add(self, key: bytes, value: bytes) -> None:
        digest = self._digests.get(key)
        if digest is None:
            digest = self._digests[key] = blake2b(digest_size=16)
            self.counts[key] = self._checksums[key] = 0
        digest.update(value)
        digest.update(b"\n")
        self.counts[key] += 1
        self._checksums[key] += crc32(value)
        self.size_bytes += len(key) + len(value)

    def merge(self, other: "Tally") -> None:
        """``other`` must not share keys with this tally."""
        for key in other.counts:
            assert key not in self.counts, "a key is merged from one tally only"
        self.counts |= other.counts
        self._checksums |= other._checksums
        self._digests |= other._digests
        self.size_bytes += other.size_bytes

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def difference(self, other: "Tally") -> str | None:
        """The first difference from ``other`` (the received records) in a sentence; None if there is no difference."""
        if self.count != other.count:
            return f"{self.count} records were written but {other.count} came back"
        for key in sorted(self.counts.keys() | other.counts.keys()):
            name = key.decode(errors="replace")
            mine, theirs = self.counts.get(key, 0), other.counts.get(key, 0)
            if mine != theirs:
                return f"{mine} records of {name} were written but {theirs} came back"
            if self._checksums[key] != other._checksums[key]:
                return f"records of {name} came back changed"
            if self._digests[key].digest() != other._digests[key].digest():
                return f"records of {name} came back in another order"
        return None
