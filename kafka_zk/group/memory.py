"""What the members of a group hold, and ids that were given to clients.

What groups have committed is not counted: it is on disk as well, like any record.
"""

from kafka_zk.group.group import Group
from kafka_zk.group.states import GroupState

_GROUP_BYTES = 3000  # of memory, measured


def held_bytes(group: Group) -> int:
    """What its members hold, and the group itself if there are any."""
    if group.state is GroupState.DEAD or not group.members.size_bytes:
        return 0
    return _GROUP_BYTES + group.members.size_bytes
