"""A group's states and legal transitions.

Source: GroupMetadata.scala, GroupCoordinator.scala@3.9.
"""

import enum
from collections.abc import Mapping

from kafka_zk.protocol.errors import ErrorCode


class GroupState(enum.Enum):
    """Values are the state names in ListGroups and DescribeGroups."""

    __hash__ = object.__hash__  # Enum.__hash__ is slow Python code, and every heartbeat uses it

    EMPTY = "Empty"
    """No members; there may be committed offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members must rejoin."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All have joined; the leader has not assigned partitions."""
    STABLE = "Stable"
    DEAD = "Dead"
    """The group is removed or has another coordinator; final."""


class Event(enum.Enum):
    """The first seven are requests, whose ids and generation are checked separately."""

    __hash__ = object.__hash__

    JOIN = "JoinGroup"
    SYNC = "SyncGroup"
    HEARTBEAT = "Heartbeat"
    LEAVE = "LeaveGroup"
    COMMIT = "OffsetCommit"
    TXN_COMMIT = "TxnOffsetCommit"
    COMMIT_WITHOUT_MEMBER = "OffsetCommit of a client that is not a member"
    MEMBER_FAILED = "a member's session ended"
    TOO_LARGE = "the group was loaded with too many members"
    MEMBERS_JOINED = "the members of the next generation have joined"
    NO_MEMBER_JOINED = "the last member is gone"
    SYNC_TIMED_OUT = "members did not request their assignment in time"
    ASSIGNMENT_STORED = "the assignment is stored"
    ASSIGNMENT_NOT_STORED = "the assignment could not be stored"
    UNLOADED = "the group is deleted, or coordinated elsewhere"


_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = GroupState

_UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
_UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
_REBALANCING = ErrorCode.REBALANCE_IN_PROGRESS

TRANSITIONS: Mapping[Event, Mapping[GroupState, GroupState | ErrorCode]] = {
    Event.JOIN: {
        _EMPTY: _PREPARING,
        _PREPARING: _PREPARING,
        _COMPLETING: _PREPARING,
        _STABLE: _PREPARING,
        _DEAD: _UNAVAILABLE,
    },
    Event.SYNC: {
        _EMPTY: _UNKNOWN,
        _PREPARING: _REBALANCING,
        _COMPLETING: _COMPLETING,
        _STABLE: _STABLE,
        _DEAD: _UNAVAILABLE,
    },
    Event.HEARTBEAT: {
        _EMPTY: _UNKNOWN,
        _PREPARING: _REBALANCING,
        _COMPLETING: _COMPLETING,
        _STABLE: _STABLE,
        _DEAD: _UNAVAILABLE,
    },
    Event.LEAVE: {
        _EMPTY: _EMPTY,  # the client has a member id and has not joined with it
        _PREPARING: _PREPARING,
        _COMPLETING: _PREPARING,
        _STABLE: _PREPARING,
        _DEAD: _UNAVAILABLE,
    },
    Event.COMMIT: {
        _EMPTY: _UNKNOWN,
        _PREPARING: _PREPARING,
        _COMPLETING: _REBALANCING,
        _STABLE: _STABLE,
        _DEAD: _UNAVAILABLE,
    },
    Event.TXN_COMMIT: {
        _EMPTY: _EMPTY,
        _PREPARING: _PREPARING,
        _COMPLETING: _COMPLETING,
        _STABLE: _STABLE,
        _DEAD: _UNAVAILABLE,
    },
    Event.COMMIT_WITHOUT_MEMBER: {
        _EMPTY: _EMPTY,
        _PREPARING: _UNKNOWN,
        _COMPLETING: _UNKNOWN,
        _STABLE: _UNKNOWN,
        _DEAD: _UNAVAILABLE,
    },
    Event.MEMBER_FAILED: {_PREPARING: _PREPARING, _COMPLETING: _PREPARING, _STABLE: _PREPARING},
    Event.TOO_LARGE: {_STABLE: _PREPARING},
    Event.MEMBERS_JOINED: {_PREPARING: _COMPLETING},
    Event.NO_MEMBER_JOINED: {_PREPARING: _EMPTY},
    Event.SYNC_TIMED_OUT: {_COMPLETING: _PREPARING, _STABLE: _PREPARING},
    Event.ASSIGNMENT_STORED: {_COMPLETING: _STABLE},
    Event.ASSIGNMENT_NOT_STORED: {_COMPLETING: _PREPARING},
    Event.UNLOADED: dict.fromkeys(GroupState, _DEAD),
}
"""Event -> state before -> state after, or the error for the sender. Requests are possible in every state; a request
that keeps the state is accepted."""
