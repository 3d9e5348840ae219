"""A bound for what the members of a broker's groups hold, and ids that were given to clients.

What groups have committed is not counted: it is on disk as well, like any record.
"""

from twisted.logger import Logger

from kafka_zk.group.group import Group
from kafka_zk.group.states import GroupState

_log = Logger()

_GROUP_BYTES = 3000  # of memory, measured


def held_bytes(group: Group) -> int:
    """What its members hold, and the group itself if there are any."""
    if group.state is GroupState.DEAD or not group.members.size_bytes:
        return 0
    return _GROUP_BYTES + group.members.size_bytes


class MembersMemory:
    """See the module's docstring. ``used_bytes`` may be above ``limit_bytes`` after groups were loaded."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._is_full = False

    def has_room(self, size_bytes: int) -> bool:
        """Whether so much more may be held; what makes nothing larger always may."""
        has_room = size_bytes <= 0 or self.used_bytes + size_bytes <= self.limit_bytes
        if not has_room and not self._is_full:
            self._is_full = True
            _log.error(
                "the members of all groups hold {used} bytes, at most {limit} are allowed: others are refused",
                used=self.used_bytes, limit=self.limit_bytes,
            )  # fmt: skip
        return has_room

    def changed(self, by_bytes: int) -> None:
        """Members hold so much more, or less."""
        self.used_bytes += by_bytes
        if self._is_full and self.used_bytes < self.limit_bytes // 2:
            self._is_full = False
            _log.info("there is room for members of groups again")
