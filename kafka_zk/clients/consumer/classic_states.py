"""A member's states in the classic group protocol.

Pure. Source: AbstractCoordinator.java@3.9.
"""

from enum import Enum


class MemberState(Enum):
    UNJOINED = "wants to join"
    STOPPING = "releases its partitions before it joins"
    JOINING = "waits for the other members"
    COUNTING = "leads, and reads the partitions of the topics"
    SYNCING = "waits for its assignment"
    STABLE = "has its assignment"
    AWAY = "has left until its user requests records again"
    LEFT = "has left, or cannot continue"


class Event(Enum):
    JOIN_SENT = "JoinGroup was sent"
    FOLLOWS = "a generation began, and this member does not assign the partitions"
    LEADS = "a generation began, and this member assigns the partitions"
    COUNTED = "the leader knows the partitions of the topics"
    ASSIGNED = "the assignment came"
    REFUSED = "JoinGroup or SyncGroup was refused"
    REBALANCES = "a rebalance begins, and no partition has to be released first"
    STOPS = "a rebalance begins, and all partitions must be released first"
    STOPPED = "all partitions are released"
    EXPELLED = "the coordinator does not know the member or its generation"
    GIVEN_UP = "the user has not requested records in time"
    CAME_BACK = "the user requests records again"
    ENDED = "the consumer was closed, or the member cannot continue"


_S = MemberState

TRANSITIONS: dict[Event, dict[MemberState, MemberState]] = {
    Event.JOIN_SENT: {_S.UNJOINED: _S.JOINING},
    Event.FOLLOWS: {_S.JOINING: _S.SYNCING},
    Event.LEADS: {_S.JOINING: _S.COUNTING},
    Event.COUNTED: {_S.COUNTING: _S.SYNCING},
    Event.ASSIGNED: {_S.SYNCING: _S.STABLE},
    Event.REFUSED: {_S.JOINING: _S.UNJOINED, _S.SYNCING: _S.UNJOINED},
    Event.REBALANCES: {_S.STABLE: _S.UNJOINED},
    Event.STOPS: {_S.STABLE: _S.STOPPING},
    Event.STOPPED: {_S.STOPPING: _S.UNJOINED},
    Event.EXPELLED: {
        _S.UNJOINED: _S.UNJOINED,
        _S.STOPPING: _S.UNJOINED,
        _S.JOINING: _S.UNJOINED,
        _S.COUNTING: _S.UNJOINED,
        _S.SYNCING: _S.UNJOINED,
        _S.STABLE: _S.UNJOINED,
        _S.AWAY: _S.UNJOINED,  # the user commits, which counts as a poll
    },
    Event.GIVEN_UP: {
        _S.UNJOINED: _S.AWAY,
        _S.STOPPING: _S.AWAY,
        _S.JOINING: _S.AWAY,
        _S.COUNTING: _S.AWAY,
        _S.SYNCING: _S.AWAY,
        _S.STABLE: _S.AWAY,
    },
    Event.CAME_BACK: {_S.AWAY: _S.UNJOINED},
    Event.ENDED: dict.fromkeys(MemberState, _S.LEFT),
}
"""Event -> state -> next state. An event cannot happen in a state that is not listed for it."""

REBALANCING = frozenset({_S.JOINING, _S.COUNTING, _S.SYNCING})
"""The states of a member that joins and has no assignment yet."""

HEARTBEATS = frozenset({_S.STOPPING, _S.COUNTING, _S.STABLE})
"""The states in which heartbeats are sent. The coordinator does not answer heartbeats while JoinGroup or SyncGroup is
pending."""
