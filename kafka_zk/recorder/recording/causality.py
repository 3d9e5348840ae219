"""Finds the cause of each entry of a recording as entries arrive. Pure.

An edge is *certain* if ZooKeeper or the process itself states it: a watch fires for a change of its znode, a read
follows a watch that fired, ephemeral znodes end with their session, an event names its change's zxid. Other edges are
only *likely*: a broker's new role follows the last write of the partition's state, the end of a session follows an
operator's act on its process or an outage of ZooKeeper, and anything else follows the process's last reported event.
The page draws likely edges dotted.
"""

from collections.abc import Hashable
from typing import NamedTuple, TypeVar

from kafka_zk.base.events import Event
from kafka_zk.broker.process.events import ClientsSeen
from kafka_zk.broker.replica.events import RoleChanged
from kafka_zk.broker.security.events import Denied
from kafka_zk.recorder.recording.session_names import process_of
from kafka_zk.recorder.timeline.cluster_events import OperatorActed
from kafka_zk.recorder.zookeeper_health.answers import DOWN
from kafka_zk.recorder.zookeeper_health.events import EnsembleStateChanged, ServerStateChanged, ZooKeeperEvent
from kafka_zk.registry.client.client import EventType, SessionState
from kafka_zk.registry.client.events import Reread, SessionChanged, WatchArmed, WatchFired
from kafka_zk.registry.znodes import topics

CLOSELY_MS = 5_000
"""Maximum age of a reported event that is a likely cause."""
ACTED_MS = 30_000
"""Maximum age of an operator's act that is a likely cause of a session's end; or the session timeout, if longer."""
LATE_END_MS = 5_000
"""ZooKeeper checks once per tick, so it may end a session late."""
TOLD_LATE_MS = 2_000
"""An act may be reported after its effect."""
_ENDS_SESSIONS = frozenset(("kill", "pause", "expire", "cut", "delay", "fill-disk", "leave", "crash"))
_UNDOES = {"resume": ("pause",), "mend": ("cut", "delay"), "free-disk": ("fill-disk",)}
_OF_CLIENTS = (ClientsSeen, Denied)
"""Reports about clients are neither causes nor effects."""
_KEPT = 200_000
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Cause(NamedTuple):
    """``seq``: number of the causing entry."""

    seq: int
    certain: bool


class _Told(NamedTuple):
    seq: int
    time_ms: int


class _Act(NamedTuple):
    seq: int
    time_ms: int
    action: str


class _Outage(NamedTuple):
    """``to_ms`` None: it lasts."""

    seq: int
    from_ms: int
    to_ms: int | None


class Causality:
    """Latest entries by path and by process, in bounded memory."""

    def __init__(self) -> None:
        self._data_changed: dict[str, int] = {}
        self._children_changed: dict[str, int] = {}
        self._by_zxid: dict[int, int] = {}
        self._fired: dict[tuple[str, str], int] = {}
        self._reread: dict[tuple[str, str], int] = {}
        self._last: dict[str, _Told] = {}
        self._acts: dict[str, _Act] = {}
        self._ended: dict[str, _Told] = {}
        self._server_changed = _Told(0, 0)
        self._outage: _Outage | None = None

    def of_change(self, actor: str, time_ms: int) -> Cause | None:
        last = self._last.get(process_of(actor))
        if last is None or time_ms - last.time_ms > CLOSELY_MS:
            return None
        return Cause(last.seq, certain=False)

    def of_session_end(self, actor: str, time_ms: int, timeout_ms: int) -> Cause | None:
        """``timeout_ms``: 0 if unknown."""
        act = self._acts.pop(actor, None)  # an act ends only one session
        latest_ms = max(ACTED_MS, timeout_ms + LATE_END_MS)
        if act is None or time_ms - act.time_ms > latest_ms:
            return self._of_outage(time_ms, latest_ms)
        return Cause(act.seq, certain=False)

    def ended(self, seq: int, actor: str, time_ms: int) -> None:
        """A session has ended, and the cause is not known yet."""
        _remember(self._ended, actor, _Told(seq, time_ms))

    def changed(self, seq: int, zxid: int, path: str, *, created_or_deleted: bool) -> None:
        _remember(self._data_changed, path, seq)
        _remember(self._by_zxid, zxid, seq)
        if created_or_deleted:
            _remember(self._children_changed, path.rpartition("/")[0] or "/", seq)

    def of_event(self, event: Event) -> Cause | None:
        found: int | None = None
        if isinstance(event, _OF_CLIENTS):
            return None
        if isinstance(event, ZooKeeperEvent):
            is_verdict = isinstance(event, EnsembleStateChanged) and self._server_changed.time_ms == event.time_ms
            return Cause(self._server_changed.seq, certain=True) if is_verdict else None
        if isinstance(event, SessionChanged) and event.state is not SessionState.CONNECTED:
            return self._of_outage(event.time_ms, CLOSELY_MS)
        if isinstance(event, WatchFired):
            changes = self._children_changed if event.type is EventType.CHILD else self._data_changed
            found = None if event.type is EventType.NONE else changes.get(event.path)
        elif isinstance(event, Reread):
            found = self._fired.get((event.actor, event.path))
        elif isinstance(event, WatchArmed):
            found = self._reread.get((event.actor, event.path))
        elif event.zxid:
            found = self._by_zxid.get(event.zxid)
        if found is not None:
            return Cause(found, certain=True)
        if isinstance(event, RoleChanged):
            found = self._data_changed.get(topics.state_path(event.partition.topic, event.partition.partition))
            if found is not None:
                return Cause(found, certain=False)
        last = self._last.get(process_of(event.actor))
        if last is None or isinstance(event, SessionChanged) or event.time_ms - last.time_ms > CLOSELY_MS:
            return None
        return Cause(last.seq, certain=False)

    def told(self, seq: int, event: Event) -> int | None:
        """The entry of the session's end that this event, an operator's act, has caused."""
        ended = None
        if isinstance(event, WatchFired):
            _remember(self._fired, (event.actor, event.path), seq)
        elif isinstance(event, Reread):
            _remember(self._reread, (event.actor, event.path), seq)
        elif isinstance(event, ServerStateChanged):
            self._server_changed = _Told(seq, event.time_ms)
        elif isinstance(event, EnsembleStateChanged):
            self._outage = _outage(self._outage, seq, event)
        elif isinstance(event, OperatorActed):
            ended = self._acted(seq, event)
        if not isinstance(event, (WatchArmed, ZooKeeperEvent, *_OF_CLIENTS)):
            self._last[process_of(event.actor)] = _Told(seq, event.time_ms)
        return ended

    def _of_outage(self, time_ms: int, latest_ms: int) -> Cause | None:
        """The outage of ZooKeeper that lasts then, or ended at most ``latest_ms`` before."""
        outage = self._outage
        if outage is None or time_ms < outage.from_ms:
            return None
        is_over = outage.to_ms is not None and time_ms - outage.to_ms > latest_ms
        return None if is_over else Cause(outage.seq, certain=False)

    def _acted(self, seq: int, act: OperatorActed) -> int | None:
        target = _target(act)
        if target in self._acts and self._acts[target].action in _UNDOES.get(act.action, ()):
            del self._acts[target]
        if act.action not in _ENDS_SESSIONS:
            return None
        ended = self._ended.pop(target, None)  # the next act did not end this session
        if ended is not None and abs(act.time_ms - ended.time_ms) <= TOLD_LATE_MS:
            return ended.seq
        _remember(self._acts, target, _Act(seq, act.time_ms, act.action))
        return None


def _outage(known: _Outage | None, seq: int, event: EnsembleStateChanged) -> _Outage | None:
    if event.state in DOWN:
        return known if known is not None and known.to_ms is None else _Outage(seq, event.time_ms, None)
    return None if known is None else known._replace(to_ms=event.time_ms if known.to_ms is None else known.to_ms)


def _target(act: OperatorActed) -> str:
    """``broker 1`` is broker-1, ``board/anna`` is the member board_anna."""
    return act.target.replace("broker ", "broker-", 1) if "/" not in act.target else act.target.replace("/", "_", 1)


def _remember(known: dict[Key, Value], key: Key, value: Value) -> None:
    known.pop(key, None)
    known[key] = value
    if len(known) > _KEPT:
        del known[next(iter(known))]
