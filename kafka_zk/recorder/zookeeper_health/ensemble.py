"""ZooKeeper's health over time, as polls of its servers show it. Pure.

Every round of polls (``step``) gives events: a server goes away, comes back, changes its mode or becomes slow; another
server leads; the ensemble as a whole serves or does not. A change counts from when the poll that found it was sent, so
an outage begins at most one interval late. If no server has ever answered a poll (TLS ports, firewalls), no server's
state is reported, and only our own session counts: while it is connected, ZooKeeper serves.

Tests: tests/kafka_zk/recorder/zookeeper_health/test_ensemble.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafka_zk.base.events import Event
from kafka_zk.recorder.zookeeper_health.answers import ANSWERS, DOWN, NO_ANSWER, NO_QUORUM, SERVES, Reading
from kafka_zk.recorder.zookeeper_health.events import (
    ENSEMBLE,
    EnsembleStateChanged,
    LeaderChanged,
    ServerSlowed,
    ServerStateChanged,
)
from kafka_zk.registry.client.client import SessionState
from kafka_zk.registry.client.events import SessionChanged

RECORDER = "recorder"
"""The actor of events of this process's own session."""
SLOW_RESPONSE_MS = 500
SLOW_REQUEST_MS = 1_000
"""ZooKeeper itself warns of an fsync that takes this long."""
MANY_OUTSTANDING = 100
QUICK_ROUNDS = 3
"""After this number of rounds without a sign of slowness, a server is no longer slow."""
OUTSTANDING, CONNECTIONS, RESPONSE, EPOCH = "outstanding", "connections", "response_ms", "epoch"
_STEPS_MS = (0, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)
"""Response times are rounded down to one of these, so that a steady server costs no samples."""
_EPOCH_BITS = 32
_CAUSE = "polled with srvr"


@dataclass(slots=True)
class _State:
    """``since_ms``: when the state was first seen."""

    state: str
    since_ms: int


@dataclass(slots=True)
class _Server:
    now: _State
    latency_max_ms: int | None = None
    quick_rounds: int = 0
    slow: bool = False


class EnsembleHealth:
    """The states of the servers and of the ensemble. Not thread-safe."""

    def __init__(self) -> None:
        self._servers: dict[str, _Server] = {}
        self._ensemble = _State("", 0)
        self._leader, self._epoch = "", -1
        self._ever_answered = False
        self._session: SessionState | None = None

    def step(self, readings: Mapping[str, Reading], now_ms: int, session: SessionState | None = None) -> list[Event]:
        """Take one round of polls.

        Args:
            readings: by server address, ``host:port``; every round has the same servers.
            now_ms: when the polls were sent, wall clock.
            session: the state of this process's own session; None if it has none.
        """
        found = self._own_session(session, now_ms)
        connected = None if session is None else session is SessionState.CONNECTED
        self._ever_answered = self._ever_answered or any(each.state != NO_ANSWER for each in readings.values())
        if self._ever_answered:
            for name, reading in readings.items():
                found += self._server(name, reading, now_ms)
            found += self._leadership(readings, now_ms)
        if (state := self._verdict(readings, connected)) is not None:
            found += self._whole(*state, now_ms)
        return found

    def _own_session(self, session: SessionState | None, now_ms: int) -> list[Event]:
        before, self._session = self._session, session
        if session is None or session is before or (before is None and session is SessionState.CONNECTED):
            return []
        return [SessionChanged(now_ms, RECORDER, f"session {session.value}", 0, session, None)]

    def _server(self, name: str, reading: Reading, now_ms: int) -> list[Event]:
        known = self._servers.setdefault(name, _Server(_State("", now_ms)))
        actor = server_actor(name)
        events = _changed(known.now, reading.state, now_ms, lambda previous, lasted_ms: ServerStateChanged(
            now_ms, actor, reading.why or _CAUSE, 0, reading.state, previous, lasted_ms))  # fmt: skip
        slow = self._slowness(known, reading, is_new=bool(events))
        if slow is not None:
            events.append(ServerSlowed(now_ms, actor, slow or "it responds quickly again", 0, bool(slow)))
        return events

    def _slowness(self, known: _Server, reading: Reading, *, is_new: bool) -> str | None:
        """Why the server has become slow; "" if it is no longer slow; None if nothing has changed. ``is_new``: the
        server has just returned, and every server is slow at first.
        """
        if reading.state in DOWN:
            known.slow, known.latency_max_ms = False, None
            return None
        before, known.latency_max_ms = known.latency_max_ms, reading.latency_max_ms
        sign = "" if is_new else _sign(reading, before)
        known.quick_rounds = 0 if sign else known.quick_rounds + 1
        if sign and not known.slow:
            known.slow = True
            return sign
        if known.slow and known.quick_rounds >= QUICK_ROUNDS:
            known.slow = False
            return ""
        return None

    def _leadership(self, readings: Mapping[str, Reading], now_ms: int) -> list[Event]:
        leaders = sorted(name for name, each in readings.items() if each.state == "leader")
        if len(leaders) != 1:  # with two leaders, one does not know yet that it was replaced
            return []
        [leader] = leaders
        zxid = readings[leader].zxid
        epoch = -1 if zxid is None else zxid >> _EPOCH_BITS
        previous, before = self._leader, self._epoch
        self._leader, self._epoch = leader, epoch
        if (leader, epoch) == (previous, before) or not previous:
            return []
        return [LeaderChanged(now_ms, ENSEMBLE, _CAUSE, 0, leader, previous, epoch)]

    def _verdict(self, readings: Mapping[str, Reading], connected: bool | None) -> tuple[str, str] | None:
        """The ensemble's state and the reason; None if unknown."""
        states = {each.state for each in readings.values()}
        if not states <= {ANSWERS, *DOWN}:
            return SERVES, ""
        if connected and (ANSWERS in states or not self._ever_answered):
            return SERVES, ""
        if ANSWERS in states:
            is_back = connected is None and self._ensemble.state in DOWN
            return (ANSWERS, "") if is_back else None
        if NO_QUORUM in states:
            return NO_QUORUM, "no server has a quorum"
        if not self._ever_answered and connected is None:
            return None
        return NO_ANSWER, "; ".join(f"{name}: {each.why}" for name, each in readings.items())

    def _whole(self, state: str, why: str, now_ms: int) -> list[Event]:
        return _changed(self._ensemble, state, now_ms, lambda previous, lasted_ms: EnsembleStateChanged(
            now_ms, ENSEMBLE, why or _CAUSE, 0, state, previous, lasted_ms))  # fmt: skip


def server_actor(name: str) -> str:
    return f"{ENSEMBLE} {name}"


def samples(readings: Mapping[str, Reading]) -> dict[str, int | None]:
    """The numbers of one round by series, such as ``zookeeper outstanding zk1:2181``."""
    found: dict[str, int | None] = {}
    for name, each in readings.items():
        found[series(OUTSTANDING, name)] = each.outstanding
        found[series(CONNECTIONS, name)] = each.connections
        found[series(RESPONSE, name)] = None if each.state in DOWN else _step_ms(each.response_ms)
        found[series(EPOCH, name)] = None if each.zxid is None else each.zxid >> _EPOCH_BITS
    return found


def series(what: str, name: str) -> str:
    return f"zookeeper {what} {name}"


def _step_ms(response_ms: int) -> int:
    return max(step for step in _STEPS_MS if step <= max(0, response_ms))


def _sign(reading: Reading, latency_max_before_ms: int | None) -> str:
    latest_ms = reading.latency_max_ms or 0
    if latency_max_before_ms is not None and latest_ms > latency_max_before_ms and latest_ms >= SLOW_REQUEST_MS:
        return f"a request took {latest_ms} ms"
    if (reading.outstanding or 0) >= MANY_OUTSTANDING:
        return f"{reading.outstanding} requests wait"
    return f"it took {reading.response_ms} ms to respond" if reading.response_ms >= SLOW_RESPONSE_MS else ""


def _changed(known: _State, state: str, now_ms: int, event: Callable[[str, int], Event]) -> list[Event]:
    if known.state == state:
        return []
    told = event(known.state, max(0, now_ms - known.since_ms) if known.state else 0)
    known.state, known.since_ms = state, now_ms
    return [told]
