"""Memory that a group uses."""

from kafka_zk.broker.group.group import Group
from kafka_zk.broker.group.offsets import GroupOffsets, Offsets
from kafka_zk.broker.group.states import GroupState

GROUP_BYTES = 3000  # measured memory of an empty group


def held_bytes(group: Group) -> int:
    """Memory of members and pending ids; if the group has any, also of the group itself."""
    if group.state is GroupState.DEAD or not group.members.size_bytes:
        return 0
    return GROUP_BYTES + group.members.size_bytes


def offsets_bytes(group: Group) -> int:
    """Memory of committed offsets, and of the group itself if ``held_bytes`` does not include it."""
    if group.state is GroupState.DEAD or not group.offsets:
        return 0
    return group.offsets.size_bytes + (0 if group.members.size_bytes else GROUP_BYTES)


def growth_bytes(group: Group | None, offsets: Offsets) -> int:
    """Additional memory for committing these offsets."""
    if group is None:
        return GROUP_BYTES + GroupOffsets().growth_bytes(offsets)
    return group.offsets.growth_bytes(offsets)
