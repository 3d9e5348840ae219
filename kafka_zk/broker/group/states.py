"""The states of a group and the changes that are legal.

Source: GroupMetadata.scala@3.9 (Empty, PreparingRebalance, CompletingRebalance, Stable, Dead).
"""

import enum


class GroupState(enum.Enum):
    """The values are the names that ListGroups and DescribeGroups give."""

    EMPTY = "Empty"
    """No members; offsets may be stored."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are asked to join again."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All have joined; the leader's assignment is awaited."""
    STABLE = "Stable"
    DEAD = "Dead"
    """Removed, or this broker is no longer its coordinator: final."""


VALID_PREVIOUS_STATES: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.EMPTY, GroupState.STABLE, GroupState.COMPLETING_REBALANCE}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}
"""From which states each can be entered."""
