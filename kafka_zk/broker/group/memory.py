"""What the members of a group hold, ids that were given to clients, and what the group has committed."""

from kafka_zk.broker.group.group import Group
from kafka_zk.broker.group.offsets import GroupOffsets, Offsets
from kafka_zk.broker.group.states import GroupState

GROUP_BYTES = 3000  # of memory, measured


def held_bytes(group: Group) -> int:
    """What its members hold, and the group itself if there are any."""
    if group.state is GroupState.DEAD or not group.members.size_bytes:
        return 0
    return GROUP_BYTES + group.members.size_bytes


def offsets_bytes(group: Group) -> int:
    """What its committed offsets hold, and the group itself if it has no members that are counted with it."""
    if group.state is GroupState.DEAD or not group.offsets:
        return 0
    return group.offsets.size_bytes + (0 if group.members.size_bytes else GROUP_BYTES)


def growth_bytes(group: Group | None, offsets: Offsets) -> int:
    """How much more a group holds with these offsets committed; None: it is new."""
    if group is None:
        return GROUP_BYTES + GroupOffsets().growth_bytes(offsets)
    return group.offsets.growth_bytes(offsets)
