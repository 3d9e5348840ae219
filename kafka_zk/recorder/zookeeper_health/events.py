"""Events of ZooKeeper's own health: its servers, their leader, and whether the ensemble serves. Pure."""

from dataclasses import dataclass

from kafka_zk.base.events import Event

ENSEMBLE = "ZooKeeper"
"""The actor of events that concern all servers; a server's actor is this word with its address."""


@dataclass(frozen=True, slots=True)
class ZooKeeperEvent(Event):
    """Base of all events in this module."""


@dataclass(frozen=True, slots=True)
class ServerStateChanged(ZooKeeperEvent):
    """A ZooKeeper server has a new state: a mode in which it serves ("leader", "follower", "observer", "standalone",
    "read-only"), "answers" (it does not reveal its mode), "no quorum" or "no answer". ``previous``: the state before,
    "" at first; ``lasted_ms``: how long that one lasted, as far as seen.
    """

    state: str
    previous: str
    lasted_ms: int


@dataclass(frozen=True, slots=True)
class ServerSlowed(ZooKeeperEvent):
    """A ZooKeeper server became slow, which the cause explains, or is no longer slow (``slow`` False)."""

    slow: bool


@dataclass(frozen=True, slots=True)
class EnsembleStateChanged(ZooKeeperEvent):
    """ZooKeeper as a whole has a new state: "serves", "no quorum" (servers answer, none serves), "no answer", or after
    that "answers" (its servers do not reveal whether they serve). ``previous``: the state before, "" at first;
    ``lasted_ms``: how long that one lasted, as far as seen.
    """

    state: str
    previous: str
    lasted_ms: int


@dataclass(frozen=True, slots=True)
class LeaderChanged(ZooKeeperEvent):
    """Another ZooKeeper server leads the ensemble, or the same one in a new epoch. ``epoch``: the high half of its
    zxids; -1 if unknown.
    """

    leader: str
    previous: str
    epoch: int
