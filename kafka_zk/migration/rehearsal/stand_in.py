"""A broker without data, as a KRaft controller sees it: it registers, sends heartbeats, and may be fenced. Pure.

A stand-in is first a ZooKeeper broker in migration mode and then a KRaft broker. In between it does what a restarted
broker does: it asks to be fenced, and registers again with another incarnation id. Its heartbeats claim that it has
read all metadata, which the controller believes.

Source: BrokerLifecycleManager.scala, ClusterControlManager.java and BrokerHeartbeatManager.java@3.9.
"""

import enum
from dataclasses import dataclass
from uuid import UUID

from kafka_zk.protocol.errors import ErrorCode

BEAT_EVERY_MS = 2_000
"""``broker.heartbeat.interval.ms``, by default."""
RETRY_MS = 200
_ALL_METADATA = 2**62
"""An offset beyond every record of a rehearsal."""


class State(enum.StrEnum):
    STOPPED = "stopped"
    REGISTERING = "registering"
    FENCED = "fenced"
    ACTIVE = "active"
    LEAVING = "leaving"


# --- events ---


@dataclass(frozen=True, slots=True)
class Started:
    """``incarnation``: a new id for each start."""

    is_migrating: bool
    incarnation: UUID


@dataclass(frozen=True, slots=True)
class Registered:
    """``epoch``: the broker epoch; -1 with an error."""

    error: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Beaten:
    """The response to a heartbeat."""

    error: int
    is_fenced: bool


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The request failed without a response."""


@dataclass(frozen=True, slots=True)
class Stopping: ...


@dataclass(frozen=True, slots=True)
class TimePassed: ...


Event = Started | Registered | Beaten | Unanswered | Stopping | TimePassed


# --- effects ---


@dataclass(frozen=True, slots=True)
class Register:
    broker_id: int
    is_migrating: bool
    incarnation: UUID


@dataclass(frozen=True, slots=True)
class Beat:
    broker_id: int
    epoch: int
    metadata_offset: int
    wants_fence: bool


Effect = Register | Beat


class StandIn:
    """At most one request is in flight. ``error``: why the controller refused the last request; empty if it did not.
    ``heartbeats``: the number of heartbeats that the controller has confirmed.
    """

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.state = State.STOPPED
        self.error = ""
        self.heartbeats = 0
        self._start: Started | None = None
        self._epoch = -1
        self._due_ms = 0
        self._in_flight = False

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        match event:
            case Started():
                self._start, self._epoch, self.state, self._due_ms = event, -1, State.REGISTERING, now_ms
            case Stopping():
                if self.state in (State.FENCED, State.ACTIVE):
                    self.state, self._due_ms = State.LEAVING, now_ms
                else:
                    self.state = State.STOPPED
            case Unanswered():
                self._answered("no response", now_ms + RETRY_MS)
            case Registered(error, epoch):
                self._registered(error, epoch, now_ms)
            case Beaten(error, is_fenced):
                self._beaten(error, is_fenced, now_ms)
            case TimePassed():
                pass
        return self._request(now_ms)

    def _registered(self, error: int, epoch: int, now_ms: int) -> None:
        self._answered(_name(error), now_ms + (RETRY_MS if error else 0))
        if not error and self.state is State.REGISTERING:
            self._epoch, self.state = epoch, State.FENCED

    def _beaten(self, error: int, is_fenced: bool, now_ms: int) -> None:
        self._answered(_name(error), now_ms + (RETRY_MS if error or is_fenced else BEAT_EVERY_MS))
        if error:
            return
        self.heartbeats += 1
        if self.state is State.LEAVING:
            self.state = State.STOPPED if is_fenced else State.LEAVING
        elif self.state in (State.FENCED, State.ACTIVE):
            self.state = State.FENCED if is_fenced else State.ACTIVE

    def _answered(self, error: str, due_ms: int) -> None:
        self._in_flight, self.error, self._due_ms = False, error, due_ms

    def _request(self, now_ms: int) -> list[Effect]:
        if self._in_flight or now_ms < self._due_ms or self._start is None or self.state is State.STOPPED:
            return []
        self._in_flight = True
        if self.state is State.REGISTERING:
            return [Register(self.broker_id, self._start.is_migrating, self._start.incarnation)]
        return [Beat(self.broker_id, self._epoch, _ALL_METADATA, self.state is State.LEAVING)]


def _name(error: int) -> str:
    """The name of an error code; empty for no error."""
    if error == ErrorCode.NONE:
        return ""
    try:
        return ErrorCode(error).name
    except ValueError:
        return f"error {error}"
