"""Limits the memory that clients can make a coordinator use, for members or transactional ids."""

from collections import Counter

from twisted.logger import Logger

_MOST_PEERS = 1000
_log = Logger()


class HeldMemory:
    """``used_bytes`` can exceed ``limit_bytes`` after a log was loaded, because loading is never rejected.

    Args:
        holders: plural noun for log lines.
    """

    def __init__(self, holders: str, limit_bytes: int) -> None:
        self._holders = holders
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._is_full = False
        self.refused_counts: Counter[str] = Counter()
        """Rejections by client address since memory was last free, for at most 1,000 addresses."""

    def has_room(self, size_bytes: int, peer: str = "") -> bool:
        """True if ``size_bytes`` more fit, or if ``size_bytes`` is not positive. ``peer``: the client's address."""
        has_room = size_bytes <= 0 or self.used_bytes + size_bytes <= self.limit_bytes
        if not has_room and not self._is_full:
            self._is_full = True
            _log.error(
                "{holders} use {used} bytes, the limit is {limit}: new ones are rejected, the first from {peer}",
                holders=self._holders, used=self.used_bytes, limit=self.limit_bytes, peer=peer or "an unknown address",
            )  # fmt: skip
        if not has_room and (peer in self.refused_counts or len(self.refused_counts) < _MOST_PEERS):
            self.refused_counts[peer] += 1
        return has_room

    def changed(self, by_bytes: int) -> None:
        """Add ``by_bytes``, which may be negative, to the used memory."""
        self.used_bytes += by_bytes
        if self._is_full and self.used_bytes < self.limit_bytes // 2:
            self._is_full = False
            refused = ", ".join(f"{peer} {count} times" for peer, count in self.refused_counts.most_common(3))
            _log.info(
                "{holders} use less than half of the limit again; rejections by address: {refused}",
                holders=self._holders, refused=refused,
            )  # fmt: skip
            self.refused_counts.clear()
