"""A member's states in the classic group protocol.

Pure. Source: AbstractCoordinator.java@3.9.
"""

from enum import Enum


class MemberState(Enum):
    UNJOINED = "wants to join"
    STOPPING = "gives its partitions back before it joins"
    JOINING = "waits for the other members"
    COUNTING = "leads, and finds out which partitions there are"
    SYNCING = "waits for its assignment"
    STABLE = "has its assignment"
    AWAY = "has left until its user asks for records again"
    LEFT = "has left, or cannot go on"


class Event(Enum):
    JOIN_SENT = "JoinGroup was sent"
    FOLLOWS = "a generation began, and nothing is to be assigned by this member"
    LEADS = "a generation began, and this member is to assign its partitions"
    COUNTED = "the leader knows which partitions there are"
    ASSIGNED = "the assignment came"
    REFUSED = "JoinGroup or SyncGroup was refused"
    REBALANCES = "a rebalance begins, and nothing has to be given back for it"
    STOPS = "a rebalance begins, for which everything has to be given back"
    STOPPED = "everything is given back"
    EXPELLED = "the coordinator does not know the member, or not its generation"
    GIVEN_UP = "the user does not come back for more"
    CAME_BACK = "the user is back"
    ENDED = "the consumer was closed, or the member cannot go on"


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
"""The states in which heartbeats are sent. The coordinator answers none while JoinGroup or SyncGroup is pending."""
