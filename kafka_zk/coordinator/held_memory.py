"""A bound for what clients make a coordinator remember: members of groups, transactional ids."""

from twisted.logger import Logger

_log = Logger()


class HeldMemory:
    """``used_bytes`` may be above ``limit_bytes`` after what a log holds was loaded.

    Args:
        holders: who holds it, in the plural, for the log.
    """

    def __init__(self, holders: str, limit_bytes: int) -> None:
        self._holders = holders
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._is_full = False

    def has_room(self, size_bytes: int) -> bool:
        """Whether so much more may be held; what makes nothing larger always may."""
        has_room = size_bytes <= 0 or self.used_bytes + size_bytes <= self.limit_bytes
        if not has_room and not self._is_full:
            self._is_full = True
            _log.error(
                "{holders} hold {used} bytes, at most {limit} are allowed: new ones are refused",
                holders=self._holders, used=self.used_bytes, limit=self.limit_bytes,
            )  # fmt: skip
        return has_room

    def changed(self, by_bytes: int) -> None:
        """So much more is held, or less."""
        self.used_bytes += by_bytes
        if self._is_full and self.used_bytes < self.limit_bytes // 2:
            self._is_full = False
            _log.info("there is room for {holders} again", holders=self._holders)
